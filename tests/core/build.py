"""Small worlds to decide about: records, nodes, and listings fed through the real folds.

`World` is what a daemon's polls come to, without a daemon: it holds a cloud and a store, takes
listings of them at times that the test chooses, folds them as the daemon does, and plans.
Times in arguments are seconds; `*_ago` are counted back from the store's time now.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from nodemanager.core.execute.state import State
from nodemanager.core.judge import false_clean
from nodemanager.core.judge.false_clean import FalseClean
from nodemanager.core.judge.node_view import NodeView
from nodemanager.core.model.breaker import Breaker
from nodemanager.core.model.scheduling import SchedulerNode
from nodemanager.core.model.settings import Settings
from nodemanager.core.model.verdict import Verdict
from nodemanager.core.model.world import (
    Claim,
    CloudNode,
    CloudState,
    FreedLife,
    Guarantee,
    Job,
    LatePing,
    Listing,
    Record,
    Size,
    StoreTime,
    Tags,
    WorkerState,
)
from nodemanager.core.observe import history as histories
from nodemanager.core.observe.evidence import CleanEvidence, Look, look_at
from nodemanager.core.observe.facts import SchedulerSeen, SettingsTaken
from nodemanager.core.observe.history import History
from nodemanager.core.observe.snapshot import Expected, Flight, Limits, Snapshot
from nodemanager.core.plan.demand import DemandPlan
from nodemanager.core.plan.destroy import ShutdownOrder
from nodemanager.core.plan.plan import Plan, plan
from nodemanager.core.replay.fold import after_fact
from nodemanager.core.safety import breaker as breakers
from nodemanager.core.safety.orders import CleanOrder

POOL = "main"
EPOCH = 1_700_000_000.0
"""The store's time, and the wall's, when CLOCK_BOOTTIME was 0."""
START = 100_000.0
"""CLOCK_BOOTTIME at which a world begins."""
SMALL = Size("small", "t.small", cores=2, ram_mb=4000, scratch_mb=10_000, price=0.1)
LARGE = Size("large", "t.large", cores=16, ram_mb=64_000, scratch_mb=100_000, price=1.0)


def incarnation_of(uuid: str, life: int = 1) -> str:
    return f"{uuid}-life{life}"


def claim(uuid: str, *, at: float, life: int = 1, pool: str = POOL) -> Claim:
    """A claim on record `uuid` made `at` epoch seconds."""
    return Claim(pool, "manager-1", 1, at, f"node-{uuid}", incarnation_of(uuid, life))


def record(
    uuid: str,
    *,
    at: float,
    slot: int | None = 1,
    pinged: bool = True,
    claimed: bool = True,
    life: int = 1,
    version: str = "v1",
    pool: str | None = POOL,
    **fields: Any,
) -> Record:
    """A record whose newest sign of any kind was `at` epoch seconds of the store.

    By default claimed and pinged by an instance `i-UUID`; `fields` overrides whatever `Record` has.
    """
    values: dict[str, Any] = {
        "uuid": uuid,
        "version": version,
        "slot_number": slot,
        "hostname": None if slot is None else f"compute{slot}",
        "ip_address": "10.0.0.1" if pinged else None,
        "first_ping_at": at - 500.0 if pinged else None,
        "last_ping_at": at if pinged else None,
        "modified_at": at,
        "instance_id": f"i-{uuid}" if pinged else None,
        "pool": pool,
        "claim": claim(uuid, at=at - (600.0 if pinged else 0.0), life=life) if claimed else None,
    }
    return Record(**{**values, **fields})


def cleaned(uuid: str, *, at: float, pool: str | None = POOL, **fields: Any) -> Record:
    """A record that holds nothing, last written `at` epoch seconds."""
    return Record(**{"uuid": uuid, "version": "v1", "modified_at": at, "pool": pool, **fields})


def node(
    uuid: str | None = None,
    *,
    id: str | None = None,
    life: int = 1,
    pool: str | None = POOL,
    state: CloudState = CloudState.RUNNING,
    created_at: float | None = EPOCH,
    size: str = "t.small",
    **fields: Any,
) -> CloudNode:
    """A node created for record `uuid`, with our three tags; `i-UUID` unless an id is given."""
    name = id or f"i-{uuid}"
    incarnation = None if uuid is None else incarnation_of(uuid, life)
    values: dict[str, Any] = {
        "id": name,
        "name": name,
        "state": state,
        "size": size,
        "created_at": created_at,
        "tags": Tags(pool, uuid, incarnation) if pool is not None or uuid is not None else Tags(),
    }
    return CloudNode(**{**values, **fields})


COMPARED = 8
"""A world's first eight plans, and each eighth after them, are made once more from nothing."""


@dataclass
class World:
    """A cloud, a store and the polls of them.

    `nodes` and `records` are what is true at the moment; a poll takes a listing of them. `flags`
    are the snapshot's other fields. `last` is the newest plan, `decided` the snapshot it is of.
    """

    settings: Settings = field(default_factory=lambda: Settings(pool=POOL, sizes=(SMALL, LARGE)))
    nodes: list[CloudNode] = field(default_factory=list)
    records: list[Record] = field(default_factory=list)
    now: float = START
    wall_step: float = 0.0
    store_step: float = 0.0
    history: History = field(default_factory=History)
    breaker: Breaker = field(default_factory=Breaker)
    flags: dict[str, Any] = field(default_factory=dict)
    last_fields: dict[str, Any] = field(default_factory=dict)
    plans: int = 0
    reported: tuple[FalseClean, ...] = ()
    _new_records: bool = False
    _last: Plan | None = None
    _decided: Snapshot | None = None

    # What is, and when.

    @property
    def store_now(self) -> float:
        return EPOCH + self.now + self.store_step

    def ago(self, seconds: float) -> float:
        """Epoch seconds of the store, `seconds` before now."""
        return self.store_now - seconds

    def advance(self, seconds: float) -> World:
        self.now += seconds
        return self

    def add_record(self, uuid: str, *, quiet: float = 0.0, **fields: Any) -> Record:
        """Put a record into the store that has been quiet for `quiet` seconds, on the next slot."""
        fields.setdefault("slot", len(self.records) + 1)
        one = record(uuid, at=self.ago(quiet), **fields)
        self.records.append(one)
        return one

    def add_node(
        self, uuid: str | None = None, *, age: float = 10_000.0, **fields: Any
    ) -> CloudNode:
        """Put a node into the cloud that was launched `age` seconds ago."""
        one = node(uuid, **{"created_at": self.ago(age), **fields})
        self.nodes.append(one)
        return one

    def change(self, uuid: str, **fields: Any) -> Record:
        """Change a record, and its version unless given."""
        index = next(i for i, one in enumerate(self.records) if one.uuid == uuid)
        old = self.records[index]
        fields.setdefault("version", f"{old.version}+")
        self.records[index] = replace(old, **fields)
        return self.records[index]

    def ping(self, uuid: str, state: WorkerState | None = None) -> Record:
        """The record's node pings now."""
        old = self.record(uuid)
        first = self.store_now if old.first_ping_at is None else old.first_ping_at
        return self.change(
            uuid,
            first_ping_at=first,
            last_ping_at=self.store_now,
            modified_at=self.store_now,
            instance_id=old.instance_id or f"i-{uuid}",
            worker_state=state,
        )

    def drop_node(self, node_id: str) -> None:
        self.nodes = [one for one in self.nodes if one.id != node_id]

    def change_node(self, node_id: str, **fields: Any) -> None:
        self.nodes = [replace(one, **fields) if one.id == node_id else one for one in self.nodes]

    def record(self, uuid: str) -> Record:
        return next(one for one in self.records if one.uuid == uuid)

    def with_settings(self, **changes: Any) -> World:
        self.settings = replace(self.settings, **changes)
        return self

    def reload(self, **changes: Any) -> World:
        """The settings change while it runs, and that is folded in."""
        self.with_settings(**changes)
        state = State(history=self.history, breaker=self.breaker)
        after = after_fact(state, SettingsTaken(self.settings, self.now), self.settings)
        self.history, self.breaker = after.history, after.breaker
        return self

    # Polls: each begins now, takes `took` seconds and is folded when it ends.

    def read_clock(self, error_s: float = 0.0) -> None:
        self.history = histories.store_clock_read(
            self.history, StoreTime(self.store_now, self.now, error_s)
        )

    def probe(self) -> None:
        """The nodes' own ping URL answers."""
        self.history = histories.store_answered(self.history, self.now, self.settings)

    def poll_records(
        self,
        items: Iterable[Record] | None = None,
        *,
        complete: bool = True,
        took: float = 1.0,
        answers: bool = True,
    ) -> None:
        listed = tuple(self.records if items is None else items)
        started = self.now
        self.now += took
        self.read_clock()
        if answers:
            self.probe()
        listing = Listing(listed, started, self.now, complete)
        if complete:
            ids = frozenset(one.uuid for one in listed)
            self.breaker = breakers.after_listing(
                self.breaker, self.history, ids, self.now, self.settings, cloud=False
            )
        folded = false_clean.records_seen(self.breaker, self.history, listing)
        self.breaker, self.reported = folded.breaker, folded.reported
        self.history = histories.records_listed(folded.history, listing, self.settings)
        self._new_records = complete

    def begin_cloud_poll(self) -> None:
        self.history = histories.cloud_poll_started(self.history)

    def poll_cloud(
        self,
        items: Iterable[CloudNode] | None = None,
        *,
        complete: bool = True,
        took: float = 1.0,
        began: float | None = None,
    ) -> None:
        """A cloud listing; with `began` its poll began earlier, by `begin_cloud_poll`."""
        listed = tuple(self.nodes if items is None else items)
        if began is None:
            self.begin_cloud_poll()
        started = self.now if began is None else began
        self.now += took
        listing = Listing(listed, started, self.now, complete)
        if complete:
            ids = frozenset(one.id for one in listed)
            self.breaker = breakers.after_listing(
                self.breaker, self.history, ids, self.now, self.settings, cloud=True
            )
        self.history = histories.cloud_listed(self.history, listing, self.settings)

    def poll_scheduler(
        self,
        *nodes: SchedulerNode,
        jobs: tuple[Job, ...] = (),
        complete: bool = True,
        names: frozenset[str] | None = None,
    ) -> None:
        """The scheduler tells its queue, and after that its nodes."""
        asked_at = self.now
        self.now += 0.2
        listing = Listing(nodes, asked_at + 0.1, self.now, complete, names=names)
        state = State(history=self.history, breaker=self.breaker)
        state = after_fact(state, SchedulerSeen(listing, jobs, asked_at), self.settings)
        self.history, self.breaker = state.history, state.breaker
        self.flags |= {"demand": state.demand, "demand_at": state.demand_at}

    def poll(self, gap: float = 0.5) -> None:
        """Records first, then the cloud, so that C6's order holds."""
        self.poll_records()
        self.now += gap
        self.poll_cloud()

    def round(self, rounds: int = 1, *, every: float = 60.0) -> Plan:
        """`rounds` of both polls and a plan, `every` seconds apart; the last plan."""
        for number in range(rounds):
            if number:
                self.now += every
            self.poll()
            self.plan()
        return self.last

    def settle(self) -> Plan:
        """As many rounds as absence needs to be believed."""
        listings = max(2, self.settings.absent_listings)
        return self.round(listings, every=self.settings.settle + 1.0)

    # Decisions.

    def snapshot(self, **fields: Any) -> Snapshot:
        values: dict[str, Any] = {
            "plan_id": "p",
            "now": self.now,
            "wall": EPOCH + self.now + self.wall_step,
            "history": self.history,
            "breaker": self.breaker,
        }
        return Snapshot(**{**values, **self.flags, **fields})

    def plan(self, **fields: Any) -> Plan:
        """Plan, and go on from the plan's history and breaker as the daemon does."""
        self._decided, self.last_fields = self.snapshot(**fields), fields
        before, new_records = self._last, self._new_records
        self.last = plan(self.decided, self.settings, new_records=new_records, before=before)
        if self.plans < COMPARED or self.plans % COMPARED == 0:
            # What a plan takes over from the one before must never show.
            assert self.last == plan(self.decided, self.settings, new_records=new_records)
        self.history, self.breaker = self.last.history, self.last.breaker
        self._new_records = False
        self.plans += 1
        return self.last

    def answer(
        self,
        answers: Mapping[str, CloudNode | None],
        *,
        malformed: frozenset[str] = frozenset(),
        late: float = 0.0,
    ) -> None:
        """The cloud answers the plan's questions by id (B3, P6, U8), asked `late` seconds ago."""
        asked_at = self.now - late
        breaker = breakers.after_answers(
            self.breaker, answers, asked_at=asked_at, at=self.now, settings=self.settings
        )
        folded = false_clean.answers_seen(
            breaker, self.history, answers, self.now, self.settings, malformed, asked_at=asked_at
        )
        self.breaker, self.history, self.reported = folded.breaker, folded.history, folded.reported

    def answer_tags(
        self, answers: Mapping[str, tuple[CloudNode, ...]], *, late: float = 0.0
    ) -> None:
        """The cloud answers the plan's questions by tag (P6, U8), asked `late` seconds ago."""
        asked_at = self.now - late
        folded = false_clean.tags_seen(
            self.breaker, self.history, answers, self.now, self.settings, asked_at=asked_at
        )
        self.breaker, self.history = folded.breaker, folded.history

    def free(self, uuid: str, **fields: Any) -> FreedLife:
        """We free the record now, whatever its node does."""
        old = self.record(uuid)
        life = FreedLife(
            uuid,
            old.incarnation,
            self.now,
            node_id=old.instance_id,
            slot=old.slot_number,
            hostname=old.hostname,
            why="stale_slot",
        )
        life = replace(life, **fields)
        emptied = cleaned(uuid, at=self.store_now, version=f"{old.version}-freed")
        self.records[self.records.index(old)] = emptied
        self.history = false_clean.lives_freed(self.history, (life,), self.now)
        return life

    def late_ping(self, life: FreedLife, **fields: Any) -> LatePing:
        """A ping of a freed life, as the store remembers it; it comes now."""
        freed_at = EPOCH + life.freed_at + self.store_step
        values: dict[str, Any] = {"freed_at": freed_at, "at": self.store_now, "pool": POOL}
        values |= {"record": life.record, "incarnation": life.incarnation}
        values |= {"instance_id": life.node_id}
        return LatePing(**{**values, **fields})

    def hear(self, *late: LatePing) -> None:
        """The store tells of late pings."""
        folded = false_clean.pings_seen(self.breaker, self.history, late, self.now, self.settings)
        self.breaker, self.history, self.reported = folded.breaker, folded.history, folded.reported

    def restart(self) -> None:
        """A new process: nothing that was folded is left."""
        self.history, self.breaker, self._last = History(), Breaker(), None

    # What the newest plan says.

    @property
    def last(self) -> Plan:
        assert self._last is not None, "nothing was planned since the start"
        return self._last

    @last.setter
    def last(self, made: Plan) -> None:
        self._last = made

    @property
    def decided(self) -> Snapshot:
        assert self._decided is not None, "nothing was planned yet"
        return self._decided

    def of_record(self, uuid: str) -> Verdict:
        return next(one for one in self.last.records if one.id == uuid)

    def view(self, node_id: str) -> NodeView:
        return next(one for one in self.last.views if one.node.id == node_id)

    def of_node(self, node_id: str) -> Verdict:
        return self.view(node_id).verdict

    @property
    def cleaned(self) -> list[str]:
        return sorted(order.uuid for order in self.last.cleans)

    @property
    def destroyed(self) -> list[str]:
        return sorted(order.node_id for order in self.last.shutdowns)

    @property
    def booted(self) -> list[str]:
        return [order.size.name for order in self.last.boots]

    @property
    def wants(self) -> DemandPlan:
        """What the newest plan makes of demand."""
        assert self.last.wants is not None
        return self.last.wants

    def clean_order(self, uuid: str) -> CleanOrder:
        return next(order for order in self.last.cleans if order.uuid == uuid)

    def shutdown_order(self, node_id: str) -> ShutdownOrder:
        return next(order for order in self.last.shutdowns if order.node_id == node_id)


def world(**settings: Any) -> World:
    """A world whose settings differ from the defaults as given.

    Claims expire (C21): most tests of them are about that shorter window.
    """
    made = World()
    return made.with_settings(**{"claim_expiry": True, **settings})


def gone(quiet: float = 9000.0, *, settings: dict[str, Any] | None = None, **fields: Any) -> World:
    """A world of one record whose node is gone, absence settled, and its plan."""
    made = world(**(settings or {}))
    made.add_record("r1", quiet=quiet, **fields)
    made.settle()
    return made


def look_of(
    made: World, order: CleanOrder, guarantee: Guarantee = Guarantee.CAS
) -> tuple[Look, Record]:
    """What the last look at the order's record shows, and the record as it was read."""
    before = made.record(order.uuid)
    look = look_at(
        before,
        CleanEvidence(before, (), asked_id=order.instance_id is not None),
        made.snapshot(),
        made.settings,
        node_id=order.instance_id,
        guarantee=guarantee,
        fence_wait=30.0,
    )
    return look, before


# Records that ping while their node is not listed (P6).


def pinging_round(made: World, rounds: int = 1, only: str | None = None) -> None:
    """Rounds in which all that pinged before ping again, as the instance they named."""
    for _ in range(rounds):
        made.advance(60.0)
        for one in list(made.records):
            if only in (None, one.uuid) and one.last_ping_at is not None:
                made.ping(one.uuid)
                made.change(one.uuid, instance_id=one.instance_id)
        made.round()


def in_vain(**fields: Any) -> World:
    """A record whose secret somebody pings with, every 60 s; its node is gone."""
    made = world(max_nodes=2, min_nodes=0, node_stale_after=1200.0)
    made.add_record("r1", **fields)
    pinging_round(made, 2)
    return made


def deny(
    made: World,
    *,
    by_id: bool = True,
    by_tag: bool = True,
    id_late: float = 0.0,
    tag_late: float = 0.0,
) -> None:
    """One more round; the cloud answers what the plan asks for with "no such node"."""
    if by_id:
        made.answer(dict.fromkeys(made.last.ask), late=id_late)
    if by_tag:
        made.answer_tags(dict.fromkeys(made.last.ask_tagged, ()), late=tag_late)
    pinging_round(made)


__all__ = [
    "EPOCH",
    "LARGE",
    "POOL",
    "SMALL",
    "START",
    "Expected",
    "Flight",
    "Job",
    "Limits",
    "World",
    "claim",
    "cleaned",
    "deny",
    "gone",
    "in_vain",
    "incarnation_of",
    "node",
    "pinging_round",
    "record",
    "world",
]
