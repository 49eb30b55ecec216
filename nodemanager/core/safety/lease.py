"""Who may act for a pool, and from when on (SAFETY.md L6, T2).

The lease is a row that its holder renews. Two managers on two machines must never both believe that
they have it, whatever their clocks and the database's do:

- The holder counts the lease from before it sent the renewal, on its own CLOCK_BOOTTIME.
- Another takes the lease only after it has itself watched the row for a whole lease's time, on its
  own CLOCK_BOOTTIME, and nobody renewed it.

The database's clock decides nothing. Set forward, it would end the lease of a holder that acts;
set back, it would keep the lease of a dead one from everybody. After a failover it is another
machine's.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

RESERVE = 0.1
"""The part of a lease at its end in which nothing is sent any more: an order that was checked a
moment before has time to go out, and two machines' clocks need not run equally fast."""
RENEWALS = 3
"""How often a lease is renewed within its time."""


@dataclass(frozen=True, slots=True)
class LeaseRow:
    """The pool's row as it was read.

    `holder` is None once it was given back. `token` counts the holders, `renewals` what this one
    did. `duration` is the holder's own. `left_s`, what the database's clock leaves of it, is only
    shown.
    """

    holder: str | None
    token: int
    renewals: int
    duration: float
    left_s: float

    @property
    def version(self) -> tuple[int, int]:
        """Changes with each new holder and each renewal."""
        return self.token, self.renewals


@dataclass(frozen=True, slots=True)
class Sighting:
    """The newest row, and since when we have known this version of it, CLOCK_BOOTTIME."""

    row: LeaseRow
    since: float


def sighted(before: Sighting | None, row: LeaseRow, at: float) -> Sighting:
    """What is known after a look whose answer came at `at`."""
    unchanged = before is not None and before.row.version == row.version
    return Sighting(row, before.since if before is not None and unchanged else at)


def may_take(seen: Sighting, now: float) -> bool:
    """Whether the lease may be taken from who had it: nobody can believe to have it any more."""
    return seen.row.holder is None or now - seen.since >= seen.row.duration


def ends_at(sent_at: float, duration: float) -> float:
    """When who took or renewed the lease, by a request that it sent at `sent_at`, sends its last
    order (CLOCK_BOOTTIME)."""
    return sent_at + duration * (1 - RESERVE)


def acts_from(taken_at: float, call_s: float, *, was_given_back: bool) -> float:
    """When a new holder may send its first order (CLOCK_BOOTTIME).

    Until then a request that the former one sent in its last moment may be under way; `call_s` is
    the longest time that one takes. Who gave the lease back had waited for its own.
    """
    return taken_at if was_given_back else taken_at + call_s


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
    `error` is why its database could not be asked just now.
    """

    role: LeaseRole
    holder: str | None = None
    token: int = 0
    until: float | None = None
    error: str | None = None

    @property
    def is_active(self) -> bool:
        return self.role is LeaseRole.ACTIVE
