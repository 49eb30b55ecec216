"""What the daemon actor is given at its start."""

from __future__ import annotations

import secrets
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol

from nodemanager.core.explain.picture import Picture
from nodemanager.core.model.world import Guarantee
from nodemanager.journal.api import Journal


class IdentityStore(Protocol):
    """Remembers the account and the store over restarts (L5)."""

    def check(self, kind: str, seen: str) -> str | None:
        """None if `seen` is the known one or the first; else a text that says what differs.

        Raises StartError if the known one can't be read, or the first one can't be kept.
        """
        ...

    def check_age(self, store_id: str, beats: int) -> str | None:
        """None if that store's count of heartbeats never fell; else a text that says so.

        The text stays until an operator clears it. Raises StartError as `check` does.
        """
        ...


class BacklogKeeper(Protocol):
    """Remembers over restarts what the first plan with cleans in it held back (S5)."""

    def load(self) -> tuple[bool, frozenset[str]]:
        """Whether there was no such plan yet, and what is held back."""
        ...

    def save(self, backlog: frozenset[str]) -> None:
        """Write it to the disk. Raises StartError if that fails."""
        ...


class NoBacklog:
    """Holds nothing back: every record is judged from the start."""

    def load(self) -> tuple[bool, frozenset[str]]:
        return False, frozenset()

    def save(self, backlog: frozenset[str]) -> None:
        return


@dataclass(frozen=True, slots=True)
class RunOnce:
    """`--once`: one plan is applied, then `finished` is called with the exit code."""

    finished: Callable[[int], None]


@dataclass(frozen=True)
class DaemonInputs:
    """What the daemon actor is given at its start.

    `mode` is `apply` or `dry-run`; `token` is the lease's fencing token. `repeats_creates` says
    that the cloud makes one node of creates with one client token (U9). `show` is given each
    decision; it returns at once and never raises.
    """

    manager: str
    mode: str
    guarantee: Guarantee
    fence_wait: float
    identity: IdentityStore
    journal: Journal
    backlog: BacklogKeeper = field(default_factory=lambda: NoBacklog())
    repeats_creates: bool = False
    holds_lease: Callable[[], bool] = lambda: True
    show: Callable[[Picture], None] = lambda picture: None
    token: int = 0
    once: RunOnce | None = None
    run_id: str = field(default_factory=lambda: secrets.token_hex(2))
