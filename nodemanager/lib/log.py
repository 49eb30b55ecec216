"""The log: one event a line, its name and keys from closed lists, secrets masked.

    log = get(__name__)
    log.event(Event.RECORD_CLEAN, reason=Reason.STALE_SLOT, record=uuid, idle_s=9012.0)

Lines go through the standard logging, so that a test reads them with `caplog` and `fields_of`.
Libraries' lines get the same form, as `event=library`.

Logfmt lines of level INFO carry no `level=`: nearly all decisions are INFO, and so a search for
`level=` finds the lines that report a problem. JSON lines always have it.
"""

from __future__ import annotations

import logging
import os
import sys
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from logging.handlers import WatchedFileHandler
from traceback import format_exception
from typing import TYPE_CHECKING, Any

from nodemanager.core.model.keys import LogKey
from nodemanager.core.model.reasons import Event
from nodemanager.errors import StartError
from nodemanager.lib import redact
from nodemanager.lib.logline import RENDERERS, Fields, describe, timestamp
from nodemanager.lib.logscreen import Screen, is_terminal, wants_colours

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


if TYPE_CHECKING:
    from sys import UnraisableHookArgs

DEBUG, INFO, WARNING, ERROR = logging.DEBUG, logging.INFO, logging.WARNING, logging.ERROR
CRITICAL = logging.CRITICAL

Listener = Callable[[Event, int, Fields], None]
"""Called with an event, its level and its fields in the thread that logs it; must return at once
and never raise."""

_OURS = "nodemanager"
AUTO = "auto"
"""The format that a terminal decides."""
_KEYS = frozenset(key.value for key in LogKey)
# sd-daemon(3): the journal strips this prefix and stores the line with that priority. A line
# without it gets priority 6, which is INFO's.
_PRIORITY = {"debug": "<7>", "warning": "<4>", "error": "<3>", "critical": "<2>"}


class _Line(dict[str, Any]):
    """The fields of one of our lines, with every secret masked."""


class Logger:
    """A named source of log lines; a line below its level costs only a look-up."""

    __slots__ = ("_std", "listeners")

    strict = False
    """Raise on an unknown event or key, as tests do; production logs it anyway."""

    def __init__(self, name: str) -> None:
        self.listeners: list[Listener] = []
        """Called for every event, even one below the level that is written."""
        self._std = logging.getLogger(name)

    def enabled(self, level: int) -> bool:
        """Whether a line of `level` would be written; check before computing costly fields."""
        return self._std.isEnabledFor(level)

    def event(self, event: Event, /, *, level: int = INFO, **fields: object) -> None:
        """Write one line. Fields that are None are left out; `error=` takes an exception."""
        if self.strict:
            _check(event, fields)
        for listener in self.listeners:
            listener(event, level, fields)
        if self._std.isEnabledFor(level):
            self._write(level, event, fields)

    def failure(
        self, event: Event, error: BaseException, /, *, level: int = ERROR, **fields: object
    ) -> None:
        """Write one line with `error=` and `traceback=`, for errors that should not happen."""
        if self.strict:
            _check(event, fields)
        for listener in self.listeners:
            listener(event, level, {**fields, LogKey.ERROR: error})
        if self._std.isEnabledFor(level):
            fields |= {LogKey.ERROR: error, LogKey.TRACEBACK: _traceback(error)}
            self._write(level, event, fields)

    def _write(self, level: int, event: Event, fields: Fields) -> None:
        line = _Line(masked({LogKey.EVENT: event, **fields}))
        # As `log` does, without a search for the line that called it: no format shows that.
        self._std.handle(logging.LogRecord(self._std.name, level, "", 0, line, (), None))


def get(name: str) -> Logger:
    """A logger of that name: a module's `__name__`."""
    return Logger(name)


def setup(
    file: str, level: str, levels: Mapping[str, str] | None = None, format: str = "logfmt"
) -> None:
    """Send the log to `file`, from `level` up; may be called again with other settings.

    `file` is a path, or `/dev/stderr`, `stderr`, `-` or nothing for standard error, or
    `/dev/stdout` or `stdout`. `levels` has a level per logger name. Libraries log from WARNING up
    unless `levels` names them: their DEBUG lines drown ours and quote requests. The `format` auto
    is for people where `file` is a terminal, and logfmt elsewhere. Raises StartError,
    and leaves the log as it was, when `file` can't be written.
    """
    wanted = _levels(level, levels or {})
    handler = _handler(file)
    descriptor = stdio_descriptor(file)
    journal = descriptor is not None and journal_listens(
        os.environ.get("JOURNAL_STREAM"), descriptor
    )
    screen = None
    if format == AUTO:
        format = "logfmt"
        if not journal and is_terminal(descriptor):
            screen = Screen(colours=wants_colours(os.environ))
            debug = wanted[_OURS] <= logging.DEBUG
            handler.addFilter(
                lambda record: screen.shows(fields_of(record), record.created, debug=debug)
            )
    handler.setFormatter(_Formatter(format, journal=journal, screen=screen))
    handler.lost_line = _lost_line

    root = logging.getLogger()
    for old in [each for each in root.handlers if isinstance(each, (FileHandler, StdioHandler))]:
        for name in old.levels:
            logging.getLogger(name).setLevel(logging.NOTSET)
        root.removeHandler(old)
        old.close()
    handler.levels = frozenset(wanted) - {""}
    for name, number in wanted.items():
        logging.getLogger(name).setLevel(number)
    root.addHandler(handler)
    logging.captureWarnings(True)


def hide(*secrets: str | None) -> None:
    """Mask these values in every line from now on, under any key and in any text."""
    redact.HIDDEN.add(*secrets)


def catch_uncaught() -> None:
    """Log uncaught exceptions of every thread and finaliser as one line each."""
    out = get(_OURS)

    def of_main(kind: type[BaseException], error: BaseException, _: object) -> None:
        if isinstance(error, KeyboardInterrupt):
            sys.__excepthook__(kind, error, error.__traceback__)
        else:
            out.failure(Event.UNCAUGHT, error, level=CRITICAL)

    def of_thread(seen: threading.ExceptHookArgs) -> None:
        if seen.exc_value is not None and not isinstance(seen.exc_value, SystemExit):
            name = seen.thread.name if seen.thread else None
            out.failure(Event.UNCAUGHT, seen.exc_value, level=CRITICAL, thread=name)

    def of_finaliser(seen: UnraisableHookArgs) -> None:
        if seen.exc_value is not None:
            out.failure(Event.UNCAUGHT, seen.exc_value, problem=seen.err_msg)

    sys.excepthook, threading.excepthook, sys.unraisablehook = of_main, of_thread, of_finaliser


def fields_of(record: logging.LogRecord) -> dict[str, Any]:
    """The fields of one of our lines, `event` first, for tests; {} for a library's line."""
    return dict(record.msg) if isinstance(record.msg, dict) else {}


class _Formatter(logging.Formatter):
    def __init__(self, format: str, *, journal: bool, screen: Screen | None = None) -> None:
        self._screen = screen
        self._render = RENDERERS[format]
        self._always_level = format == "json"
        self._journal = journal
        super().__init__()

    def format(self, record: logging.LogRecord) -> str:
        try:
            said: object = record.msg
            ours = dict(said) if isinstance(said, _Line) else None
            return self._line(record, ours or masked(_library(record)))
        except Exception as error:
            # Mostly a library's line whose arguments don't fit its text: log it unformatted.
            fields: dict[str, Any] = {
                LogKey.EVENT: Event.LIBRARY,
                LogKey.LOGGER: record.name,
                LogKey.MESSAGE: redact.text(repr(record.msg)),
                LogKey.ERROR: redact.text(describe(error)),
            }
            return self._line(record, fields)

    def _line(self, record: logging.LogRecord, fields: dict[str, Any]) -> str:
        level = record.levelname.lower()
        if self._screen is not None:
            return self._screen.line(fields, record.created, level)
        head: dict[str, Any] = {}
        if not self._journal:
            head[LogKey.TS] = timestamp(record.created)
        head[LogKey.EVENT] = fields.pop(LogKey.EVENT)
        if record.levelno != INFO or self._always_level:
            head[LogKey.LEVEL] = level
        line = self._render({**head, **fields})
        return _PRIORITY.get(level, "") + line if self._journal else line


def _library(record: logging.LogRecord) -> dict[str, Any]:
    """A library's message and exception as the fields of an event."""
    found: dict[str, Any] = {
        LogKey.EVENT: Event.LIBRARY,
        LogKey.LOGGER: record.name,
        LogKey.MESSAGE: record.getMessage().strip(),
    }
    error = record.exc_info[1] if record.exc_info else None
    if error is not None:
        found.update({LogKey.ERROR: error, LogKey.TRACEBACK: _traceback(error)})
    return found


def masked(fields: dict[str, Any]) -> dict[str, Any]:
    """The same fields with every secret masked."""
    secret_option = redact.is_secret(str(fields.get(LogKey.OPTION, "")))
    for key, given in fields.items():
        if isinstance(given, BaseException):
            given = describe(given)
        if secret_option and key in (LogKey.OLD, LogKey.NEW) and given is not None:
            fields[key] = redact.MASK
        else:
            fields[key] = redact.value(key, given)
    return fields


def _traceback(error: BaseException) -> str:
    return "".join(format_exception(error)).strip()


def _check(event: Event, fields: Mapping[str, object]) -> None:
    if not isinstance(event, Event):
        raise TypeError(f"{event!r} is no Event; add it to core.model.reasons")
    if unknown := sorted(set(fields) - _KEYS):
        raise ValueError(f"{event.value}: no such key: {', '.join(unknown)}; see core.model.keys")


def _levels(level: str, levels: Mapping[str, str]) -> dict[str, int]:
    """The level of each logger by name; "" is the root, whose level only libraries inherit."""
    known = logging.getLevelNamesMapping()
    ours = known[level]
    return {"": max(ours, WARNING), _OURS: ours} | {
        name: known[wanted] for name, wanted in levels.items()
    }


def _handler(file: str) -> FileHandler | StdioHandler:
    descriptor = stdio_descriptor(file)
    if descriptor is not None:
        return StdioHandler(descriptor)
    try:
        return FileHandler(file)
    except OSError as error:
        raise StartError(
            f"[Logging] file = {file}: {error.strerror}; the log can't be written there"
        ) from error


def _lost_line(lost: int) -> logging.LogRecord:
    record = logging.LogRecord(_OURS, WARNING, "", 0, "", (), None)
    record.msg = _Line({LogKey.EVENT: Event.LOG_LOST, LogKey.COUNT: lost})
    return record
