"""What happened because the daemon did something, as facts of its State (see `state.after_own`).

A recording of the journal lacks them: what they change is in the snapshot of each decision.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from nodemanager.core.execute.effects import StoreWrite
from nodemanager.core.execute.writes import Late
from nodemanager.core.model.annotations import HandClean, Marks
from nodemanager.core.model.reasons import Reason
from nodemanager.core.model.streaks import Loops
from nodemanager.core.model.verdict import Verdict
from nodemanager.core.model.world import Record
from nodemanager.core.observe.history import Records
from nodemanager.core.observe.snapshot import Expected, Rests
from nodemanager.core.operate.backlog import ItemStatus
from nodemanager.core.plan.errands import Errand
from nodemanager.core.plan.leftovers import Entry
from nodemanager.errors import RemoteError

# What a step of a workflow learned.


@dataclass(frozen=True, slots=True)
class Claimed:
    """A record is claimed, or about to be, for a node of that size."""

    record: str
    size: str


@dataclass(frozen=True, slots=True)
class CreateRefused:
    """A create of these sizes failed with that error (D6).

    `node_id` is the node that it had begun with, and that is not there any more.
    """

    sizes: tuple[str, ...]
    error: RemoteError
    node_id: str | None = None


@dataclass(frozen=True, slots=True)
class NodeExpected:
    """A node that the cloud created, or may have (`node_id` None), and no listing shows yet."""

    record: str
    incarnation: str | None
    size: str
    node_id: str | None = None
    is_new: bool = True
    """Whether the create was answered just now; False for a node that was found by its tag."""
    place: str | None = None
    since: float | None = None
    """From when on its time counts, CLOCK_BOOTTIME; None: from now on."""


@dataclass(frozen=True, slots=True)
class NodeDenied:
    """The cloud, asked by tag, has no node of a create whose outcome is unclear (U9)."""

    record: str
    incarnation: str


@dataclass(frozen=True, slots=True)
class WriteInDoubt:
    """A write to the record may still take effect, where the store can't compare (C12)."""

    record: str


@dataclass(frozen=True, slots=True)
class Withdrawn:
    """A set-up of that size was withdrawn since the newest plan."""

    size: str


@dataclass(frozen=True, slots=True)
class NodeGone:
    """A node that we destroyed is gone."""

    node_id: str
    reason: Reason
    size: str | None
    record: str | None = None
    incarnation: str | None = None


@dataclass(frozen=True, slots=True)
class PinsFailed:
    """The cloud failed once more to tell what a node pins; `error` None is an answer too late."""

    node_id: str
    error: RemoteError | None


@dataclass(frozen=True, slots=True)
class PinsTold:
    """The cloud answered what a node pins, or nobody asks any more: the failures are forgotten."""

    node_id: str


@dataclass(frozen=True, slots=True)
class PinsCalledOff:
    """A node is not destroyed after all: what it pins is not left behind."""

    node_id: str


@dataclass(frozen=True, slots=True)
class PinsDoubted:
    """It is not known whether a node is gone: what it pins may be left behind."""

    node_id: str


@dataclass(frozen=True, slots=True)
class DrainTold:
    """The number of the drain order that the record's node is told, None where there is none (D12).

    None also while another order is on its way: nobody knows then what the node is told.
    """

    record: str
    order: str | None


@dataclass(frozen=True, slots=True)
class SchedulerTold:
    """The scheduler was told to keep work from the record's node (`on`), or to give it some (D12).

    None: nobody knows what it was told, or nothing. `unclear`: it may give the node work at any
    time from now on.
    """

    record: Record
    hostname: str
    on: bool | None
    unclear: bool = False


@dataclass(frozen=True, slots=True)
class FenceStands:
    """The fence of a clean is up: it counts for this cycle's cap, and for no later one's (C10)."""


@dataclass(frozen=True, slots=True)
class Restored:
    """A record was given back to its node (U8)."""

    record: str


@dataclass(frozen=True, slots=True)
class NotRestored:
    """Why a record that was freed by mistake stays free; logged once for each reason (U8)."""

    verdict: Verdict


@dataclass(frozen=True, slots=True)
class ItemEnded:
    """What became of an adoption that an operator ordered; `key` is its item's (S5, D11)."""

    key: str
    status: ItemStatus


Learned = (
    Claimed
    | CreateRefused
    | NodeExpected
    | NodeDenied
    | WriteInDoubt
    | Withdrawn
    | NodeGone
    | FenceStands
    | PinsFailed
    | PinsTold
    | PinsCalledOff
    | PinsDoubted
    | DrainTold
    | SchedulerTold
    | Restored
    | NotRestored
    | ItemEnded
)

# What else we did.


@dataclass(frozen=True, slots=True)
class Inherited:
    """What the journal kept of a former run, whose own values go before what it says.

    `under_way` are records that it may have been writing to when it ended, each with whether that
    frees it (C12); `sent` its destroys that nobody waits for any more, by node id, and when each
    was sent. `oldest` is when the oldest action that it left open began, epoch seconds. `may_lack`
    says that the journal may lack some (D12).
    """

    loops: Loops
    rests: Rests
    late: Late
    under_way: tuple[tuple[str, bool], ...]
    sent: Mapping[str, float]
    marks: Marks
    leftovers: tuple[Entry, ...]
    oldest: float
    may_lack: bool


@dataclass(frozen=True, slots=True)
class CreatesRead:
    """What a former run's creates were answered with, by record uuid (P4); and what its actions
    `ended`, by the lives' keys: no node comes of these (A2).
    """

    expected: Mapping[str, Expected]
    ended: frozenset[str]


@dataclass(frozen=True, slots=True)
class Deciding:
    """A decision is about to be taken: what both newest listings show by now is forgotten."""


@dataclass(frozen=True, slots=True)
class OrdersBegun:
    """The newest plan's orders are being carried out; `with_errands` if a scheduler gets its."""

    with_errands: bool


@dataclass(frozen=True, slots=True)
class StoreAnswered:
    """A write to the store ended, with its answer or the error in its place."""

    effect: StoreWrite
    answer: Any = None
    error: RemoteError | None = None


@dataclass(frozen=True, slots=True)
class StoreListed:
    """A record poll ended, and all else that it shows is folded in: the store takes writes."""

    listing: Records


@dataclass(frozen=True, slots=True)
class Throttling:
    """The cloud asked for fewer calls, and for `retry_after` seconds without any if given (D6)."""

    retry_after: float | None


@dataclass(frozen=True, slots=True)
class CloudWorked:
    """The cloud did what a create, a destroy or an adoption asked for (U13)."""


@dataclass(frozen=True, slots=True)
class ErrandRun:
    """What became of an errand: `error` None says that it is done.

    `is_moot`: there was no need for it any more.
    """

    errand: Errand
    plan_id: str
    error: RemoteError | None = None
    is_moot: bool = False


@dataclass(frozen=True, slots=True)
class HandCleans:
    """The cleans that operators want now, by record uuid (O3)."""

    by_hand: Mapping[str, HandClean]


@dataclass(frozen=True, slots=True)
class LoopsReset:
    """An operator's reset of the breaker ends all streaks of failed boots (B5)."""


@dataclass(frozen=True, slots=True)
class LeftoversSearched:
    """The cloud answered what has our tags: a node that it lists no more is asked for no pins."""
