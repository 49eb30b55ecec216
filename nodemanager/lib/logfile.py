"""Log handlers that write each line at once and count the lines that they can't write.

Each line is one write to a file descriptor. So lines of several threads or processes never mix,
and a full disk truncates at most one. A line that can't be written is counted; it raises nothing
into its caller and prints no traceback. The next line that can be written is preceded by one that
tells how many were lost.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable
from contextlib import suppress
from logging.handlers import WatchedFileHandler
from typing import Any

STDERR = 2
_STDIO = {"": 2, "-": 2, "stderr": 2, "/dev/stderr": 2, "stdout": 1, "/dev/stdout": 1}

LostLine = Callable[[int], logging.LogRecord]
"""Makes the log record that reports this number of lost lines."""


def journal_listens(stream: str | None, descriptor: int = STDERR) -> bool:
    """Whether `descriptor` is the socket that $JOURNAL_STREAM (`stream`) names.

    The variable alone proves nothing: a child whose output was redirected still inherits it.
    Its format is `device:inode`, decimal (systemd.exec(5)).
    """
    device, colon, inode = (stream or "").partition(":")
    if not colon:
        return False
    try:
        seen = os.fstat(descriptor)
    except OSError:
        return False
    return (device, inode) == (str(seen.st_dev), str(seen.st_ino))


def stdio_descriptor(file: str) -> int | None:
    """1 or 2 when `file` means standard output or error, else None."""
    return _STDIO.get(file)


class Descriptor:
    """A stream for a logging handler: writes whole lines to a file descriptor, unbuffered."""

    def __init__(self, descriptor: int, *, owned: bool) -> None:
        self._descriptor = descriptor
        self._owned = owned
        self._torn = False

    def write(self, line: str) -> None:
        data = line.encode("utf-8", "backslashreplace")
        if self._torn:
            data = b"\n" + data
        done = 0
        try:
            while done < len(data):
                done += os.write(self._descriptor, data[done:])
        finally:
            if done:
                self._torn = data[done - 1 : done] != b"\n"

    def flush(self) -> None:
        pass

    def close(self) -> None:
        if self._owned:
            with suppress(OSError):
                os.close(self._descriptor)

    def fileno(self) -> int:
        return self._descriptor


class _Outlet(logging.Handler):
    """Mix-in before a stream handler that counts and reports lost lines and raises nothing."""

    lost = 0
    levels: frozenset[str] = frozenset()
    """The loggers whose level was set along with this handler."""
    lost_line: LostLine | None = None
    _failed = False

    def emit(self, record: logging.LogRecord) -> None:
        if self.lost and self.lost_line is not None:
            if not self._written(self.lost_line(self.lost)):
                self.lost += 1
                return
            self.lost = 0
        if not self._written(record):
            self.lost += 1
            if self.lost == 1:
                self.first_lost()

    def handleError(self, record: logging.LogRecord) -> None:
        self._failed = True

    def first_lost(self) -> None:
        """Called when the first line of a series is lost."""

    def _written(self, record: logging.LogRecord) -> bool:
        self._failed = False
        try:
            super().emit(record)
        except Exception:
            # Whatever a handler raises: the line counts as lost and the caller goes on.
            return False
        return not self._failed


class StdioHandler(_Outlet, logging.StreamHandler[Any]):
    """Writes lines to standard output or error."""

    def __init__(self, descriptor: int) -> None:
        super().__init__(Descriptor(descriptor, owned=False))


class FileHandler(_Outlet, WatchedFileHandler):
    """Writes lines to a file, created 0640, and reopens it once it was moved or removed."""

    def __init__(self, path: str) -> None:
        super().__init__(path)

    def _open(self) -> Any:
        flags = os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC | os.O_NOCTTY
        try:
            descriptor = os.open(self.baseFilename, flags | os.O_CREAT | os.O_EXCL, 0o640)
        except FileExistsError:
            return Descriptor(os.open(self.baseFilename, flags | os.O_CREAT, 0o640), owned=True)
        # We created the file: its mode must not depend on the umask.
        os.fchmod(descriptor, 0o640)
        return Descriptor(descriptor, owned=True)

    def first_lost(self) -> None:
        # The file can't tell of the failure, but somebody may read standard error.
        note = f"nodemanager: can't write the log {self.baseFilename}; lines are being lost\n"
        with suppress(OSError):
            os.write(STDERR, note.encode("utf-8", "backslashreplace"))
