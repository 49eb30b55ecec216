"""The state directory: the lease, and the few facts that must outlive the process.

    PATH/lock           names the daemon on this pool, which locks it until it ends
    PATH/facts.json     what the first start saw: the store's id, the account (SAFETY.md L5)
    PATH/NAME.token     a token, made where the configuration gave none

Only the owner can read the files. A file that can't be read is reported and left unchanged, since
a new one would not say which store and which account this manager may write to.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import re
import secrets
import stat
from pathlib import Path
from threading import Lock

from nodemanager.actors.daemon.remembered import JsonScalar
from nodemanager.errors import StartError
from nodemanager.lib.clock import Clock, SystemClock
from nodemanager.lib.logline import timestamp
from nodemanager.lib.redact import HIDDEN

_FACTS = "facts.json"
_LOCK = "lock"
_FORMAT = 1
_NAME = re.compile(r"[a-z][a-z0-9_-]*")


class LeaseTaken(StartError):
    """Another daemon has taken the pool, or took it meanwhile: this one must end."""


class Lease:
    """The right to act on a pool: held while this process lives, or until `release` (L6).

    A lock file that somebody removed no longer keeps other daemons away, so nothing may be written
    until the lease is regained.
    """

    def __init__(self, descriptor: int, path: Path) -> None:
        self._descriptor: int | None = descriptor
        self.path = path

    @property
    def held(self) -> bool:
        """Whether PATH/lock is still the file that we locked; it may have been replaced."""
        if self._descriptor is None:
            return False
        try:
            ours, there = os.fstat(self._descriptor), os.stat(self.path)
        except OSError:
            return False
        return (ours.st_dev, ours.st_ino) == (there.st_dev, there.st_ino)

    def regain(self, clock: Clock) -> None:
        """Make and lock a new file if the old one was removed and nobody has replaced it.

        Raises LeaseTaken if somebody has: that daemon may have changed everything that we hold in
        memory. Raises StartError if the file can't be made now.
        """
        try:
            descriptor = _locked(self.path, os.O_EXCL, clock)
        except FileExistsError as error:
            if self.held:
                return
            raise LeaseTaken(
                f"{self.path} was removed, and another daemon has made a new one"
            ) from error
        # The old file has no name any more, so its lock keeps nobody away.
        before, self._descriptor = self._descriptor, descriptor
        if before is not None:
            os.close(before)

    def release(self) -> None:
        """Release the lock; idempotent. The file stays: without it two daemons could hold locks."""
        descriptor, self._descriptor = self._descriptor, None
        if descriptor is not None:
            with contextlib.suppress(OSError):
                os.ftruncate(descriptor, 0)
            os.close(descriptor)


class StateDirectory:
    """The state directory at `path`, created when it is missing. Several threads may use it.

    Raises StartError, which says what to do, when another user owns it, others can write to it,
    or it can't be made.
    """

    def __init__(self, path: str | os.PathLike[str], *, clock: Clock | None = None) -> None:
        self.path = Path(path)
        self._clock = clock or SystemClock()
        self._writing = Lock()
        try:
            # Parents, which may be /var/lib, get the umask's mode.
            self.path.parent.mkdir(parents=True, exist_ok=True)
            with contextlib.suppress(FileExistsError):
                os.mkdir(self.path, 0o700)
            found = os.stat(self.path)
        except OSError as error:
            raise StartError(f"state directory {self.path}: {error.strerror}") from error
        _check_directory(self.path, found)

    @property
    def shown(self) -> str:
        return f"{self.path}/{_FACTS}"

    def lock(self) -> Lease:
        """Take the lease. Raises StartError, which names the holder."""
        path = self.path / _LOCK
        return Lease(_locked(path, 0, self._clock), path)

    def recall(self, name: str) -> JsonScalar:
        """The fact remembered under `name`, or None. Raises StartError for a corrupt file."""
        return self._facts().get(_name(name))

    def remember(self, name: str, value: JsonScalar) -> None:
        """Write `value` under `name` to the disk; None removes it."""
        with self._writing:
            facts = self._facts()
            if value is None:
                facts.pop(_name(name), None)
            else:
                facts[_name(name)] = value
            text = json.dumps({"format": _FORMAT, "facts": facts}, indent=1, sort_keys=True)
            self._replace(_FACTS, text + "\n")

    def token(self, name: str) -> str:
        """The token of that name, made at first use and kept in PATH/NAME.token.

        From then on the log masks it.
        """
        file = f"{_name(name)}.token"
        with self._writing:
            found = self._read(file)
            if found is None:
                found = secrets.token_urlsafe(32)
                self._replace(file, found + "\n")
        token = found.strip()
        if not token or not token.isprintable() or " " in token:
            raise StartError(
                f"{self.path / file} holds no token; remove it and a new one is made, "
                "which every client that uses the old one then needs"
            )
        HIDDEN.add(token)
        return token

    def _facts(self) -> dict[str, JsonScalar]:
        text = self._read(_FACTS)
        if text is None:
            return {}
        path = self.path / _FACTS
        try:
            whole = json.loads(text)
            version, facts = whole["format"], whole["facts"]
            if not isinstance(version, int) or not isinstance(facts, dict):
                raise TypeError
        except (ValueError, KeyError, TypeError) as error:
            raise StartError(
                f"{path} can't be read: it is not what this program wrote. It holds the ids of the "
                "store and account that this manager may write to; restore it, or move it away "
                "once you have checked that the configuration names the right ones"
            ) from error
        if version > _FORMAT:
            raise StartError(
                f"{path} was written by a newer program (format {version}, this one reads "
                f"{_FORMAT}): run that one"
            )
        return facts

    def _read(self, file: str) -> str | None:
        path = self.path / file
        try:
            descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
            with open(descriptor, encoding="utf-8") as opened:
                return opened.read()
        except FileNotFoundError:
            return None
        except UnicodeDecodeError as error:
            raise StartError(f"{path} can't be read: it is not text; restore it") from error
        except OSError as error:
            raise StartError(f"{path}: {error.strerror}") from error

    def _replace(self, file: str, text: str) -> None:
        """Write `file` to the disk with mode 0600, completely or not at all."""
        path, new = self.path / file, self.path / f"{file}.new"
        try:
            # A crash may have left one behind.
            new.unlink(missing_ok=True)
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
            with open(os.open(new, flags, 0o600), "w", encoding="utf-8") as opened:
                opened.write(text)
                opened.flush()
                os.fsync(opened.fileno())
            os.replace(new, path)
            directory = os.open(self.path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            try:
                os.fsync(directory)
            finally:
                os.close(directory)
        except OSError as error:
            raise StartError(f"{path} can't be written: {error.strerror}") from error


def _locked(path: Path, more: int, clock: Clock) -> int:
    """Open the file with `more` flags and lock it; gives the descriptor.

    Raises StartError, and FileExistsError under O_EXCL.
    """
    # O_CLOEXEC: the local cloud's nodes outlive the daemon, and a child with this descriptor
    # would keep the lease.
    flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW | more
    try:
        descriptor = os.open(path, flags, 0o600)
    except FileExistsError:
        raise
    except OSError as error:
        raise StartError(f"lock {path}: {error.strerror}") from error
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        holder = os.pread(descriptor, 200, 0).decode("ascii", "replace").strip()
        os.close(descriptor)
        raise StartError(
            f"another daemon runs on this pool ({holder or 'holder unknown'}): it holds "
            f"{path}. Stop that one first, or give this one a state directory of its own"
        ) from error
    except OSError as error:
        os.close(descriptor)
        raise StartError(f"lock {path}: {error.strerror}") from error
    started = timestamp(clock.wall())
    os.ftruncate(descriptor, 0)
    os.pwrite(descriptor, f"pid {os.getpid()} since {started}\n".encode(), 0)
    return descriptor


def _check_directory(path: Path, found: os.stat_result) -> None:
    if not stat.S_ISDIR(found.st_mode):
        raise StartError(f"state directory {path} is not a directory")
    us = os.geteuid()
    if found.st_uid != us:
        raise StartError(
            f"state directory {path} belongs to user {found.st_uid}, and this is user {us}: "
            f"run as that user, or `chown -R {us} {path}`"
        )
    if found.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        raise StartError(
            f"state directory {path} can be written by others: `chmod 0700 {path}`, and see that "
            "nobody has put anything there"
        )


def _name(name: str) -> str:
    if not _NAME.fullmatch(name):
        raise ValueError(f"{name!r}: a fact's or token's name is a-z, 0-9, - and _")
    return name
