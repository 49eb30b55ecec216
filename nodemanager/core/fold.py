"""One state, one fold: what the daemon knows, and what each fact and decision does to it.

A replay folds the recorded facts under the recorded settings with the same functions, and so comes
to the recorded verdicts.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from nodemanager.core import breaker as breakers
from nodemanager.core import false_clean
from nodemanager.core import history as histories
from nodemanager.core.breaker import Breaker
from nodemanager.core.facts import (
    BreakerSet,
    CloudPollBegun,
    CloudSeen,
    CommandGiven,
    DemandSeen,
    Fact,
    LatePinged,
    LivesFreed,
    NodesAnswered,
    NodesExplained,
    PollMissed,
    RecordsExplained,
    RecordsSeen,
    SettingsTaken,
    StoreClockKept,
    TagsAnswered,
)
from nodemanager.core.history import History
from nodemanager.core.model import CloudNode, Job, Listing
from nodemanager.core.plan import Plan, plan
from nodemanager.core.settings import Settings
from nodemanager.core.snapshot import Snapshot


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
            return _nodes_seen(state, nodes, settings)
        case RecordsSeen():
            return _records_seen(state, fact, settings)
        case DemandSeen():
            return replace(state, demand=fact.jobs, demand_at=fact.started_at)
        case NodesAnswered():
            return _nodes_answered(state, fact, settings)
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


def _nodes_seen(state: State, listing: Listing[CloudNode], settings: Settings) -> State:
    breaker = state.breaker
    if listing.complete:
        ids = frozenset(node.id for node in listing.items)
        breaker = breakers.after_listing(
            breaker, state.history, ids, listing.started_at, settings, cloud=True
        )
    history = histories.cloud_listed(state.history, listing, settings)
    return replace(state, history=history, breaker=breaker)


def _nodes_answered(state: State, fact: NodesAnswered, settings: Settings) -> State:
    asked_at = fact.at if fact.asked_at is None else fact.asked_at
    breaker = breakers.after_answers(
        state.breaker, fact.answers, asked_at=asked_at, settings=settings
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
