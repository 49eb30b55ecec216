"""The messages between actors: commands in the imperative, facts in the past tense."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

from nodemanager.cloud.api import CloudDriver
from nodemanager.core.execute.effects import Effect
from nodemanager.core.execute.workflow import Key
from nodemanager.core.model.settings import Settings
from nodemanager.core.model.world import Job, LatePing, Leftover, Outcome, Record, StoreTime
from nodemanager.core.observe.history import Nodes, Records
from nodemanager.core.operate.replies import Command, Reply
from nodemanager.core.plan.errands import Errand
from nodemanager.errors import RemoteError


class Ref(Protocol):
    """A receiver of messages: a Pykka reference, or a stand-in of a test or the simulation."""

    def tell(self, message: Any) -> None: ...


# Workflows and their workers.


@dataclass(frozen=True, slots=True)
class CarryOut:
    """Carry out one effect of a workflow. `serial` differs from earlier workflows of that key."""

    key: Key
    serial: int
    effect: Effect


@dataclass(frozen=True, slots=True)
class CarriedOut:
    """The result of an effect: its answer, or the error in its place."""

    key: Key
    serial: int
    effect: Effect
    answer: Any = None
    error: RemoteError | None = None


@dataclass(frozen=True, slots=True)
class WaitOver:
    """The timer's reminder that a workflow's wait is over."""

    key: Key
    serial: int


# To the polling actors.


@dataclass(frozen=True, slots=True)
class Poll:
    """Poll now, and schedule the next poll. A poll that was rescheduled has an older `number`."""

    number: int = 0


@dataclass(frozen=True, slots=True)
class PollNow:
    """Something is new: poll before the poll that is scheduled, and go on from then."""


@dataclass(frozen=True, slots=True)
class BackOff:
    """The cloud asks for fewer calls: no poll before `until` (CLOCK_BOOTTIME)."""

    until: float


@dataclass(frozen=True, slots=True)
class PollEvery:
    """How often to poll, in seconds. It also applies to the poll that is already scheduled."""

    poll_time: float
    max_poll_time: float
    max_retry_after: float


@dataclass(frozen=True, slots=True)
class AskNodes:
    """Ask the cloud for these nodes by id (B3, P6, U8)."""

    node_ids: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class TakeCloud:
    """Use the cloud with a changed file's credentials, if they lead to the known account (L5)."""

    cloud: CloudDriver


@dataclass(frozen=True, slots=True)
class CloudOffered:
    """The account that a changed file's credentials lead to, or why they led to none."""

    cloud: CloudDriver
    account: str | None
    error: RemoteError | None = None


@dataclass(frozen=True, slots=True)
class CloudJudged:
    """Whether an offered cloud is to be used: its account was compared with the known one (L5)."""

    cloud: CloudDriver
    is_ours: bool


@dataclass(frozen=True, slots=True)
class TakeUserData:
    """Make the user data of new nodes by another function from now on."""

    user_data: Callable[[Record, str], str]


@dataclass(frozen=True, slots=True)
class TakeWishlist:
    """Ask for the demand by another function from now on."""

    wishlist: Callable[[], tuple[Job, ...]]


@dataclass(frozen=True, slots=True)
class AskAccount:
    """Ask for the account of the credentials again, with the next cloud poll (L5)."""


@dataclass(frozen=True, slots=True)
class AskTagged:
    """Ask the cloud which nodes have these records' uuids as a tag (U5, R1, P6)."""

    records: tuple[str, ...]


# From the polling actors; more of what they bring are facts (core/observe/facts.py).


@dataclass(frozen=True, slots=True)
class CloudListed:
    """A cloud listing, with the `account` if it was asked for, or why that failed (L5).

    `image` is the id of the image that nodes would be booted from then, None if not known;
    `image_error` says why, if the cloud gave no answer.
    """

    listing: Nodes
    account: str | None = None
    unverified: Exception | None = None
    image: str | None = None
    image_error: str | None = None


@dataclass(frozen=True, slots=True)
class RecordsListed:
    """A record listing. `answered_at` is when the nodes' own ping URL answered, or None (D8).

    `late` has the pings of freed lives that the store knew of before the listing (U8).
    """

    listing: Records
    store_id: str
    store_time: StoreTime
    slots: int | None
    answered_at: float | None
    late: tuple[LatePing, ...] = ()


@dataclass(frozen=True, slots=True)
class PollFailed:
    """`source` is cloud, records, demand or scheduler; the next poll comes in `retry_s` seconds."""

    source: str
    error: Exception
    retry_s: float
    took_s: float


# Leftovers.


@dataclass(frozen=True, slots=True)
class FindLeftovers:
    """Ask the cloud for what has our tags and no node any more (D4)."""


@dataclass(frozen=True, slots=True)
class LeftoversFound:
    """What the cloud found, or the error in its place."""

    found: tuple[Leftover, ...]
    error: RemoteError | None = None


@dataclass(frozen=True, slots=True)
class ReleaseLeftover:
    leftover: Leftover


@dataclass(frozen=True, slots=True)
class LeftoverReleased:
    """The result of one attempt; only GONE ends the attempts."""

    leftover: Leftover
    outcome: Outcome
    error: RemoteError | None = None


@dataclass(frozen=True, slots=True)
class TendLeftovers:
    """The timer's reminder that a search or release may be due at `at` (CLOCK_BOOTTIME)."""

    at: float


# To and from the actor that polls the scheduler.


@dataclass(frozen=True, slots=True)
class RunErrands:
    """Tell the scheduler these things, but none after `not_after` (CLOCK_BOOTTIME)."""

    errands: tuple[Errand, ...]
    plan_id: str
    not_after: float


# To and from the daemon.


@dataclass(frozen=True, slots=True)
class Team:
    """The daemon's workers. Several of a kind share the work; no node has an actor.

    `demand` polls the wishlist, or the scheduler in its place.
    """

    cloud_list: Ref
    record_list: Ref
    demand: Ref | None
    setups: tuple[Ref, ...]
    shutdowns: tuple[Ref, ...]
    cleaners: tuple[Ref, ...]

    @property
    def actors(self) -> tuple[Ref, ...]:
        demand = () if self.demand is None else (self.demand,)
        lists = (self.cloud_list, self.record_list)
        return (*lists, *self.setups, *self.shutdowns, *self.cleaners, *demand)


@dataclass(frozen=True, slots=True)
class Begin:
    team: Team


@dataclass(frozen=True, slots=True)
class Decide:
    """Take one decision from all messages that came before this one."""


@dataclass(frozen=True, slots=True)
class CallsResume:
    """The timer's reminder that the cloud may be called again, after it asked for fewer calls."""


@dataclass(frozen=True, slots=True)
class ApplySettings:
    settings: Settings


ReplyCallback = Callable[[Reply], None]
"""Called once, with the answer to an operator's command."""


@dataclass(frozen=True, slots=True)
class Ordered:
    """An operator's command, and the function that takes its answer (O1-O4)."""

    command: Command
    answered: ReplyCallback


@dataclass(frozen=True, slots=True)
class PowerAsked:
    """A scheduler's power saving wants `nodes` (a list in its own words) resumed or suspended."""

    direction: str
    nodes: str
    by: str


@dataclass(frozen=True, slots=True)
class Stop:
    """Begin nothing more; call `done` when no worker is busy."""

    reason: str
    done: Callable[[], None]


@dataclass(frozen=True, slots=True)
class Beat:
    """The watchdog checks that the actor still answers: the actor calls `answered`."""

    answered: Callable[[], None]
