"""The state directory: the lease, and the few facts that must outlive the process.

    PATH/lock           who runs on this pool; the kernel lets go of it when that process ends
    PATH/facts.json     what was seen at first: the store's id, the account (SAFETY.md L5)
    PATH/NAME.token     a token that was made because the configuration gave none

All of it is the owner's alone. A file that can't be read is reported and left as it is: to
replace it would be to forget which store and which account this manager may write to.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import re
import secrets
import stat
from dataclasses import dataclass
from pathlib import Path
from threading import Lock

from nodemanager.clock import Clock, SystemClock
from nodemanager.errors import StartError
from nodemanager.logline import timestamp
from nodemanager.redact import HIDDEN

Fact = str | int | float | bool | None

_FACTS = "facts.json"
_LOCK = "lock"
_FORMAT = 1
_NAME = re.compile(r"[a-z][a-z0-9_-]*")


class LeaseTaken(StartError):
    """Another daemon has, or had, the pool since: this one ends."""


@dataclass(frozen=True, slots=True)
class Mismatch:
    """Something is not what it was at the first start: nothing may be written to it (L5)."""

    kind: str
    known: str
    seen: str


class Lease:
    """The right to act on a pool: held while this process lives, or until `release` (L6).

    A lock file that was removed (`rm`, a cleaner of old files) holds nobody off any more: until it
    is regained nothing may be written.
    """

    def __init__(self, descriptor: int, path: Path) -> None:
        self._descriptor: int | None = descriptor
        self.path = path

    @property
    def held(self) -> bool:
        """Whether PATH/lock still is the file that was locked: one removed may be locked anew."""
        if self._descriptor is None:
            return False
        try:
            ours, there = os.fstat(self._descriptor), os.stat(self.path)
        except OSError:
            return False
        return (ours.st_dev, ours.st_ino) == (there.st_dev, there.st_ino)

    def regain(self, clock: Clock) -> None:
        """Lock it anew where the file was removed, and nobody has made another since.

        Raises LeaseTaken where somebody has: they may have written whatever we know by heart.
        Raises StartError where it can't be made now.
        """
        try:
            descriptor = _locked(self.path, os.O_EXCL, clock)
        except FileExistsError as error:
            if self.held:
                return
            raise LeaseTaken(f"{self.path} was removed, and is another daemon's by now") from error
        # Its lock is on a file that has no name: nobody waits for that one.
        before, self._descriptor = self._descriptor, descriptor
        if before is not None:
            os.close(before)

    def release(self) -> None:
        """Let go of it; idempotent. The file stays: to remove it would let two hold the lock."""
        descriptor, self._descriptor = self._descriptor, None
        if descriptor is not None:
            with contextlib.suppress(OSError):
                os.ftruncate(descriptor, 0)
            os.close(descriptor)


class StateDirectory:
    """The state directory at `path`, created when it is missing. Used by several threads.

    Raises StartError, which says what to do, when it is another user's, open to others, or can't
    be had at all.
    """

    def __init__(self, path: str | os.PathLike[str], *, clock: Clock | None = None) -> None:
        self.path = Path(path)
        self._clock = clock or SystemClock()
        self._writing = Lock()
        try:
            # Parents keep the umask's mode: they may be /var/lib.
            self.path.parent.mkdir(parents=True, exist_ok=True)
            with contextlib.suppress(FileExistsError):
                os.mkdir(self.path, 0o700)
            found = os.stat(self.path)
        except OSError as error:
            raise StartError(f"state directory {self.path}: {error.strerror}") from error
        _check_directory(self.path, found)

    def lock(self) -> Lease:
        """Take the lease. Raises StartError that names who holds it."""
        path = self.path / _LOCK
        return Lease(_locked(path, 0, self._clock), path)

    def recall(self, name: str) -> Fact:
        """The fact remembered under `name`, or None. Raises StartError for a corrupt file."""
        return self._facts().get(_name(name))

    def remember(self, name: str, value: Fact) -> None:
        """Keep `value` under `name`, on the disk when this returns; None forgets it."""
        with self._writing:
            facts = self._facts()
            if value is None:
                facts.pop(_name(name), None)
            else:
                facts[_name(name)] = value
            text = json.dumps({"format": _FORMAT, "facts": facts}, indent=1, sort_keys=True)
            self._replace(_FACTS, text + "\n")

    def check_identity(self, kind: str, seen: str) -> Mismatch | None:
        """Whether `kind` (`store`, `account`) is the one known; the first seen is remembered (L5).

        A Mismatch stays one until an operator forgets the old (`remember(kind, None)`).
        """
        known = self.recall(kind)
        if known is None:
            self.remember(kind, seen)
            return None
        return None if known == seen else Mismatch(kind, str(known), seen)

    def token(self, name: str) -> str:
        """The token of that name, made at first use; in a file of its own, PATH/NAME.token.

        No log line shows it from then on.
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

    def _facts(self) -> dict[str, Fact]:
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
        """Write `file` whole or not at all, 0600, on the disk when this returns."""
        path, new = self.path / file, self.path / f"{file}.new"
        try:
            # What a crash left of an earlier try.
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
    """The descriptor of the file, opened with `more` flags, and locked.

    Raises StartError, and FileExistsError under O_EXCL.
    """
    # O_CLOEXEC: a child that kept the descriptor would keep the lease past our end, and the
    # local cloud's nodes outlive the daemon.
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
