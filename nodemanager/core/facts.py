"""What the journal keeps of each poll and each decision, and how a replay folds it again.

`after_fact` and `after_decision` do to a `State` what the daemon does to its own: the recorded
facts, folded under the recorded settings, give the recorded verdicts.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from nodemanager.core import breaker as breakers
from nodemanager.core import false_clean
from nodemanager.core import history as histories
from nodemanager.core.breaker import Breaker
from nodemanager.core.history import History, Nodes, Records
from nodemanager.core.model import CloudNode, FreedLife, Job, LatePing, StoreTime
from nodemanager.core.plan import Plan, plan
from nodemanager.core.settings import Settings
from nodemanager.core.snapshot import Snapshot
from nodemanager.core.store_clock import StoreClock


@dataclass(frozen=True, slots=True)
class CloudPollBegun:
    """A cloud poll is about to begin (C6); `at` is CLOCK_BOOTTIME, here and below."""

    at: float


@dataclass(frozen=True, slots=True)
class CloudSeen:
    listing: Nodes
    account: str | None = None


@dataclass(frozen=True, slots=True)
class RecordsSeen:
    """`answered_at` is when the nodes' own ping URL answered, None when it did not (D8)."""

    listing: Records
    store_id: str
    store_time: StoreTime
    slots: int | None
    answered_at: float | None


@dataclass(frozen=True, slots=True)
class DemandSeen:
    jobs: tuple[Job, ...]
    started_at: float
    ended_at: float


@dataclass(frozen=True, slots=True)
class PollMissed:
    """A poll that failed: no evidence (L1). `kind` is the error's class, `error` its text."""

    source: str
    kind: str
    error: str
    retry_s: float
    took_s: float
    at: float


@dataclass(frozen=True, slots=True)
class NodesAnswered:
    """The cloud's answers by id (B3, P6, U8); `malformed` are no node's id (P1a).

    They came `at` that time; the first question was sent at `asked_at`.
    """

    answers: Mapping[str, CloudNode | None]
    at: float
    malformed: frozenset[str] = frozenset()
    asked_at: float | None = None


@dataclass(frozen=True, slots=True)
class TagsAnswered:
    """The cloud's answers by tag, by record uuid (P6); with times as in NodesAnswered."""

    answers: Mapping[str, tuple[CloudNode, ...]]
    at: float
    asked_at: float | None = None


@dataclass(frozen=True, slots=True)
class LivesFreed:
    """Lives that our cleans ended: of this run, or of former ones at its start (U8)."""

    lives: tuple[FreedLife, ...]
    at: float


@dataclass(frozen=True, slots=True)
class LatePinged:
    """Pings of freed lives that the store remembers, some not told of before (U8)."""

    pings: tuple[LatePing, ...]
    at: float


@dataclass(frozen=True, slots=True)
class NodesExplained:
    """Nodes that are gone by our own doing: no listing lacks them (L3)."""

    node_ids: tuple[str, ...]
    at: float


@dataclass(frozen=True, slots=True)
class RecordsExplained:
    """Records that are gone, or may be, by our own doing: no listing lacks them (L3)."""

    uuids: tuple[str, ...]
    at: float


@dataclass(frozen=True, slots=True)
class SettingsTaken:
    """Settings in force from here on: a reload."""

    settings: Settings
    at: float


@dataclass(frozen=True, slots=True)
class BreakerSet:
    """The breaker as something other than a poll or a plan left it: an operator, U8."""

    breaker: Breaker
    at: float


@dataclass(frozen=True, slots=True)
class StoreClockKept:
    """The store's clock as a former run left it, on this boot's CLOCK_BOOTTIME (T1, R4)."""

    clock: StoreClock
    at: float


@dataclass(frozen=True, slots=True)
class CommandGiven:
    """An operator's command, refused ones too; `reason` is theirs, `refusal` a reason code.

    `record` and `node` are what its `id` was taken for. What it changed is in the next decision's
    snapshot.
    """

    command: str
    id: str | None
    by: str
    reason: str
    result: str
    at: float
    refusal: str | None = None
    rule: str | None = None
    forced: tuple[str, ...] = ()
    record: str | None = None
    node: str | None = None


Fact = (
    CloudPollBegun
    | CloudSeen
    | RecordsSeen
    | DemandSeen
    | PollMissed
    | NodesAnswered
    | TagsAnswered
    | LivesFreed
    | LatePinged
    | NodesExplained
    | RecordsExplained
    | SettingsTaken
    | BreakerSet
    | StoreClockKept
    | CommandGiven
)


@dataclass(frozen=True)
class State:
    """What is folded over the facts. `new_records` says that a record listing is new (D7)."""

    history: History = field(default_factory=History)
    breaker: Breaker = field(default_factory=Breaker)
    demand: tuple[Job, ...] | None = ()
    demand_at: float | None = None
    slots: int | None = None
    new_records: bool = False


@dataclass(frozen=True)
class Start:
    """What a stretch of facts and decisions starts from; `at` CLOCK_BOOTTIME, `wall` epoch."""

    pool: str
    settings: Settings
    at: float
    wall: float
    state: State = field(default_factory=State)
    run_id: str = ""


@dataclass(frozen=True)
class Decision:
    """One decision as it was taken: all that went in, and the plan that came out."""

    snapshot: Snapshot
    plan: Plan
    new_records: bool = False
    took_s: float = 0.0


def after_fact(state: State, fact: Fact, settings: Settings) -> State:
    """The state once the fact is folded in; an unfolded one (a failed poll) changes nothing."""
    match fact:
        case CloudPollBegun():
            return replace(state, history=histories.cloud_poll_started(state.history))
        case CloudSeen(listing=nodes):
            breaker = state.breaker
            if nodes.complete:
                ids = frozenset(node.id for node in nodes.items)
                breaker = breakers.after_listing(
                    breaker, state.history, ids, nodes.started_at, settings, cloud=True
                )
            history = histories.cloud_listed(state.history, nodes, settings)
            return replace(state, history=history, breaker=breaker)
        case RecordsSeen():
            return _records_seen(state, fact, settings)
        case DemandSeen():
            return replace(state, demand=fact.jobs, demand_at=fact.started_at)
        case NodesAnswered():
            breaker = breakers.after_answers(
                state.breaker,
                fact.answers,
                asked_at=fact.at if fact.asked_at is None else fact.asked_at,
                settings=settings,
            )
            folded = false_clean.answers_seen(
                breaker,
                state.history,
                fact.answers,
                fact.at,
                settings,
                fact.malformed,
                asked_at=fact.asked_at,
            )
            return replace(state, breaker=folded.breaker, history=folded.history)
        case TagsAnswered():
            folded = false_clean.tags_seen(
                state.breaker,
                state.history,
                fact.answers,
                fact.at,
                settings,
                asked_at=fact.asked_at,
            )
            return replace(state, breaker=folded.breaker, history=folded.history)
        case LivesFreed():
            history = false_clean.lives_freed(state.history, fact.lives, fact.at)
            return replace(state, history=history)
        case LatePinged():
            folded = false_clean.pings_seen(
                state.breaker, state.history, fact.pings, fact.at, settings
            )
            return replace(state, breaker=folded.breaker)
        case NodesExplained():
            return replace(state, history=histories.explained(state.history, fact.node_ids))
        case RecordsExplained():
            return replace(state, history=histories.records_explained(state.history, fact.uuids))
        case BreakerSet():
            return replace(state, breaker=fact.breaker)
        case StoreClockKept():
            return replace(state, history=histories.store_clock_kept(state.history, fact.clock))
        case PollMissed() | SettingsTaken() | CommandGiven():
            return state


def _records_seen(state: State, fact: RecordsSeen, settings: Settings) -> State:
    history, listing = histories.store_clock_read(state.history, fact.store_time), fact.listing
    if fact.answered_at is not None:
        history = histories.store_answered(history, fact.answered_at, settings)
    breaker = state.breaker
    if listing.complete:
        ids = frozenset(record.uuid for record in listing.items)
        breaker = breakers.after_listing(
            breaker, history, ids, listing.started_at, settings, cloud=False
        )
    folded = false_clean.records_seen(breaker, history, listing)
    return replace(
        state,
        history=histories.records_listed(folded.history, listing, settings),
        breaker=folded.breaker,
        slots=fact.slots,
        new_records=state.new_records or listing.complete,
    )


def settings_after(settings: Settings, fact: Fact) -> Settings:
    return fact.settings if isinstance(fact, SettingsTaken) else settings


def decide(snapshot: Snapshot, settings: Settings, *, new_records: bool) -> Plan:
    """The plan of a snapshot: the very function that the daemon decides by."""
    return plan(snapshot, settings, new_records=new_records)


def after_decision(state: State, made: Plan) -> State:
    return replace(state, history=made.history, breaker=made.breaker, new_records=False)
