"""What a workflow is: a pure state machine, which one runner runs.

A workflow takes an event (a worker answered, time passed, the journal refused) and returns a
`Step`: its next state, the effects, the events to log, and the outcome. The runner
(actors/daemon/runner.py) writes a step to the journal before any effect of it leaves: so no
workflow acts before it is written down, and a restart goes on from the state in the journal.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import IntEnum, StrEnum
from typing import Any, Generic, NamedTuple, Protocol, TypeVar

from nodemanager.core.execute.effects import Effect
from nodemanager.core.execute.news import Learned
from nodemanager.core.explain.events import CLEANED
from nodemanager.core.model.reasons import Event
from nodemanager.core.model.settings import Settings
from nodemanager.core.model.verdict import Verdict
from nodemanager.core.model.world import Guarantee, Leftover, Record
from nodemanager.core.observe.facts import Fact
from nodemanager.core.observe.snapshot import Snapshot
from nodemanager.core.operate.backlog import IndexedPlan, ItemMarks
from nodemanager.errors import RemoteError


class Action(StrEnum):
    """What a workflow does. The value is also the kind of its entry in the journal."""

    ADOPT = "adopt"
    BIND = "bind"
    DRAIN = "drain"
    PRUNE = "prune"
    RESTORE = "restore"
    SETUP = "create"
    SHUTDOWN = "destroy"
    CLEAN = "clean"
    DISPATCH = "dispatch"


class Key(NamedTuple):
    """Names one workflow in flight: its action, and the id that `Workflow.id` gives its order."""

    action: Action
    id: str

    def __str__(self) -> str:
        return f"{self.action.value}:{self.id}"


class About(NamedTuple):
    """The record and the node that a workflow is about, and blocks for all others (C8).

    `names` is a node that the journal names beside the record, and that is not blocked.
    """

    record: str | None = None
    node: str | None = None
    names: str | None = None


class Level(IntEnum):
    """The log level of an event; the values are those of Python's logging."""

    DEBUG = 10
    INFO = 20
    WARNING = 30
    ERROR = 40


@dataclass(frozen=True, slots=True)
class LogLine:
    """One event for the log."""

    event: Event
    fields: Mapping[str, Any]
    level: Level = Level.INFO


UNANSWERED = "no answer came"
"""The error of an inherited action whose question is not answered yet: it may hang (R1)."""


# What happens to a workflow.


@dataclass(frozen=True, slots=True)
class Answered:
    """A worker carried the effect out; the effect's docstring says what `answer` is."""

    effect: Effect
    answer: Any = None


@dataclass(frozen=True, slots=True)
class Failed:
    """A worker got an error for the effect; only a `definite` error says that nothing was done."""

    effect: Effect
    error: RemoteError


@dataclass(frozen=True, slots=True)
class Refused:
    """The journal could not write the next step: nothing of that step was done."""

    problem: str


@dataclass(frozen=True, slots=True)
class Due:
    """The time that a Wait asked for has passed."""


@dataclass(frozen=True, slots=True)
class Expired:
    """The workflow has run for longer than `action_timeout`: most states now give up (C8)."""


@dataclass(frozen=True, slots=True)
class News:
    """The daemon is about to decide; only states that wait for listings get it (`listens`)."""


@dataclass(frozen=True, slots=True)
class Stopping:
    """The daemon stops, and no worker is busy with the workflow."""


WorkflowEvent = Answered | Failed | Refused | Due | Expired | News | Stopping


@dataclass(frozen=True, slots=True)
class Seen:
    """What is known when an event comes. `snapshot` leaves the workflow's own action out.

    By the newest plan, and less those withdrawn since, `needless` counts the future nodes that
    demand wants no more, by size; where nodes have seats, `wished` are those that it asks for by
    name, None where they have none (U14). `too_many` says that one is beyond max_nodes; `too_dear`
    counts those beyond the price, by size. `unmet` are the sizes that demand lacks (`Wants`).
    `undecided` says that there is news that no plan has weighed.
    `repeats_creates` says that the cloud makes one node of one client token (U9). `pins_failed`
    counts, by node id, how often the cloud did not tell what the node pins. `fence_wait` is how
    many seconds a fence must stand. `failing` says that the newest write to the store failed.
    """

    snapshot: Snapshot
    settings: Settings
    guarantee: Guarantee
    stopping: bool = False
    needless: Mapping[str, int] = field(default_factory=dict)
    wished: frozenset[str] | None = None
    too_many: bool = False
    too_dear: Mapping[str, int] = field(default_factory=dict)
    repeats_creates: bool = False
    unmet: frozenset[str] = frozenset()
    undecided: bool = False
    pins_failed: Mapping[str, int] = field(default_factory=dict)
    indexed: IndexedPlan | None = None
    """The newest decision that could be taken. Only an adoption has this and `marks`."""
    marks: ItemMarks = field(default_factory=dict)
    """The items of a backlog plan that an operator let go."""
    fence_wait: float = 0.0
    failing: bool = False
    left_at: float | None = None
    """When a former run began the workflow, CLOCK_BOOTTIME; only its first step here has this."""


# What a workflow returns.


@dataclass(frozen=True, slots=True)
class Ended:
    """The outcome of a workflow, as the journal has it: one word, and its details.

    `why` is the verdict that kept it from being done, for whoever waits for it.
    """

    name: str
    details: Mapping[str, Any] = field(default_factory=dict)
    why: Verdict | None = None


@dataclass(frozen=True, slots=True)
class FollowUp:
    """A workflow that another one begins, such as a clean once its node is gone."""

    action: Action
    order: Any


class WorkflowState(Protocol):
    """The state of a workflow: frozen data that the journal can keep.

    `order` is what a plan decided, and under which terms. `before` is the record before a write
    that may be on its way, None without such a write.
    """

    @property
    def order(self) -> Any: ...

    @property
    def before(self) -> Record | None: ...

    @property
    def is_written(self) -> bool:
        """Whether the journal must have the state before its effects leave."""
        ...

    @property
    def is_under_way(self) -> bool:
        """Whether it blocks its record and node. A workflow given up only waits for its answer."""
        ...

    @property
    def listens(self) -> bool:
        """Whether it waits for what the listings show (`News`)."""
        ...


@dataclass(frozen=True, slots=True)
class Running:
    """A workflow in flight. `since` is CLOCK_BOOTTIME."""

    state: WorkflowState
    since: float
    serial: int = 0


class InFlight:
    """What most states have in common: they block, and wait for no listing.

    `before` and `is_written` have no default: each state says itself what the journal has of it.
    """

    __slots__ = ()
    is_under_way = True
    listens = False


class Unwritten(InFlight):
    """A state that the journal need not have, and in which no record is being written."""

    __slots__ = ()
    before = None
    is_written = False


class Written(InFlight):
    """A state that the journal must have, and in which no record is being written."""

    __slots__ = ()
    before = None
    is_written = True


class Abandoned(Unwritten):
    """A state that blocks no more, because it took too long; a worker may still answer."""

    __slots__ = ()
    is_under_way = False


@dataclass(frozen=True, slots=True)
class End:
    """A workflow stopped blocking, or its outcome is known, or both.

    It has blocked since that CLOCK_BOOTTIME; None where it did not block any more. `ended` is None
    where there is no outcome: nothing was written, or the next run or an operator has to finish it.
    """

    key: Key
    state: WorkflowState
    about: About
    since: float | None
    ended: Ended | None

    @property
    def order(self) -> Any:
        return self.state.order

    @property
    def has_freed(self) -> bool:
        """Whether a clean ended, and its record is free."""
        is_clean = self.key.action is Action.CLEAN
        return is_clean and self.ended is not None and self.ended.name == CLEANED


S = TypeVar("S", bound=WorkflowState)


@dataclass(frozen=True, slots=True)
class Step(Generic[S]):
    """What one event does to one workflow. It is on the disk before any effect leaves.

    `state` None is the end. `ended` is the outcome, which concludes the journal's entry. `learn` is
    for the State (see `news`). What it begins is on the disk in the same transaction.
    """

    state: S | None
    effects: tuple[Effect, ...] = ()
    tell: tuple[LogLine, ...] = ()
    facts: tuple[Fact, ...] = ()
    ended: Ended | None = None
    pins: tuple[Leftover, ...] = ()
    """What a node to be destroyed may leave behind; it is on the disk before the step (D4)."""
    attempt_failed: str | None = None
    """The error of one more failed attempt at what a former run left; the last is the fifth."""
    learn: tuple[Learned, ...] = ()
    begin: tuple[FollowUp, ...] = ()


class Workflow(Protocol[S]):
    """One state machine. It has a step for every pair of a state and an event."""

    @property
    def action(self) -> Action: ...

    @property
    def states(self) -> tuple[type[Any], ...]:
        """Its states, the first one first: the journal reads them back, the manual draws them."""
        ...

    def id(self, order: Any) -> str:
        """The id that tells it from others of the same action: mostly a record's or a node's."""
        ...

    def about(self, state: S) -> About:
        """The record and the node that it blocks for all others (C8)."""
        ...

    def flight(self, state: S) -> str:
        """What a snapshot calls it in flight (`Flight.kind`)."""
        ...

    def start(self, order: Any, seen: Seen) -> Step[S]: ...

    def on(self, state: S, event: WorkflowEvent, seen: Seen) -> Step[S]:
        """The step that the event leads to; the same state without effects changes nothing."""
        ...

    def resume(self, state: S, seen: Seen) -> Step[S]:
        """The first step after a restart, from the state that the journal has."""
        ...
