"""What the actors say to each other: commands in the imperative, facts in the past tense."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from nodemanager.core.execute.effects import Effect
from nodemanager.core.execute.workflow import Key
from nodemanager.core.model.settings import Settings
from nodemanager.core.model.world import (
    CloudNode,
    Job,
    LatePing,
    Leftover,
    Outcome,
    StoreTime,
)
from nodemanager.core.observe.history import Nodes, Records
from nodemanager.core.operate.commands import Command, Reply
from nodemanager.errors import RemoteError


class Ref(Protocol):
    """Whoever can be told something: a Pykka reference, or a test's or simulation's stand-in."""

    def tell(self, message: Any) -> None: ...


# Workflows and their workers.


@dataclass(frozen=True, slots=True)
class CarryOut:
    """One effect of a workflow; `serial` tells this workflow from an earlier one of the key."""

    key: Key
    serial: int
    effect: Effect


@dataclass(frozen=True, slots=True)
class CarriedOut:
    """What came of it: the answer, or the error in its place."""

    key: Key
    serial: int
    effect: Effect
    answer: Any = None
    error: RemoteError | None = None


@dataclass(frozen=True, slots=True)
class WaitOver:
    """The timer's reminder that a workflow asked for."""

    key: Key
    serial: int


# To the polling actors.


@dataclass(frozen=True, slots=True)
class Poll:
    """Poll now, and arrange for the next. `number` tells a due poll from one since replaced."""

    number: int = 0


@dataclass(frozen=True, slots=True)
class BackOff:
    """The cloud asks for fewer calls: no poll before `until` (CLOCK_BOOTTIME)."""

    until: float


@dataclass(frozen=True, slots=True)
class PollEvery:
    """How often to poll, in seconds; the next poll, too, comes by it."""

    poll_time: float
    max_poll_time: float
    max_retry_after: float


@dataclass(frozen=True, slots=True)
class AskNodes:
    """Ask the cloud for these nodes by id (B3, P6, U8)."""

    node_ids: tuple[str, ...]


# From the polling actors.


@dataclass(frozen=True, slots=True)
class CloudPollStarted:
    """A cloud poll is about to begin: pin the record listing it is judged with (C6)."""


@dataclass(frozen=True, slots=True)
class CloudListed:
    """`account` where it was asked for; `unverified` is why it could not be told (L5)."""

    listing: Nodes
    account: str | None = None
    unverified: Exception | None = None


@dataclass(frozen=True, slots=True)
class RecordsListed:
    """`answered_at` is when the nodes' own ping URL answered, None when it did not (D8).

    `late` are the pings of freed lives that the store knew of before it was listed (U8).
    """

    listing: Records
    store_id: str
    store_time: StoreTime
    slots: int | None
    answered_at: float | None
    late: tuple[LatePing, ...] = ()


@dataclass(frozen=True, slots=True)
class DemandPolled:
    jobs: tuple[Job, ...]
    started_at: float
    ended_at: float


@dataclass(frozen=True, slots=True)
class PollFailed:
    """`source` is cloud, records or demand; `retry_s` is when the next try comes."""

    source: str
    error: Exception
    retry_s: float
    took_s: float


@dataclass(frozen=True, slots=True)
class NodesAsked:
    """The cloud's answers by id; a node it could not be asked about is left out.

    `malformed` are those of which it says that they are no node's id (P1a). The first question was
    sent at `asked_at`.
    """

    answers: Mapping[str, CloudNode | None]
    asked_at: float
    malformed: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class AskAccount:
    """Look at the account behind the credentials again, with the next cloud poll (L5)."""


@dataclass(frozen=True, slots=True)
class AskTagged:
    """Ask the cloud which nodes bear the tag of these records (U5, R1, P6)."""

    records: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class TaggedAsked:
    """The cloud's answers by record uuid; one it could not be asked about is left out.

    The first question was sent at `asked_at`.
    """

    answers: Mapping[str, tuple[CloudNode, ...]]
    asked_at: float


# Leftovers.


@dataclass(frozen=True, slots=True)
class FindLeftovers:
    """Ask the cloud for what bears our tags and has no node any more (D4)."""


@dataclass(frozen=True, slots=True)
class LeftoversFound:
    """The answer, or the error in its place."""

    found: tuple[Leftover, ...]
    error: RemoteError | None = None


@dataclass(frozen=True, slots=True)
class ReleaseLeftover:
    leftover: Leftover


@dataclass(frozen=True, slots=True)
class LeftoverReleased:
    """The answer to one try; only GONE is the end of it."""

    leftover: Leftover
    outcome: Outcome
    error: RemoteError | None = None


@dataclass(frozen=True, slots=True)
class TendLeftovers:
    """The timer's reminder, for `at` (CLOCK_BOOTTIME), that something may be due by now."""

    at: float


# Records.


# To and from the daemon.


@dataclass(frozen=True, slots=True)
class Team:
    """The daemon's workers. Several of a kind share the work; no node has an actor."""

    cloud_list: Ref
    record_list: Ref
    demand: Ref | None
    setups: tuple[Ref, ...]
    shutdowns: tuple[Ref, ...]
    cleaner: Ref

    @property
    def actors(self) -> tuple[Ref, ...]:
        """All of them."""
        demand = () if self.demand is None else (self.demand,)
        lists = (self.cloud_list, self.record_list)
        return (*lists, *self.setups, *self.shutdowns, self.cleaner, *demand)


@dataclass(frozen=True, slots=True)
class Begin:
    team: Team


@dataclass(frozen=True, slots=True)
class Decide:
    """Take one decision from all that came in before this."""


@dataclass(frozen=True, slots=True)
class ApplySettings:
    settings: Settings


Answered = Callable[[Reply], None]
"""Called once with what became of an operator's command."""


@dataclass(frozen=True, slots=True)
class Ordered:
    """An operator's command, and whoever waits for the answer (O1-O4)."""

    command: Command
    answered: Answered


@dataclass(frozen=True, slots=True)
class Stop:
    """Begin nothing more; call `done` when nothing is in the air."""

    reason: str
    done: Callable[[], None]


@dataclass(frozen=True, slots=True)
class Beat:
    """The watchdog asks whether the actor still answers; it calls `answered`."""

    answered: Callable[[], None]
