"""Where log lines go, and what happens when they can't get there.

Each line is one write to a file descriptor: lines of several threads or processes never mix, and a
full disk tears at most one. A line that can't be written is counted, never raised into the caller
and never answered with a traceback; the first line that gets through again is preceded by one that
says how many were lost.
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
"""Makes the record that tells of so many lost lines."""


def journal_listens(stream: str | None, descriptor: int = STDERR) -> bool:
    """Whether `descriptor` is the very socket that $JOURNAL_STREAM (`stream`) names.

    The variable alone says nothing: a child whose output was redirected still inherits it.
    Format of the variable: `device:inode`, decimal (systemd.exec(5)).
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
    """What a logging handler calls a stream: whole lines to a file descriptor, unbuffered."""

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
    """Mixed in before a stream's handler: no line lost in silence, none lost with a noise."""

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
        """Called once for each time that lines begin to get lost."""

    def _written(self, record: logging.LogRecord) -> bool:
        self._failed = False
        try:
            super().emit(record)
        except Exception:
            # Whatever a handler raises, the line is counted as lost, and its caller goes on.
            return False
        return not self._failed


class StdioHandler(_Outlet, logging.StreamHandler[Any]):
    """Lines to standard output or error."""

    def __init__(self, descriptor: int) -> None:
        super().__init__(Descriptor(descriptor, owned=False))


class FileHandler(_Outlet, WatchedFileHandler):
    """Lines to a file that is created 0640 and opened anew once it was moved or removed."""

    def __init__(self, path: str) -> None:
        super().__init__(path)

    def _open(self) -> Any:
        flags = os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC | os.O_NOCTTY
        try:
            descriptor = os.open(self.baseFilename, flags | os.O_CREAT | os.O_EXCL, 0o640)
        except FileExistsError:
            return Descriptor(os.open(self.baseFilename, flags | os.O_CREAT, 0o640), owned=True)
        # Ours and new: the mode is meant, whatever the umask.
        os.fchmod(descriptor, 0o640)
        return Descriptor(descriptor, owned=True)

    def first_lost(self) -> None:
        # Somebody may read this, where the file can't tell.
        note = f"nodemanager: can't write the log {self.baseFilename}; lines are being lost\n"
        with suppress(OSError):
            os.write(STDERR, note.encode("utf-8", "backslashreplace"))
