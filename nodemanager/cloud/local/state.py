"""The state directory of a `local` cloud: its nodes and their processes.

lock            held while a node is created
first-use       epoch seconds of the first create; vanish_after counts from it
vanished        the id of the node that vanished
next-address    the number of addresses given out
nodes/ID/       meta.json, process.json, user-data (0600), log, stopping, ended.json
nodes/.new-*/   a node that has not started yet, or never will
gone/ID         nodes no longer listed; an id is never used again
"""

from __future__ import annotations

import fcntl
import json
import os
import re
import shutil
import signal
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from ipaddress import IPv4Address
from pathlib import Path
from typing import Any

from nodemanager.cloud.local.node import (
    FIRST_USE,
    GONE,
    META,
    PROCESS,
    USER_DATA,
    boot_id,
    process_stat,
    write_atomic,
)

NODES, LOCK, NEXT_ADDRESS = "nodes", "lock", "next-address"
STOPPING, ENDED = "stopping", "ended.json"
NEW = ".new-"
NODE_ID = re.compile(r"local-[0-9a-f]{20}\Z")
FIRST_ADDRESS = IPv4Address("127.0.0.2")
ADDRESSES = 1 << 22
ENDED_SHOWN = 60.0
"""Seconds for which a terminated node stays listed, as in real clouds."""
ATTEMPT_KEPT = 120.0
"""Seconds after which the directory of a node that never started is removed."""
TERM_PATIENCE, KILL_PATIENCE = 1.0, 3.0


@dataclass(frozen=True, slots=True)
class ProcessIdentity:
    """A process's identity, which a later process with the same pid can't match."""

    pid: int
    start: int
    boot_id: str

    @property
    def alive(self) -> bool:
        """Whether it runs; a zombie does not."""
        if self.boot_id != boot_id():
            return False
        seen = process_stat(self.pid)
        return seen is not None and seen[0] not in "ZXx" and seen[1] == self.start

    def end(self) -> bool:
        """End its process group with SIGTERM, then SIGKILL; True when it is dead.

        Takes TERM_PATIENCE + KILL_PATIENCE seconds at most.
        """
        for number, patience in (
            (signal.SIGTERM, TERM_PATIENCE),
            (signal.SIGKILL, KILL_PATIENCE),
        ):
            if not self.alive:
                return True
            with suppress(ProcessLookupError):
                os.killpg(self.pid, number)
            deadline = time.monotonic() + patience
            while self.alive and time.monotonic() < deadline:
                time.sleep(0.01)
        return not self.alive


@dataclass(frozen=True, slots=True)
class NodeDir:
    """One node's directory."""

    path: Path

    @property
    def id(self) -> str:
        return self.path.name

    def meta(self) -> dict[str, Any]:
        """The content of meta.json (name, size, tags, ...); raises ValueError when malformed."""
        meta = json.loads((self.path / META).read_text(encoding="utf-8"))
        if not isinstance(meta, dict):
            raise ValueError("meta.json holds no object")
        return meta

    def change_tags(self, tags: Mapping[str, str]) -> None:
        meta = self.meta()
        write_atomic(self.path / META, {**meta, "tags": {**meta.get("tags", {}), **tags}})

    def process(self) -> ProcessIdentity | None:
        """The node's process, from process.json; None when that can't be read."""
        try:
            said = json.loads((self.path / PROCESS).read_text(encoding="utf-8"))
            return ProcessIdentity(int(said["pid"]), int(said["start"]), str(said["boot_id"]))
        except (OSError, ValueError, KeyError, TypeError):
            return None

    def ended_at(self) -> float | None:
        """Epoch seconds when its end was first noticed; None while it has not been."""
        try:
            said = json.loads((self.path / ENDED).read_text(encoding="utf-8"))
            return float(said["at"])
        except (OSError, ValueError, KeyError, TypeError):
            return None

    @property
    def stopping(self) -> bool:
        return (self.path / STOPPING).exists()

    def mark_stopping(self) -> None:
        flags = os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
        os.close(os.open(self.path / STOPPING, flags, 0o600))

    def mark_ended(self, at: float) -> None:
        """Note the end, only once, and delete the user data with its secret."""
        if self.ended_at() is None:
            write_atomic(self.path / ENDED, {"at": at})
        (self.path / USER_DATA).unlink(missing_ok=True)


class StateDir:
    """A local cloud's directory, created when it does not exist."""

    def __init__(self, root: Path) -> None:
        self.root = root.absolute()
        self.nodes = self.root / NODES
        self.gone = self.root / GONE
        for directory in (self.root, self.nodes, self.gone):
            directory.mkdir(mode=0o700, parents=True, exist_ok=True)

    @contextmanager
    def creating(self, *, waits: bool = True) -> Iterator[None]:
        """A lock over threads and processes for one create at a time.

        The kernel releases it when its holder is killed. Without `waits`, raises BlockingIOError
        while somebody has it.
        """
        descriptor = os.open(self.root / LOCK, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX if waits else fcntl.LOCK_EX | fcntl.LOCK_NB)
            yield
        finally:
            os.close(descriptor)

    def note_first_use(self) -> None:
        """Note the time of the first create, for vanish_after. Call under `creating`."""
        path = self.root / FIRST_USE
        if not path.exists():
            write_atomic(path, time.time())

    def new_address(self) -> str:
        """The next address of 127/8, reused only when all were given out. Call under `creating`."""
        path = self.root / NEXT_ADDRESS
        given = int(path.read_text(encoding="ascii")) if path.exists() else 0
        write_atomic(path, given + 1)
        return str(FIRST_ADDRESS + given % ADDRESSES)

    def find(self, node_id: str) -> NodeDir | None:
        if NODE_ID.match(node_id) is None or not (self.nodes / node_id).is_dir():
            return None
        return NodeDir(self.nodes / node_id)

    def all(self) -> list[NodeDir]:
        """Every listed node, in every state."""
        names = sorted(entry.name for entry in os.scandir(self.nodes) if entry.is_dir())
        return [NodeDir(self.nodes / name) for name in names if not name.startswith(".")]

    def attempts(self) -> list[NodeDir]:
        """Nodes that have not taken their place yet."""
        names = sorted(entry.name for entry in os.scandir(self.nodes) if entry.is_dir())
        return [NodeDir(self.nodes / name) for name in names if name.startswith(NEW)]

    def new_attempt(self, node_id: str) -> Path:
        path = self.nodes / f"{NEW}{node_id}-{os.urandom(4).hex()}"
        path.mkdir(mode=0o700)
        return path

    def was_used(self, node_id: str) -> bool:
        return (self.gone / node_id).exists()

    def forget(self, node: NodeDir) -> None:
        """Take an ended node out of the listing for good."""
        with suppress(OSError):
            os.rename(node.path, self.gone / node.id)

    def drop_old_attempts(self) -> None:
        """Remove the directories of killed creates, with their secrets, after ATTEMPT_KEPT.

        Not during a create: its own directory looks old after a jump of the date.
        """
        attempts = self.attempts()
        if not attempts:
            return
        with suppress(BlockingIOError), self.creating(waits=False):
            for attempt in attempts:
                with suppress(FileNotFoundError):
                    age = time.time() - attempt.path.stat().st_mtime
                    process = attempt.process()
                    if age > ATTEMPT_KEPT and (process is None or not process.alive):
                        shutil.rmtree(attempt.path, ignore_errors=True)
