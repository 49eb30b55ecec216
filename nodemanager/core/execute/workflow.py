"""Doing, as pure as deciding: each workflow is a state machine, and one runner runs them all.

A workflow takes an event (a worker answered, time passed, the journal refused) and says in a `Step`
what its state is from here on, which effects follow, what is told, and what became of it. The
runner (actors/daemon/runner.py) writes a step to the journal before any effect of it leaves: so no
workflow can act before it is written down, and a restart goes on from the state that was written.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import IntEnum, StrEnum
from typing import Any, Generic, NamedTuple, Protocol, TypeVar

from nodemanager.core.execute.books import Learned
from nodemanager.core.execute.effects import Effect
from nodemanager.core.model.facts import Fact
from nodemanager.core.model.reasons import Event as Name
from nodemanager.core.model.settings import Settings
from nodemanager.core.model.verdict import Verdict
from nodemanager.core.model.world import Guarantee, Leftover, Record
from nodemanager.core.operate.backlog import Picture
from nodemanager.core.operate.backlog_run import Run
from nodemanager.core.plan.snapshot import Snapshot
from nodemanager.errors import RemoteError


class Action(StrEnum):
    """What is done. The value is the kind of its entry in the journal, too."""

    ADOPT = "adopt"
    BIND = "bind"
    DRAIN = "drain"
    PRUNE = "prune"
    RESTORE = "restore"
    SETUP = "create"
    SHUTDOWN = "destroy"
    CLEAN = "clean"


class Key(NamedTuple):
    """One workflow under way: what is done, and to which record or node."""

    action: Action
    id: str

    def __str__(self) -> str:
        return f"{self.action.value}:{self.id}"


class About(NamedTuple):
    """The record and the node that a workflow is about: nothing else is begun for them (C8).

    `names` is a node that the journal names beside the record, and that is not blocked.
    """

    record: str | None = None
    node: str | None = None
    names: str | None = None


class Level(IntEnum):
    """How loud an event is told; the values are those of Python's logging."""

    DEBUG = 10
    INFO = 20
    WARNING = 30
    ERROR = 40


@dataclass(frozen=True, slots=True)
class Told:
    """One event for the log."""

    event: Name
    fields: Mapping[str, Any]
    level: Level = Level.INFO


# What happens to a workflow.


@dataclass(frozen=True, slots=True)
class Answered:
    """A worker did what the effect asks for; `answer` is what the effect's text says."""

    effect: Effect
    answer: Any = None


@dataclass(frozen=True, slots=True)
class Failed:
    """A worker could not; only a `definite` error says that nothing was done."""

    effect: Effect
    error: RemoteError


@dataclass(frozen=True, slots=True)
class Refused:
    """The journal could not take the step that was to come: nothing of it was done."""

    problem: str


@dataclass(frozen=True, slots=True)
class Due:
    """The time that a Wait asked for has passed."""


@dataclass(frozen=True, slots=True)
class Expired:
    """It has been under way for longer than `action_timeout`: it no longer blocks anything (C8).

    One that nothing changes for goes on.
    """


@dataclass(frozen=True, slots=True)
class News:
    """A decision was taken on new listings: told to the states that wait for one (`listens`)."""


@dataclass(frozen=True, slots=True)
class Stopping:
    """The daemon stops, and no worker is at it."""


Event = Answered | Failed | Refused | Due | Expired | News | Stopping


@dataclass(frozen=True, slots=True)
class Seen:
    """What stands when an event comes. `snapshot` leaves the workflow's own flight out.

    `needless` are the nodes to be, by size, that demand wants no more since the newest plan;
    by that plan one of any size is beyond max_nodes if `too_many`, and those in `too_dear`, by
    size, are beyond the price;
    `repeats_creates` says that the cloud takes one client token for one node (U9). `unmet` are the
    sizes that the newest plan would boot more of, `undecided` that there are news which no plan has
    weighed. `pins_failed` says, by node, how often the cloud did not tell what it pins.
    `fence_wait` is for how long a fence must stand, in seconds; `failing` says that the newest
    write to the store failed.
    """

    snapshot: Snapshot
    settings: Settings
    guarantee: Guarantee
    stopping: bool = False
    needless: Mapping[str, int] = field(default_factory=dict)
    too_many: bool = False
    too_dear: Mapping[str, int] = field(default_factory=dict)
    repeats_creates: bool = False
    unmet: frozenset[str] = frozenset()
    undecided: bool = False
    pins_failed: Mapping[str, int] = field(default_factory=dict)
    picture: Picture | None = None
    """The newest decision that could be taken; for an adoption alone, as is `run`."""
    run: Run | None = None
    """The backlog run that lets nodes go."""
    fence_wait: float = 0.0
    failing: bool = False


# What a workflow makes of it.


@dataclass(frozen=True, slots=True)
class Ended:
    """What became of a workflow: a word of ours, and its details, for the journal.

    `why` is what kept it from being done, for whoever waits for it.
    """

    name: str
    details: Mapping[str, Any] = field(default_factory=dict)
    why: Verdict | None = None


@dataclass(frozen=True, slots=True)
class Begin:
    """A workflow that another one begins: a clean, once a node is gone."""

    action: Action
    order: Any


class State(Protocol):
    """Where a workflow stands; frozen data that the journal can keep.

    `order` is what was decided, and under which terms. `before` is the record as it was before a
    write that may be under way.
    """

    @property
    def order(self) -> Any: ...

    @property
    def before(self) -> Record | None: ...

    @property
    def is_written(self) -> bool:
        """Whether the journal must have it before its effects leave."""
        ...

    @property
    def is_under_way(self) -> bool:
        """Whether it blocks what it is about: one that was given up only waits for its worker."""
        ...

    @property
    def listens(self) -> bool:
        """Whether it waits for what the listings show."""
        ...


@dataclass(frozen=True, slots=True)
class End:
    """A workflow blocks nothing any more, or what became of it is known, or both.

    It has blocked `since`, CLOCK_BOOTTIME; None where it did no more. Without `ended` it was left
    to the next run, or nobody will ever know.
    """

    key: Key
    state: State
    about: About
    since: float | None
    ended: Ended | None

    @property
    def order(self) -> Any:
        return self.state.order


S = TypeVar("S", bound=State)


@dataclass(frozen=True, slots=True)
class Step(Generic[S]):
    """What one event does to one workflow. On the disk before any effect leaves.

    Without a `state` it is over. `ended` is written where the journal has it as begun. `learn` is
    for the books (see `books`). What it begins is on the disk with it, or neither is.
    """

    state: S | None
    effects: tuple[Effect, ...] = ()
    tell: tuple[Told, ...] = ()
    facts: tuple[Fact, ...] = ()
    ended: Ended | None = None
    pins: tuple[Leftover, ...] = ()
    """What a node to be destroyed may leave behind: on the disk before the step is (D4)."""
    attempt_failed: str | None = None
    """One more attempt to finish what a former run left failed: the fifth parks it (R1)."""
    learn: tuple[Learned, ...] = ()
    begin: tuple[Begin, ...] = ()


class Workflow(Protocol[S]):
    """One state machine. Every pair of a state and an event has an answer."""

    @property
    def action(self) -> Action: ...

    @property
    def states(self) -> tuple[type[Any], ...]:
        """Its states, the first one first: what the journal reads back and the manual draws."""
        ...

    def id(self, order: Any) -> str:
        """What tells its workflow from all others of the action: mostly a record or a node."""
        ...

    def about(self, state: S) -> About:
        """Whom it blocks for all others."""
        ...

    def flight(self, state: S) -> str:
        """What a snapshot calls it."""
        ...

    def start(self, order: Any, seen: Seen) -> Step[S]:
        """The first step of an order that a plan gave."""
        ...

    def on(self, state: S, event: Event, seen: Seen) -> Step[S]:
        """The next step."""
        ...

    def resume(self, state: S, seen: Seen) -> Step[S]:
        """The first step after a restart, from the state that the journal has."""
        ...
