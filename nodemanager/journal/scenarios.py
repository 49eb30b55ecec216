"""The replay of a recording under other settings: one scenario for each set of settings.

Each scenario folds the recorded facts under its own settings, after correcting what would differ by
then (core/replay/whatif.py). It decides with the daemon's own `plan` wherever the recording has a
decision. A scenario with the recorded settings corrects nothing and comes to the recorded verdicts.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from nodemanager.core.execute.state import State
from nodemanager.core.judge.idle import UNCAPPED
from nodemanager.core.model.breaker import Breaker, Cause
from nodemanager.core.model.reasons import Kind, Reason
from nodemanager.core.model.settings import Settings
from nodemanager.core.model.world import FreedLife, Record, life_key
from nodemanager.core.observe import facts
from nodemanager.core.observe import history as histories
from nodemanager.core.observe.snapshot import Snapshot
from nodemanager.core.plan.destroy import ShutdownOrder
from nodemanager.core.plan.plan import Plan, plan
from nodemanager.core.replay import whatif
from nodemanager.core.replay.fold import Start, after_decision, after_fact
from nodemanager.core.replay.whatif import By, LifeEnd, Sign, World, is_life, life_of
from nodemanager.core.replay.worth import ReplayOutcome
from nodemanager.core.safety import breaker as breakers
from nodemanager.core.safety.orders import CleanOrder
from nodemanager.journal.reading import Decided, JournalEntry
from nodemanager.journal.verdicts import CurrentVerdicts

STALE = frozenset({Reason.STALE_SLOT.value, Reason.CLAIM_EXPIRED.value})
SET_BY_OTHERS = (Cause.INVARIANT, Cause.WRITES_FAIL, Cause.UNREADABLE)
"""Causes that open and close the breaker because of events that are in no poll and no plan."""


class ScenarioState:
    """The recording's own course, for all scenarios: what was listed, ordered and ended."""

    def __init__(self) -> None:
        self.records: dict[str, Record] = {}
        self.ended: list[Record] = []
        self.cleans: set[str] = set()
        self.shutdowns: dict[str, Reason] = {}
        self.ever_ordered: set[str] = set()
        self.standing: CurrentVerdicts = {}
        self.breaker = Breaker()
        self.walls: list[float] = []
        self._offset = 0.0

    def wall(self, boottime: float) -> float:
        """Epoch seconds for a CLOCK_BOOTTIME."""
        return self._offset + boottime

    def take(self, entry: JournalEntry) -> None:
        self.ended = []
        match entry:
            case Start():
                self._offset = entry.wall - entry.at
                self.standing, self.breaker = {}, entry.state.breaker
                self.cleans.clear()
                self.shutdowns.clear()
                listing = entry.state.history.records
                if listing is not None:
                    self.records = {one.uuid: one for one in listing.items}
            case Decided():
                self._decided(entry)
            case facts.RecordsSeen():
                if entry.listing.complete:
                    self._listed({one.uuid: one for one in entry.listing.items})
            case facts.BreakerSet():
                self.breaker = entry.breaker
            case _:
                pass

    def _listed(self, now: dict[str, Record]) -> None:
        for uuid, before in self.records.items():
            record = now.get(uuid)
            if record is before:
                continue
            claim = before.claim
            if record is not None and claim is not None and record.claim == claim:
                continue
            if not before.holds_anything:
                continue
            if record is None or not is_life(record, life_of(before)):
                self.ended.append(before)
        self.records = now

    def _decided(self, entry: Decided) -> None:
        snapshot = entry.snapshot
        self._offset = snapshot.wall - snapshot.now
        self.breaker = snapshot.breaker
        for subject, id, kind, reason, _ in entry.changes:
            if kind is None or reason is None:
                self.standing.pop((subject, id), None)
            else:
                self.standing[subject, id] = kind, reason
            if subject == "record":
                if kind is Kind.CLEAN:
                    self.cleans.add(id)
                    self.ever_ordered.add(id)
                else:
                    self.cleans.discard(id)
            elif kind is Kind.SHUTDOWN and reason is not None:
                self.shutdowns[id] = reason
            else:
                self.shutdowns.pop(id, None)


@dataclass
class _OwnActions:
    """The actions of this scenario that differ from the recording, as a daemon would note them."""

    touched: dict[str, float] = field(default_factory=dict)
    gone: dict[str, float] = field(default_factory=dict)
    cleaned_at: list[float] = field(default_factory=list)
    destroyed_at: list[float] = field(default_factory=list)
    not_cleaned_at: list[float] = field(default_factory=list)
    not_destroyed_at: list[float] = field(default_factory=list)

    def forget(self, shown: float) -> None:
        """Forget actions from before `shown`, when the older of the two newest listings began."""
        self.touched = {id: at for id, at in self.touched.items() if at >= shown}
        self.gone = {id: at for id, at in self.gone.items() if at >= shown}
        for name in ("cleaned_at", "destroyed_at", "not_cleaned_at", "not_destroyed_at"):
            setattr(self, name, [at for at in getattr(self, name) if at >= shown])


class Scenario:
    """The replay under the recorded settings with `changes`, which are by field of Settings.

    `acts`: the recorded daemon carried its orders out, so an order that it gave, too, ends as
    recorded. Otherwise (a dry run) this scenario's orders count as done.
    """

    def __init__(self, changes: Mapping[str, Any], *, acts: bool) -> None:
        self._changes = dict(changes)
        self._acts = acts
        self._state = State()
        self._settings: Settings | None = None
        self._run_id: str | None = None
        self._now = 0.0
        self._world = World()
        self._done = _OwnActions()
        self._joined: dict[str, tuple[str, LifeEnd]] = {}
        self._joined_nodes: dict[str, tuple[float, Reason]] = {}
        self._first_clean: bool | None = None
        self._backlog: frozenset[str] = frozenset()
        self._refused: list[int] = []
        self._capped: list[Mapping[str, int]] = []
        self._destroyed: dict[str, Reason] = {}
        self._opened: Counter[str] = Counter()

    @property
    def settings(self) -> Settings | None:
        return self._settings

    def _varied(self, recorded: Settings) -> Settings:
        """The recorded settings with the changes; with another claim window, claims would have
        been made for that window."""
        varied = replace(recorded, **self._changes)
        keeps = varied.claim_window == recorded.claim_window
        return replace(varied, claims_keep_window=keeps)

    @property
    def outcome(self) -> ReplayOutcome:
        world = self._world
        return ReplayOutcome(
            dict(world.ends),
            tuple(world.hits),
            world.spared,
            tuple(self._refused),
            Counter(self._destroyed.values()),
            dict(self._opened),
            world.has_diverged,
            tuple(self._capped),
        )

    @property
    def _is_recorded(self) -> bool:
        """Whether nothing differs from the recording, and nothing can from here on."""
        return not self._changes and not self._world.has_diverged

    # Facts.

    def start(self, entry: Start) -> None:
        self._settings = self._varied(entry.settings)
        is_new_run = entry.run_id != self._run_id
        self._run_id = entry.run_id
        if is_new_run:
            self._joined.clear()
            self._done = _OwnActions()
            if entry.at < self._now:
                # The machine was rebooted: CLOCK_BOOTTIME began anew.
                freed = self._world.freed
                for uuid, one in freed.items():
                    freed[uuid] = replace(one, at=float("-inf"))
        if is_new_run or self._is_recorded:
            self._state = entry.state
        self._now = entry.at

    def fact(self, fact: facts.Fact, course: ScenarioState) -> None:
        assert self._settings is not None
        if isinstance(fact, facts.DestroySent) and fact.node_id in self._world.kept:
            # This scenario does not destroy it, so its absence would be a loss.
            return
        reported = self._state.breaker.reported.keys()
        before = self._state.breaker
        if isinstance(fact, facts.SettingsTaken):
            self._settings = self._varied(fact.settings)
        fact = self._corrected(fact, course)
        self._state = after_fact(self._state, fact, self._settings)
        if self._state.breaker is not before:
            self._count_opening(before)
            sign = (
                Sign.PINGED
                if isinstance(fact, (facts.LatePinged, facts.RecordsSeen))
                else Sign.LISTED
            )
            for key in self._state.breaker.reported.keys() - reported:
                self._count_hit(key, course, sign)

    def _corrected(self, fact: facts.Fact, course: ScenarioState) -> facts.Fact:
        """The fact as it would have been in this scenario."""
        match fact:
            case facts.CloudSeen(listing=nodes):
                wall = course.wall(nodes.ended_at)
                return replace(fact, listing=self._world.nodes(nodes, wall))
            case facts.RecordsSeen():
                listing = self._world.records(fact.listing)
                self._ended(course, course.wall(listing.ended_at))
                return replace(fact, listing=listing)
            case facts.LivesFreed():
                lives = tuple(one for one in fact.lives if self._freed(one, fact.at, course))
                return replace(fact, lives=lives)
            case facts.LatePinged():
                pings = tuple(
                    one
                    for one in fact.pings
                    if not self._heard(life_key(one.record, one.incarnation), one.at)
                )
                return replace(fact, pings=pings)
            case facts.NodesExplained():
                ids = tuple(one for one in fact.node_ids if one not in self._world.kept)
                self._done.not_destroyed_at += [fact.at] * (len(fact.node_ids) - len(ids))
                return replace(fact, node_ids=ids)
            case facts.BreakerSet() if not self._is_recorded:
                breaker = _as_set(self._state.breaker, course.breaker, fact)
                return replace(fact, breaker=breaker)
            case _:
                return fact

    def _count_opening(self, before: Breaker) -> None:
        standing = {part.cause for part in before.parts}
        for part in self._state.breaker.parts:
            if part.cause is not None and part.cause not in standing:
                self._opened[part.cause.value] += 1

    def _count_hit(self, key: str, course: ScenarioState, sign: Sign) -> None:
        """Count a hit: a freed life whose node lives, as the recording shows (U8)."""
        for end in list(self._world.ends.values()):
            life = end.life
            if life_key(life.record, life.incarnation) == key and end.by is not By.OTHER:
                reported_at = self._state.breaker.reported[key].reported_at
                at = end.at if reported_at is None else course.wall(reported_at)
                self._world.hit(end, at, sign)

    def _heard(self, key: str, at: float) -> bool:
        lives = [one.life for one in self._world.held.values() if not one.is_clean]
        return any(
            self._world.heard(life, at)
            for life in lives
            if life_key(life.record, life.incarnation) == key
        )

    def _ended(self, course: ScenarioState, wall: float) -> None:
        """Note the end of lives that the newest listing no longer shows."""
        held = {one.life.key for one in self._world.held.values()}
        for record in course.ended:
            life = life_of(record)
            key, joined = life.key, self._joined.get(record.uuid)
            if joined is not None and joined[0] == key:
                # The listing came before the outcome of the clean.
                self._world.ends.setdefault(key, self._joined.pop(record.uuid)[1])
            elif key not in held:
                self._world.ends.setdefault(key, LifeEnd(life, wall, By.OTHER))

    def _freed(self, freed: FreedLife, at: float, course: ScenarioState) -> bool:
        """Whether a life that the recording frees is free in this scenario, too."""
        record = course.records.get(freed.record)
        if record is None or not record.holds_anything or record.incarnation != freed.incarnation:
            return True
        life = life_of(record)
        ends = self._world.ends
        if life.key in ends:
            if record.uuid in self._world.freed:
                self._done.not_cleaned_at.append(at)
            return True
        joined = self._joined.pop(record.uuid, None)
        if joined is not None and joined[0] == life.key:
            ends[life.key] = joined[1]
            return True
        if self._goes_on(freed, record, course):
            self._hold(record)
            self._done.not_cleaned_at.append(at)
            return False
        ordered = self._joined_nodes.get(freed.node_id or "")
        wall = course.wall(freed.freed_at)
        if freed.why == Reason.AFTER_SHUTDOWN:
            ordered_at, reason = ordered or (wall, Reason.AFTER_SHUTDOWN)
            ends[life.key] = LifeEnd(life, ordered_at, By.SHUTDOWN, reason)
        else:
            by = By.CLEAN if freed.why in STALE else By.OTHER
            ends[life.key] = LifeEnd(life, wall, by)
        return True

    def _goes_on(self, freed: FreedLife, record: Record, course: ScenarioState) -> bool:
        """Whether this scenario did not order what freed the life, so that it goes on here."""
        if self._is_recorded:
            return False
        if freed.why in STALE:
            return record.uuid in course.ever_ordered
        return freed.why == Reason.AFTER_SHUTDOWN and freed.node_id in self._world.kept

    def _hold(self, record: Record) -> None:
        shown = self._world.hold(record)
        history = whatif.renamed(self._state.history, record.uuid, shown)
        self._state = replace(self._state, history=history)

    # Decisions.

    def decided(self, entry: Decided, course: ScenarioState) -> Plan:
        """Decide where the recording has a decision, and count the scenario's orders as done."""
        assert self._settings is not None
        snapshot = self._snapshot(entry.snapshot)
        before, last = self._state.breaker, self._state.plan
        made = plan(snapshot, self._settings, new_records=entry.new_records, before=last)
        self._state = after_decision(self._state, made, snapshot.now, self._settings)
        if made.breaker is not before:
            self._count_opening(before)
        self._now = snapshot.now
        if self._first_clean and (made.cleans or made.backlog):
            self._first_clean, self._backlog = False, made.backlog
        refused = made.wants.refused if made.wants is not None else {}
        self._refused.append(
            sum(count for (_, why), count in refused.items() if why is Reason.NO_FREE_SLOT)
        )
        at_max = {size: n for (size, why), n in refused.items() if why is Reason.AT_MAX_NODES}
        self._capped.append(at_max)
        if made.cleans or made.shutdowns:
            self._carry_out(made, snapshot, course)
        if course.shutdowns and self._acts and not self._is_recorded:
            self._keep_nodes(made, course)
        return made

    def _snapshot(self, recorded: Snapshot) -> Snapshot:
        history, breaker = self._state.history, self._state.breaker
        if self._first_clean is None:
            self._first_clean, self._backlog = recorded.first_clean, recorded.backlog
        if self._is_recorded:
            return replace(recorded, history=history)
        done, world = self._done, self._world
        if history.cloud is not None and history.records is not None:
            done.forget(min(history.cloud.started_at, history.records.started_at))
        flights = recorded.record_flights
        if flights:
            others = world.freed.keys() | {kept.node.tags.record for kept in world.kept.values()}
            flights = {uuid: one for uuid, one in flights.items() if uuid not in others}
        return replace(
            recorded,
            history=history,
            breaker=breaker,
            record_flights=flights,
            node_flights=_without(recorded.node_flights, world.kept),
            touched={**_without(recorded.touched, world.kept), **done.touched},
            gone={**_without(recorded.gone, world.kept), **done.gone},
            cleaned_lately=max(0, recorded.cleaned_lately - len(done.not_cleaned_at))
            + len(done.cleaned_at),
            destroyed_lately=max(0, recorded.destroyed_lately - len(done.not_destroyed_at))
            + len(done.destroyed_at),
            own_cleans=recorded.own_cleans | world.freed.keys(),
            first_clean=bool(self._first_clean),
            backlog=self._backlog,
        )

    def _carry_out(self, made: Plan, snapshot: Snapshot, course: ScenarioState) -> None:
        listing = made.history.records
        records = {one.uuid: one for one in listing.items} if listing is not None else {}
        for clean in made.cleans:
            self._clean(clean, records[clean.uuid], snapshot, course)
        for shutdown in made.shutdowns:
            self._destroyed[shutdown.node_id] = shutdown.reason
            self._shut_down(shutdown, records.get(shutdown.record or ""), snapshot, course)

    def _clean(
        self, order: CleanOrder, record: Record, snapshot: Snapshot, course: ScenarioState
    ) -> None:
        held = self._world.held.get(record.uuid)
        life = held.life if held is not None else life_of(record)
        end = LifeEnd(life, snapshot.wall, By.CLEAN, order.reason)
        if self._acts and order.uuid in course.cleans:
            self._joined[order.uuid] = (life.key, end)
            return
        self._free(record, end, snapshot)
        self._done.cleaned_at.append(snapshot.now)

    def _free(self, record: Record, end: LifeEnd, snapshot: Snapshot) -> None:
        clock = snapshot.history.clock
        store_at = snapshot.wall if clock is None else clock.now(snapshot.now)
        self._world.free(record, end, at=snapshot.now, store_at=store_at)
        self._done.touched[record.uuid] = snapshot.now

    def _shut_down(
        self, order: ShutdownOrder, record: Record | None, snapshot: Snapshot, course: ScenarioState
    ) -> None:
        """Carry out a shutdown, but not an idle node's, which follows the recording: the
        recording can't show what work that node would have done otherwise."""
        node_id, now = order.node_id, snapshot.now
        if order.reason in UNCAPPED:
            return
        world = self._world
        if self._acts and node_id in course.shutdowns and node_id not in world.kept:
            self._joined_nodes[node_id] = (snapshot.wall, order.reason)
            return
        world.destroy(node_id)
        history = histories.explained(self._state.history, (node_id,))
        self._state = replace(self._state, history=history)
        self._done.touched[node_id] = self._done.gone[node_id] = now
        self._done.destroyed_at.append(now)
        if record is None or order.reason is Reason.UNPAIRED:
            return
        held = world.held.get(record.uuid)
        life = held.life if held is not None else replace(life_of(record), node_id=node_id)
        self._free(record, LifeEnd(life, snapshot.wall, By.SHUTDOWN, order.reason), snapshot)

    def _keep_nodes(self, made: Plan, course: ScenarioState) -> None:
        """Keep the nodes that the recording destroys now but this scenario does not."""
        world, ordered = self._world, {one.node_id for one in made.shutdowns}
        for node_id, reason in course.shutdowns.items():
            if reason in UNCAPPED:
                world.kept.pop(node_id, None)
                continue
            if node_id in ordered or node_id in world.kept or node_id in world.destroyed:
                continue
            node = self._state.history.present.get(node_id)
            if node is not None and node_id not in self._joined_nodes:
                world.keep(node, course.records.get(node.tags.record or ""))


def _without(known: Mapping[str, Any], ids: Iterable[str]) -> dict[str, Any]:
    return {id: one for id, one in known.items() if id not in set(ids)}


def _as_set(ours: Breaker, recorded: Breaker, fact: facts.BreakerSet) -> Breaker:
    """Our breaker after the recorded one was set: by a reset, or for a cause of SET_BY_OTHERS."""
    breaker = fact.breaker
    if breaker.looked_at > recorded.looked_at:
        return breakers.reset(ours, fact.at)
    for cause in SET_BY_OTHERS:
        part = breaker.part(cause)
        if part is None:
            if ours.part(cause) is not None:
                ours = breakers.with_part(ours, cause, None)
        elif ours.part(cause) is None:
            ours = breakers.opened(ours, cause, part.ids, part.opened_at, part.detail)
    return ours


def _orders(entry: Decided) -> bool:
    """Whether it frees records, or destroys nodes that are not just idle."""
    return any(
        change.kind is Kind.CLEAN
        or (change.kind is Kind.SHUTDOWN and change.reason not in UNCAPPED)
        for change in entry.changes
    )


def drive(
    entries: Iterable[JournalEntry],
    scenarios: Sequence[Scenario],
    course: ScenarioState,
    every: int = 1,
) -> Iterator[tuple[Decided, list[Plan]]]:
    """Replay the recording in all scenarios; gives each decision with every scenario's plan.

    Of the decisions that order nothing only `every` so manyth is made again.
    """
    started, passed = False, 0
    for entry in entries:
        if isinstance(entry, facts.BreakerSet):
            # Scenarios compare it with the recorded breaker as it was before.
            for scenario in scenarios:
                scenario.fact(entry, course)
            course.take(entry)
            continue
        course.take(entry)
        if isinstance(entry, Start):
            started = True
            for scenario in scenarios:
                scenario.start(entry)
        elif not started:
            raise ValueError("facts without a start to fold them into")
        elif isinstance(entry, Decided):
            passed += 1
            if passed < every and not _orders(entry):
                continue
            passed = 0
            course.walls.append(entry.snapshot.wall)
            yield entry, [scenario.decided(entry, course) for scenario in scenarios]
        else:
            for scenario in scenarios:
                scenario.fact(entry, course)
