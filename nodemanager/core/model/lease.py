"""The lease: who may act for a pool (SAFETY.md L6). Several managers may run; one holds it."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class LeaseRole(StrEnum):
    """What this manager is to its pool."""

    ACTIVE = "active"
    STANDBY = "standby"
    NONE = "none"
    """It is a dry run, or it lacks the lease for the moment and nobody is known to have it."""


@dataclass(frozen=True, slots=True)
class LeaseView:
    """The lease as status and health show it.

    `holder` is who acts for the pool, as far as it is known; `token` counts the holders. `until` is
    when the lease ends unless it is renewed, in epoch seconds; None for a lock, which has no end.
    """

    role: LeaseRole
    holder: str | None = None
    token: int = 0
    until: float | None = None

    @property
    def is_active(self) -> bool:
        return self.role is LeaseRole.ACTIVE
