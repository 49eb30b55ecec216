"""How each fact and each decision changes what the daemon knows: one state, one fold.

A replay folds the recorded facts under the recorded settings with the same functions, and decides
with the same `plan`, so it comes to the recorded verdicts.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace

from nodemanager.core.execute.expectations import dispatched_listed, still_expected
from nodemanager.core.execute.state import OwnNews, State, after_own, with_loops
from nodemanager.core.judge import false_clean
from nodemanager.core.judge.false_clean import FalseClean, Folded
from nodemanager.core.model.changed import changed
from nodemanager.core.model.settings import Settings
from nodemanager.core.model.world import CloudNode, Listing, Record
from nodemanager.core.observe import facts
from nodemanager.core.observe import history as histories
from nodemanager.core.observe.history import History
from nodemanager.core.observe.scheduled import ours_in_scheduler, scheduler_listed
from nodemanager.core.observe.snapshot import Snapshot
from nodemanager.core.plan import leftovers
from nodemanager.core.plan.plan import Plan
from nodemanager.core.safety import boot_loops
from nodemanager.core.safety import breaker as breakers


@dataclass(frozen=True)
class Start:
    """What a recorded stretch starts from; `at` is CLOCK_BOOTTIME, `wall` epoch seconds."""

    pool: str
    settings: Settings
    at: float
    wall: float
    state: State = field(default_factory=State)
    run_id: str = ""


@dataclass(frozen=True)
class Decision:
    """One decision: all that it was made from, its plan, and how many seconds it took."""

    snapshot: Snapshot
    plan: Plan
    new_records: bool = False
    took_s: float = 0.0


@dataclass(frozen=True, slots=True)
class Stage:
    """The state after one step of folding a fact in; each change of the breaker is logged.

    `reported` are the false cleans that this stage found.
    """

    state: State
    reported: tuple[FalseClean, ...] = ()


def after_fact(state: State, fact: facts.Fact | OwnNews, settings: Settings) -> State:
    """The state with the fact folded in; some facts, like a failed poll, change nothing."""
    for stage in stages(state, fact, settings):
        state = stage.state
    return state


def stages(state: State, fact: facts.Fact | OwnNews, settings: Settings) -> Iterator[Stage]:
    """The stages of folding the fact in; the last one has the state after it."""
    match fact:
        case facts.CloudSeen(listing=nodes):
            yield from _nodes_seen(state, nodes, settings)
        case facts.RecordsSeen():
            yield from _records_seen(state, fact, settings)
        case facts.SchedulerSeen():
            yield from _scheduler_seen(state, fact, settings)
        case facts.NodesAnswered():
            yield from _nodes_answered(state, fact, settings)
        case facts.TagsAnswered():
            folded = false_clean.tags_seen(
                state.breaker,
                state.history,
                fact.answers,
                fact.at,
                settings,
                asked_at=fact.asked_at,
            )
            yield _stage(state, folded)
        case facts.LatePinged():
            folded = false_clean.pings_seen(
                state.breaker, state.history, fact.pings, fact.at, settings
            )
            yield _stage(state, folded)
        case OwnNews():
            yield Stage(after_own(state, fact, settings))
        case facts.SettingsTaken():
            yield Stage(changed(state, history=histories.settings_taken(state.history, settings)))
        case _:
            yield Stage(_after(state, fact))


def _after(state: State, fact: facts.Fact) -> State:
    """The state after a fact that has one stage and finds no false clean."""
    match fact:
        case facts.CloudPollBegun():
            return changed(state, history=histories.cloud_poll_started(state.history))
        case facts.ImageFound():
            return changed(state, history=replace(state.history, image=fact.image))
        case facts.DemandSeen():
            return changed(state, demand=fact.jobs, demand_at=fact.started_at)
        case facts.LivesFreed():
            history = false_clean.lives_freed(state.history, fact.lives, fact.at)
            return changed(state, history=history)
        case facts.DestroySent():
            history = histories.destroy_sent(
                state.history, fact.node_id, fact.at, refused=fact.refused
            )
            return changed(state, history=history)
        case facts.NodesExplained():
            return changed(state, history=histories.explained(state.history, fact.node_ids))
        case facts.RecordsExplained():
            return changed(state, history=histories.records_explained(state.history, fact.uuids))
        case facts.BreakerSet():
            return changed(state, breaker=fact.breaker)
        case facts.HostnamesKept():
            kept = histories.hostnames_kept(state.history, fact.hostnames)
            return changed(state, history=kept)
        case facts.ClocksKept():
            return changed(state, history=histories.clocks_kept(state.history, fact.clocks))
        case _:
            return state


def _stage(state: State, folded: Folded) -> Stage:
    return Stage(changed(state, breaker=folded.breaker, history=folded.history), folded.reported)


def _nodes_seen(state: State, listing: Listing[CloudNode], settings: Settings) -> Iterator[Stage]:
    if listing.complete:
        ids = frozenset(node.id for node in listing.items)
        breaker = breakers.after_listing(
            state.breaker, state.history, ids, listing.started_at, settings, cloud=True
        )
        state = changed(state, breaker=breaker)
        yield Stage(state)
    history = histories.cloud_listed(state.history, listing, settings)
    ledger = leftovers.listed(state.ledger, history, settings)
    yield Stage(changed(state, history=history, ledger=ledger))


def _scheduler_seen(state: State, fact: facts.SchedulerSeen, settings: Settings) -> Iterator[Stage]:
    listing = fact.listing
    if listing.complete:
        names = frozenset(node.name for node in listing.items)
        ours = ours_in_scheduler(state.history, settings)
        breaker = breakers.after_scheduler(
            state.breaker, state.history, names, ours, listing.started_at, settings
        )
        state = changed(state, breaker=breaker)
        yield Stage(state)
    before, history = state.history, scheduler_listed(state.history, listing, settings)
    dispatched = dispatched_listed(state.dispatched, listing)
    state = changed(
        state, history=history, demand=fact.jobs, demand_at=fact.asked_at, dispatched=dispatched
    )
    yield Stage(state)
    records = history.listed_records
    yield from _boots_seen(state, before, records, settings)


def _boots_seen(
    state: State, before: History, records: Iterable[Record], settings: Settings
) -> Iterator[Stage]:
    """End the streaks that each successful boot ends; `before` is the history without the poll."""
    sizes = state.sizes
    for loops in boot_loops.after_polls(
        state.limits.loops, before, state.history, records, sizes, settings
    ):
        state = with_loops(state, loops)
        yield Stage(state)


def _nodes_answered(state: State, fact: facts.NodesAnswered, settings: Settings) -> Iterator[Stage]:
    asked_at = fact.at if fact.asked_at is None else fact.asked_at
    breaker = breakers.after_answers(
        state.breaker, fact.answers, asked_at=asked_at, at=fact.at, settings=settings
    )
    state = changed(state, breaker=breaker)
    yield Stage(state)
    folded = false_clean.answers_seen(
        breaker,
        state.history,
        fact.answers,
        fact.at,
        settings,
        fact.malformed,
        asked_at=fact.asked_at,
    )
    yield _stage(state, folded)


def _records_seen(state: State, fact: facts.RecordsSeen, settings: Settings) -> Iterator[Stage]:
    before, listing = state.history, fact.listing
    history = histories.store_clock_read(before, fact.store_time)
    if fact.answered_at is not None:
        history = histories.store_answered(history, fact.answered_at, settings)
    state = changed(state, history=history)
    if listing.complete:
        ids = frozenset(record.uuid for record in listing.items)
        breaker = breakers.after_listing(
            state.breaker, history, ids, listing.started_at, settings, cloud=False
        )
        state = changed(state, breaker=breaker)
        yield Stage(state)
    folded = false_clean.records_seen(state.breaker, history, listing)
    yield _stage(state, folded)
    state = changed(
        state,
        history=histories.records_listed(folded.history, listing, settings),
        breaker=folded.breaker,
        slots=fact.slots,
        drains=state.drains.after_listing(listing),
        new_records=state.new_records or listing.complete,
    )
    yield Stage(state)
    yield from _boots_seen(state, before, listing.items, settings)


def settings_after(settings: Settings, fact: facts.Fact) -> Settings:
    return fact.settings if isinstance(fact, facts.SettingsTaken) else settings


def after_decision(state: State, made: Plan, at: float, settings: Settings) -> State:
    """The state that the next decision starts from."""
    expected, created = state.expected, state.created
    if made.aborted is None:
        expected = still_expected(expected, made.history, made.pairs, at, settings)
    # The record of a node that ended is cleaned later: it is not counted then once more (B5).
    ended = {one.record.uuid for one in made.ended}
    if ended:
        created = {uuid: of for uuid, of in created.items() if uuid not in ended}
    state = changed(
        state,
        history=made.history,
        breaker=made.breaker,
        new_records=False,
        expected=expected,
        created=created,
        withdrawn=Counter(),
        plan=made,
        plans=state.plans + 1,
        backlog=state.backlog.after_plan(made),
    )
    return with_loops(state, made.loops)
