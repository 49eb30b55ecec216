"""The states of a clean: where one record stands on the way to its write (clean.py)."""

from __future__ import annotations

from dataclasses import dataclass

from nodemanager.core.execute.workflow import (
    InFlight,
    Unwritten,
)
from nodemanager.core.model.verdict import Verdict
from nodemanager.core.model.world import Record
from nodemanager.core.observe.evidence import Look
from nodemanager.core.safety.orders import CleanOrder


@dataclass(frozen=True, slots=True)
class Looking(InFlight):
    """The record is read and the cloud asked; this clean has written nothing to the store yet.

    The journal has only a clean after a destroy or a refused create: a restart finds any other
    stale record again. `error` is why the newest look failed, or UNANSWERED; a clean that a former
    run left (`inherited`) then counts as a failed attempt, and the fifth parks it (R1).
    """

    order: CleanOrder
    tries: int = 0
    inherited: bool = False
    error: str | None = None
    before = None

    @property
    def is_written(self) -> bool:
        return self.order.is_exception


@dataclass(frozen=True, slots=True)
class Checking(Unwritten):
    """A write of this clean may have taken effect: the record is read and the cloud asked.

    The journal keeps its entry for that write, which may have to prove it.
    """

    order: CleanOrder
    tries: int = 0
    inherited: bool = False
    error: str | None = None


@dataclass(frozen=True, slots=True)
class Pausing(Unwritten):
    """The clean is tried again after a wait; `is_first` says that it has sent no write yet."""

    order: CleanOrder
    tries: int
    is_first: bool
    inherited: bool = False
    error: str | None = None


@dataclass(frozen=True, slots=True)
class Fencing(InFlight):
    """The fence was sent, or may have been. `before` is the record as it was judged."""

    order: CleanOrder
    before: Record
    look: Look | None = None
    tries: int = 0
    is_written = True


@dataclass(frozen=True, slots=True)
class Standing(InFlight):
    """The fence stands for `fence_wait` seconds, then the record is read and the cloud asked.

    `fenced` is the record with its fence, None where a former run put the fence up: then the look
    comes at once. The journal has the fence.
    """

    order: CleanOrder
    before: Record
    fenced: Record | None = None
    tries: int = 0
    is_written = False


@dataclass(frozen=True, slots=True)
class Writing(InFlight):
    """The write was sent, or may have been. `before` is the record before the write and its fence.

    `doubted` is since when the outcome of an earlier write is unknown, CLOCK_BOOTTIME; else None.
    """

    order: CleanOrder
    before: Record
    look: Look | None = None
    doubted: float | None = None
    tries: int = 0
    is_written = True


@dataclass(frozen=True, slots=True)
class Unsure(InFlight):
    """A write behind a fence may still take effect: the fence stays until that is known (C12).

    `since` is when that doubt began, CLOCK_BOOTTIME. The journal has the write.
    """

    order: CleanOrder
    before: Record
    since: float
    tries: int = 0
    is_written = False


@dataclass(frozen=True, slots=True)
class Lifting(InFlight):
    """The node gets its secret back. `why` is what kept the record, where something did.

    `again` says that the obstacle may pass, and the clean be tried again. The journal has the fence
    already, unless a listing showed it standing (`found`).
    """

    order: CleanOrder
    before: Record
    fenced: Record | None = None
    again: bool = False
    why: Verdict | None = None
    tries: int = 0
    found: bool = False

    @property
    def is_written(self) -> bool:
        return self.found


@dataclass(frozen=True, slots=True)
class GivenUp(InFlight):
    """The write took too long. The next plan judges the record again; a late answer counts."""

    order: CleanOrder
    before: Record
    is_written = False
    is_under_way = False


State = (
    Looking | Checking | Pausing | Fencing | Standing | Writing | Unsure | Lifting | GivenUp
)  # fmt: skip
Fenceless = Looking | Checking
