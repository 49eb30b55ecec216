"""What the daemon actor is given once and for all."""

from __future__ import annotations

import secrets
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol

from nodemanager.core.explain.picture import Picture
from nodemanager.core.model.world import Guarantee
from nodemanager.journal.api import Journal


class Identity(Protocol):
    """Remembers the account and the store over restarts (L5)."""

    def check(self, kind: str, seen: str) -> str | None:
        """None when `seen` is what was known (or the first), else a line that says what differs.

        Raises StartError while what is known can't be read, or the first can't be kept.
        """
        ...

    def check_age(self, store_id: str, beats: int) -> str | None:
        """None while that store's count of heartbeats never fell, else a line that says so.

        It stays until an operator forgets it. Raises StartError as `check` does.
        """
        ...


class BacklogKeeper(Protocol):
    """Remembers over restarts what the first plan with cleans in it held back (S5)."""

    def load(self) -> tuple[bool, frozenset[str]]:
        """Whether there was no such plan yet, and what is held back."""
        ...

    def save(self, backlog: frozenset[str]) -> None:
        """Keep it, on the disk when this returns. Raises StartError where it can't be kept."""
        ...


class NoBacklog:
    """Every record is ours to judge from the start."""

    def load(self) -> tuple[bool, frozenset[str]]:
        return False, frozenset()

    def save(self, backlog: frozenset[str]) -> None:
        return


@dataclass(frozen=True, slots=True)
class Once:
    """`--once`: one plan is applied, its outcomes are awaited, then `finished` gets the code."""

    finished: Callable[[int], None]


@dataclass(frozen=True)
class DaemonInputs:
    """What the daemon actor is given once and for all.

    `mode` is `apply` or `dry-run`; `token` is the lease's fencing token. `repeats_creates` says
    that the cloud makes one node of creates with one client token (U9). `show` is given each
    decision; it returns at once and never raises.
    """

    manager: str
    mode: str
    guarantee: Guarantee
    fence_wait: float
    identity: Identity
    journal: Journal
    backlog: BacklogKeeper = field(default_factory=lambda: NoBacklog())
    repeats_creates: bool = False
    holds_lease: Callable[[], bool] = lambda: True
    show: Callable[[Picture], None] = lambda picture: None
    token: int = 0
    once: Once | None = None
    run_id: str = field(default_factory=lambda: secrets.token_hex(2))
