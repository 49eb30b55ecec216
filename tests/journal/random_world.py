"""A daemon's polls and decisions over a world that changes at random, from a seed.

Folds and decides as the daemon actor does, and tells a journal of each step.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

from nodemanager.actors.report.event_log import EventLog
from nodemanager.core.execute.state import State
from nodemanager.core.model.settings import Settings
from nodemanager.core.model.world import (
    CloudNode,
    CloudState,
    FreedLife,
    Job,
    LatePing,
    Listing,
    Record,
    StoreTime,
    WorkerState,
)
from nodemanager.core.observe.clocks import Clocks
from nodemanager.core.observe.facts import (
    BreakerSet,
    ClocksKept,
    CloudPollBegun,
    CloudSeen,
    DemandSeen,
    DestroySent,
    Fact,
    LatePinged,
    LivesFreed,
    NodesAnswered,
    NodesExplained,
    PollMissed,
    RecordsSeen,
    SettingsTaken,
    TagsAnswered,
)
from nodemanager.core.observe.history import History
from nodemanager.core.observe.snapshot import Expected, Flight, Limits, Snapshot
from nodemanager.core.plan.plan import Plan, plan
from nodemanager.core.replay.fold import Decision, Start, after_decision, after_fact, settings_after
from nodemanager.journal.api import Journal
from nodemanager.journal.logged import EventRecorder
from nodemanager.lib import log
from tests.core.build import EPOCH, LARGE, POOL, SMALL, START, cleaned, node, record
from tests.fakes.clock import ManualClock

STATES = [None, *WorkerState]


class RandomWorld:
    """`snapshots` and `plans` are what was decided from what; `facts` all that was folded."""

    def __init__(self, seed: int, journal: Journal, size: int = 8) -> None:
        self.dice = random.Random(seed)
        self.clocks = random.Random(seed)
        # In a few worlds pings leave `modified_at` as it is: no stamp is then believed (T1).
        self.contradicts = seed % 4 == 0
        self.journal = journal
        self.now = START + self.dice.random()
        self.settings = Settings(
            pool=POOL,
            sizes=(SMALL, LARGE),
            min_nodes=self.dice.randrange(3),
            max_nodes=size,
            visible_after=self.dice.choice([0.0, 300.0]),
            settle=self.dice.choice([0.1, 60.0]),
            hold_backlog=self.dice.random() < 0.5,
            demand_polled=self.dice.random() < 0.5,
        )
        self.records: dict[str, Record] = {}
        self.nodes: dict[str, CloudNode] = {}
        self.number = 0
        self.state = State()
        self.flags: dict[str, Any] = {}
        self.facts: list[Fact] = []
        self.snapshots: list[tuple[Snapshot, Settings, bool]] = []
        self.plans: list[Plan] = []
        for _ in range(size):
            self.appear()
        self.begin()

    def begin(self) -> None:
        """A new process: what was folded is forgotten, the breaker is not."""
        self.state = State(breaker=self.state.breaker)
        start = Start(POOL, self.settings, self.now, EPOCH + self.now, self.state, "run")
        self.journal.begin(start)

    # What is.

    def appear(self) -> None:
        self.number += 1
        uuid, dice = f"r-{self.number}", self.dice
        quiet = dice.choice([1.0, 4000.0, 9000.0, 90_000.0]) * dice.random()
        at = EPOCH + self.now - quiet
        if dice.random() < 0.15:
            self.records[uuid] = cleaned(uuid, at=at)
            return
        self.records[uuid] = record(
            uuid,
            at=at,
            slot=dice.choice([None, self.number, self.number, 0]),
            pinged=dice.random() < 0.8,
            claimed=dice.random() < 0.8,
            pool=dice.choice([POOL, POOL, POOL, None, "other"]),
            worker_state=dice.choice(STATES),
            ping_secret=f"secret-{uuid}",
            info={"ping_secret": f"secret-{uuid}", "note": ["\ud800é", {"x": 0.1}], "odd": ()},
            properties={"n": self.number, "()": [1]},
            problems=() if dice.random() < 0.95 else ("its slot can't be read",),
        )
        if dice.random() < 0.85:
            tagged = dice.random() < 0.9
            one = node(
                uuid if tagged else None,
                id=f"i-{uuid}",
                pool=dice.choice([POOL, POOL, POOL, None]),
                state=dice.choice([CloudState.RUNNING] * 5 + list(CloudState)),
                created_at=dice.choice([None, at - 5000.0, EPOCH + self.now - 10.0]),
            )
            self.nodes[one.id] = one

    def change(self) -> None:
        """A while of the world's own doings."""
        dice = self.dice
        for uuid, one in list(self.records.items()):
            chance = dice.random()
            if chance < 0.5 and one.last_ping_at is not None:
                at = EPOCH + self.now - dice.random()
                modified_at = dice.choice([at, one.modified_at])
                self.records[uuid] = replace(
                    one,
                    last_ping_at=at,
                    modified_at=modified_at if self.contradicts else at,
                    version=f"{one.version}+",
                    worker_state=dice.choice(STATES),
                )
            elif chance < 0.53:
                del self.records[uuid]
            elif chance < 0.58:
                self.records[uuid] = cleaned(uuid, at=EPOCH + self.now)
        for node_id, kept in list(self.nodes.items()):
            chance = dice.random()
            if chance < 0.06:
                del self.nodes[node_id]
            elif chance < 0.12:
                self.nodes[node_id] = replace(kept, state=dice.choice(list(CloudState)))
        if dice.random() < 0.5:
            self.appear()
        if dice.random() < 0.05:
            self.nodes.clear()

    # What the daemon does.

    def fold(self, fact: Fact) -> None:
        self.journal.note(fact)
        self.facts.append(fact)
        self.settings = settings_after(self.settings, fact)
        self.state = after_fact(self.state, fact, self.settings)

    def listing(self, items: dict[str, Any], at: float) -> Listing[Any]:
        """Mostly what is; now and then short, doubled, shuffled, late or incomplete."""
        dice = self.dice
        listed = list(items.values())
        complete = dice.random() < 0.85
        if not complete or dice.random() < 0.05:
            listed = [one for one in listed if dice.random() < 0.7]
        if dice.random() < 0.2:
            dice.shuffle(listed)
        if listed and dice.random() < 0.05:
            listed.insert(dice.randrange(len(listed)), dice.choice(listed))
        if dice.random() < 0.05:
            at -= 500.0
        problems = () if complete else ("an entry without an id",)
        return Listing(tuple(listed), at, at + dice.random(), complete, problems)

    def poll_records(self) -> None:
        dice = self.dice
        skew = dice.choice([0.0, 0.0, 0.0, 0.0, 90.0])
        stamp = StoreTime(EPOCH + self.now + skew, self.now, dice.random() / 3)
        self.fold(
            RecordsSeen(
                self.listing(self.records, self.now),
                "store-1",
                stamp,
                dice.choice([None, 64, 64]),
                dice.choice([None, self.now, self.now]),
            )
        )

    def poll_cloud(self) -> None:
        self.fold(CloudPollBegun(self.now))
        self.now += 0.1
        if self.dice.random() < 0.1:
            self.fold(PollMissed("cloud", "CloudError", "time-out", 120.0, 60.0, self.now))
            return
        account = self.dice.choice([None, "account-1"])
        self.fold(CloudSeen(self.listing(self.nodes, self.now), account))

    def poll_demand(self) -> None:
        jobs = tuple(Job(f"j-{n}", cores=n, count=2) for n in range(self.dice.randrange(3)))
        self.fold(DemandSeen(jobs, self.now, self.now + 0.25))

    def reload(self) -> None:
        stale = self.dice.choice([1800.0, 7200.0, 7200.5])
        self.fold(SettingsTaken(replace(self.settings, node_stale_after=stale), self.now))

    def free(self) -> None:
        """A clean of ours, and now and then a sign of life after it."""
        held = [one for one in self.records.values() if one.holds_anything]
        if not held:
            return
        before = self.dice.choice(held)
        life = FreedLife(
            before.uuid,
            before.incarnation,
            self.now,
            node_id=before.instance_id,
            slot=before.slot_number,
            hostname=before.hostname,
            why=self.dice.choice(["stale_slot", "after_shutdown"]),
        )
        self.fold(LivesFreed((life,), self.now))
        self.records[before.uuid] = cleaned(before.uuid, at=EPOCH + self.now)
        if self.dice.random() < 0.3:
            self.records[before.uuid] = before

    def ping_late(self) -> None:
        for life in list(self.state.history.freed.values())[-2:]:
            freed_at = EPOCH + life.freed_at
            late = self.dice.choice([30.0, 90.0])
            ping = LatePing(life.record, life.incarnation, POOL, freed_at, freed_at + late)
            self.fold(LatePinged((ping,), self.now))

    def answer_tags(self) -> None:
        asked = self.plans[-1].ask_tagged if self.plans else ()
        nodes = [one for one in self.nodes.values() if one.tags.record in asked]
        answers = {uuid: tuple(n for n in nodes if n.tags.record == uuid) for uuid in asked}
        self.fold(TagsAnswered(answers, self.now))

    def answer(self) -> None:
        asked = self.plans[-1].ask if self.plans else ()
        ids = {*sorted(self.state.breaker.ids)[:3], *asked}
        answers = {one: self.nodes.get(one) for one in sorted(ids)}
        self.fold(NodesAnswered(answers, self.now))

    def steps(self) -> list[Callable[[], None]]:
        return [
            *[self.poll_records] * 4,
            *[self.poll_cloud] * 4,
            self.poll_demand,
            self.answer,
            self.answer_tags,
            self.free,
            self.ping_late,
            self.destroy,
            *([self.reload] if self.dice.random() < 0.3 else []),
            *([self.close_breaker] if self.dice.random() < 0.3 else []),
            *([self.keep_clock] if self.clocks.random() < 0.05 else []),
        ]

    def destroy(self) -> None:
        """A destroy is sent, and some time refused; of another it is known that it was done."""
        sent, *others = [*self.nodes, "i-x"]
        self.fold(DestroySent(sent, self.now, refused=len(self.plans) % 3 == 0))
        self.fold(NodesExplained(tuple(others[:1]), self.now))

    def keep_clock(self) -> None:
        """A journal that could be read only now tells of the clocks."""
        clock = self.state.history.clock
        if clock is not None:
            moved = self.clocks.choice([0.0, 90.0, -90.0])
            kept = replace(clock, offset=clock.offset + moved, read_at=self.now - 9.0)
            wall = self.state.history.wall or kept
            self.fold(ClocksKept(Clocks(kept, replace(wall, read_at=self.now - 9.0)), self.now))

    def close_breaker(self) -> None:
        from nodemanager.core.safety.breaker import closed

        self.fold(BreakerSet(closed(self.state.breaker), self.now))

    def shake_flags(self) -> None:
        """The rest of a snapshot: flights, holds, limits and so on, as they may come to be."""
        dice = self.dice
        some = [one for one in (*self.records, *self.nodes) if dice.random() < 0.1]
        kinds = ["setup", "shutdown", "clean", "shutdown:bad"]
        choices: dict[str, Any] = {
            "record_flights": {one: Flight(dice.choice(kinds), self.now - 0.3) for one in some},
            "node_flights": {one: Flight("shutdown:idle", self.now) for one in some[:1]},
            "boots_unclaimed": tuple(dice.choices(["small", "large"], k=dice.randrange(3))),
            "claimed_sizes": dict.fromkeys(some, "small"),
            "expected": {one: Expected(f"i-{one}", "small", self.now - 7.7) for one in some},
            "holds": frozenset(some[:2]),
            "limits": Limits(dice.choice([None, 3]), self.now / 3, {"small": self.now + 0.1}, 0.0),
            "lease": dice.random() < 0.95,
            "read_only": dice.choice([None] * 9 + ["another store"]),
            "own_cleans": frozenset(some),
            "first_clean": dice.random() < 0.2,
            "backlog": frozenset(f"{one}@v1" for one in some[:1]),
            "touched": {one: self.now - dice.random() for one in some},
            "gone": {one: self.now - dice.random() for one in some[:1]},
        }
        for name, value in choices.items():
            if dice.random() < 0.2:
                self.flags[name] = value

    def decide(self) -> Plan:
        self.shake_flags()
        state = self.state
        snapshot = Snapshot(
            plan_id=f"run-{len(self.plans)}",
            now=self.now,
            wall=EPOCH + self.now,
            history=state.history,
            demand=state.demand,
            demand_at=state.demand_at,
            slots=state.slots,
            breaker=state.breaker,
            **self.flags,
        )
        # A replay decides without the plan before.
        before = self.plans[-1] if self.plans else None
        made = plan(snapshot, self.settings, new_records=state.new_records, before=before)
        self.snapshots.append((snapshot, self.settings, state.new_records))
        self.plans.append(made)
        self.state = after_decision(state, made, snapshot.now, self.settings)
        return made

    def run(self, rounds: int) -> Iterator[Decision]:
        """Each decision as it was taken, before the journal is told of it."""
        for _ in range(rounds):
            self.now += self.dice.choice([0.3, 20.0, 61.5, 700.0]) * self.dice.random()
            self.change()
            for step in self.dice.choices(self.steps(), k=self.dice.randrange(1, 5)):
                step()
                self.now += self.dice.random()
            made = self.decide()
            snapshot, _, new_records = self.snapshots[-1]
            yield Decision(snapshot, made, new_records, took_s=0.01)


def bare(record: Record) -> Record:
    """The record as a journal keeps it: without secrets."""
    info = {key: value for key, value in record.info.items() if key != "ping_secret"}
    return replace(record, ping_secret=None, info=info)


def bare_listing(listing: Listing[Record] | None) -> Listing[Record] | None:
    if listing is None:
        return None
    return replace(listing, items=tuple(bare(one) for one in listing.items))


def bare_history(history: History) -> History:
    names = ("records", "base", "pinned")
    return replace(history, **{name: bare_listing(getattr(history, name)) for name in names})


def bare_fact(fact: Fact) -> Fact:
    if isinstance(fact, RecordsSeen):
        listing = bare_listing(fact.listing)
        assert listing is not None
        return replace(fact, listing=listing)
    return fact


def recorded(journal: Journal, seed: int, rounds: int) -> RandomWorld:
    """A random world whose decisions are told, and recorded, as the daemon's are."""
    made = RandomWorld(seed, journal)
    clock = ManualClock(made.now, EPOCH + made.now)
    out = log.get("nodemanager.recorded")
    out.listeners.append(EventRecorder(journal, clock).heard)
    event_log: EventLog | None = None
    for decision in made.run(rounds):
        clock.advance(decision.snapshot.now - clock.boottime())
        event_log = event_log or EventLog(out, made.snapshots[0][1], "apply")
        event_log.plan(decision.plan, decision.snapshot.now)
        journal.decided(decision)
    return made
