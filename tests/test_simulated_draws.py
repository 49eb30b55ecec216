"""What the simulation draws: a fault does what it says."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

import pytest

from nodemanager.core.model.annotations import NO_MARKS, Mark, Marks
from nodemanager.core.model.breaker import Breaker, Cause
from nodemanager.core.model.reasons import Event, Reason
from nodemanager.core.model.settings import Settings
from nodemanager.core.model.world import (
    Claim,
    CloudNode,
    CloudState,
    Record,
    Size,
    Tags,
    WorkerState,
)
from nodemanager.core.observe.snapshot import Snapshot
from nodemanager.core.plan.destroy import ShutdownOrder
from nodemanager.core.plan.plan import Plan
from nodemanager.errors import Conflict, JournalError, JournalReplaced, RemoteError
from nodemanager.journal.api import Intent, IntentKind
from nodemanager.journal.kept import BREAKER, MARKS
from tests.cases import cases
from tests.simulation.choices import LARGE, RELOADED, SMALL, SPOT, reloaded
from tests.simulation.cleans import CleanRules
from tests.simulation.engine import Engine, Killed, SimClock
from tests.simulation.faults import KINDS, Fault
from tests.simulation.faults.managers import at_a_call
from tests.simulation.faults.script import Scene
from tests.simulation.machine import Habits, Machine, Word
from tests.simulation.manager import Manager
from tests.simulation.nodes import NodeRules
from tests.simulation.pen import Paper
from tests.simulation.run import play, run
from tests.simulation.scenario import draw
from tests.simulation.told import Answer, Heard, Read, Told
from tests.simulation.truth import CREATE_BOUND_S, Truth
from tests.simulation.work import Poll, Work
from tests.simulation.world import World

pytestmark = pytest.mark.slow

HELD = Marks(holds={"i-1": Mark("ann", 0.0, "wait")})


def paper(*, sqlite: bool) -> Paper:
    return Paper("main", SimClock(Engine("paper")), sqlite=sqlite)


@pytest.mark.parametrize("sqlite", [False, True])
def test_a_writer_is_killed_right_before_a_write_or_right_after_it(sqlite: bool) -> None:
    """F3: before it nothing of it is there, after it all of it is."""
    desk = paper(sqlite=sqlite)
    try:
        for strike, there in (("before", NO_MARKS), ("after", HELD)):
            pen = desk.pen("m-1")
            setattr(desk, strike, lambda writer: writer == "m-1")
            with pytest.raises(Killed):
                pen.keep(MARKS, HELD)
            setattr(desk, strike, None)
            assert desk.pen("m-2").kept(MARKS) == there
    finally:
        desk.close()


@pytest.mark.parametrize("sqlite", [False, True])
def test_some_writes_fail_and_others_do_not(sqlite: bool) -> None:
    desk = paper(sqlite=sqlite)
    try:
        pen = desk.pen("m-1")
        desk.fault = lambda call: "the disk is slow" if call == "keep breaker" else None
        with pytest.raises(JournalError, match="the disk is slow"):
            pen.keep(BREAKER, Breaker())
        assert pen.failure == "the disk is slow"
        pen.keep(MARKS, HELD)
        assert pen.failure is None
        assert pen.kept(MARKS) == HELD
    finally:
        desk.close()


@pytest.mark.parametrize("sqlite", [False, True])
def test_a_lost_journal_fails_for_good_under_its_writer_and_the_next_begins_anew(
    sqlite: bool,
) -> None:
    desk = paper(sqlite=sqlite)
    try:
        pen = desk.pen("m-1")
        pen.keep(MARKS, HELD)
        assert desk.whole().kept(MARKS) == HELD
        desk.lose()
        assert desk.whole().kept(MARKS) == NO_MARKS, (
            "the world reads it first, and the writer hears of it"
        )
        for _ in range(2):
            with pytest.raises(JournalReplaced, match="moved, removed or replaced"):
                pen.intend([Intent(IntentKind.CLEAN, "clean:r", "p-1")])
        following = desk.pen("m-2")
        assert following.kept(MARKS) == NO_MARKS
        following.keep(MARKS, HELD)
        assert desk.whole().kept(MARKS) == HELD
        with pytest.raises(JournalReplaced):
            pen.kept(MARKS)
    finally:
        desk.close()


def shown(kinds: Mapping[str, tuple[float, float]], seed: int = 3, **more: Any) -> World:
    """The world of that seed with those faults alone, each at its time and for so long."""
    there: list[World] = []
    scenario = draw(seed)
    script = tuple(
        Fault(kind, at, lasts, number) for number, (kind, (at, lasts)) in enumerate(kinds.items())
    )
    shape = replace(scenario.shape, **more)
    result = play(replace(scenario, script=script, shape=shape), watch=there.append)
    assert not result.violations
    return there[0]


def test_a_manager_that_is_told_to_stop_comes_to_its_end_and_another_starts() -> None:
    """F5: systemd stops it in good order, and does not kill it."""
    world = shown({"manager restarted by systemd": (600.0, 5.0)})
    first, second = world.managers["main-1"], world.managers["main-2"]
    assert first.stopping
    assert not first.alive
    assert second.started_at - first.started_at > 600.0


def test_a_fault_that_waited_for_a_call_does_not_begin_in_the_calm() -> None:
    """The call came in the storm's last moment, and the fault is to begin a little later."""
    world = World("0", draw(0).shape)
    world.start(world.pools["main"])
    begun: list[Scene] = []
    fault = Fault("manager paused at a call", at=0.0, lasts=60.0, number=0)
    at_a_call(begun.append)(Scene(world, fault, world.engine.random("fault")))
    (watcher,) = world.weather.watchers
    watcher.act()
    world.engine.calm = True
    world.engine.run(world.engine.now + 1.0)
    assert begun == []


def test_the_boottime_of_a_rebooted_machine_counts_anew() -> None:
    """F5: T2's clock of the manager's host starts again, and what was written by it is moved."""
    world = shown({"manager's machine reboots": (600.0, 60.0)})
    assert world.pools["main"].clock.boottime() < world.engine.now - 500.0
    assert "main-2" in world.managers


def test_a_reload_may_change_every_window_and_limit() -> None:
    settings = draw(3).shape.pools[0][0]
    random = Engine("reload").random("reload")
    changed = set()
    for _ in range(300):
        after = reloaded(settings, random, seated=False)
        assert after.min_nodes <= after.max_nodes
        changed |= {name for name in RELOADED if getattr(after, name) != getattr(settings, name)}
    assert changed == RELOADED.keys()


def test_a_request_that_arrives_twice_is_answered_with_the_second_answer() -> None:
    """F5: the first took effect, and its caller is told of a conflict."""
    refused: list[str] = []

    def watch(world: World) -> None:
        def failed(manager: str, method: str, about: str, error: RemoteError) -> None:
            if isinstance(error, Conflict):
                refused.append(about)

        world.weather.failed.append(failed)

    scenario = draw(3)
    fault = Fault("store requests arrive twice", 240.0, 900.0, 0)
    shape = replace(scenario.shape, fenced=False)
    result = play(replace(scenario, script=(fault,), shape=shape), watch=watch)
    assert not result.violations
    assert refused


@pytest.mark.parametrize("late", [True, False])
def test_a_create_that_took_effect_twice_is_too_late_for_both_nodes_a2(late: bool) -> None:
    world = World("0", draw(0).shape)
    truth = Truth(world, Told(world))
    pool = next(iter(world.pools.values()))
    bound_s = pool.settings.boot_fail_after + CREATE_BOUND_S
    truth.claimed_at["life"] = world.engine.now - bound_s - (1.0 if late else -1.0)
    tags = Tags(pool.name, "zzzzz-7ekkf-000000000000001", "life")
    made = world.cloud.start(tags=tags, size="s.1", name="n", by="main-1")
    world.cloud.start_twin(made, "zzzzz-7ekkf-000000000000001?secret")
    (twin,) = (one for one in world.cloud.living() if one.twin)
    assert world.is_excused(twin.id, which="A2") is late


@pytest.mark.parametrize(("given_at", "counts"), [(0.0, True), (2.0, False)])
def test_a_node_counts_by_a_listing_once_its_manager_was_given_it(
    given_at: float, counts: bool
) -> None:
    """MAX: its last word is old, and the listing that shows it may be on its way to the daemon."""
    world = World("0", draw(0).shape)
    told = Told(world)
    truth = Truth(world, told)
    pool = next(iter(world.pools.values()))
    manager, now = world.start(pool), world.engine.now
    uuid = "zzzzz-7ekkf-000000000000001"
    tags = Tags(pool.name, uuid, "life")
    node = world.cloud.start(tags=tags, size="s.1", name="n", by="main-1")
    claim = Claim(pool.name, "main-1", 1, 0.0, "n", "life")
    record = Record(uuid, "v", claim=claim, first_ping_at=1.0, last_ping_at=1.0)
    truth.pings[uuid, 1.0] = now - pool.settings.poll_stale_after - 60.0
    ears = told.ears[manager.name]
    shown = {node.id: CloudNode(node.id, "n", CloudState.RUNNING, tags=tags)}
    ears.records.append(Heard(now - 1.0, now - 1.0, True, {uuid: record}, given_at=now))
    ears.cloud.append(Heard(now - 9.0, now - 9.0, True, {}, given_at=now - 9.0))
    ears.cloud.append(Heard(now - 1.0, now - 1.0, True, shown, given_at=now + given_at))
    assert truth._is_evident(node, manager, now) is counts


@cases(
    ("lacked_at", "counts"),
    {
        "silent-since-the-first-that-lacks-it": ((-61.0, -31.0, -1.0), False),
        "one-listing-before-it-was-made": ((-151.0, -61.0, -31.0, -1.0), False),
        "settled-since-it-was-heard": ((-90.0, -61.0, -31.0, -1.0), False),
        "not-settled-since-it-was-heard": ((-90.0, -31.0, -1.0), True),
        "not-settled-since-it-was-made": ((-151.0, -31.0, -1.0), True),
        "one-listing-since-it-was-made": ((-151.0, -1.0), True),
    },
)
def test_a_listing_from_before_a_node_was_made_does_not_lack_it(
    lacked_at: tuple[float, ...], counts: bool
) -> None:
    """MAX, P4: an absence is settled by two listings, 45 s apart, without a ping since."""
    world = World("0", draw(0).shape)
    told = Told(world)
    truth = Truth(world, told)
    pool = next(iter(world.pools.values()))
    pool.settings = replace(
        pool.settings, absent_listings=2, settle=45.0, poll_stale_after=150.0, visible_after=0.0
    )
    manager, now = world.start(pool), world.engine.now
    uuid = "zzzzz-7ekkf-000000000000001"
    tags = Tags(pool.name, uuid, "life")
    node = world.cloud.start(tags=tags, size="s.1", name="n", by="main-1")
    node.created_at = now - 100.0
    claim = Claim(pool.name, "main-1", 1, 0.0, "n", "life")
    record = Record(uuid, "v", claim=claim, first_ping_at=1.0, last_ping_at=1.0)
    truth.pings[uuid, 1.0] = now - 70.0
    ears = told.ears[manager.name]
    for at in (now - 200.0, now - 1.0):
        ears.records.append(Heard(at, at, True, {uuid: record}, given_at=at))
    for at in lacked_at:
        ears.cloud.append(Heard(now + at, now + at, True, {}, given_at=now + at))
    assert truth._is_evident(node, manager, now) is counts


@cases(
    ("shown", "resets", "counts"),
    {
        "nobody-closed-the-breaker": ({-60.0: True, -5.0: False}, [], True),
        "closed-once-they-were-lost": ({-60.0: True, -5.0: False}, [-2.0], False),
        "closed-before-they-were-lost": ({-60.0: True, -5.0: False}, [-30.0], True),
        "closed-after-the-order": ({-60.0: True, -5.0: False}, [1.0], True),
        "listed-again-and-lost-again": (
            {-60.0: True, -40.0: False, -20.0: True, -5.0: False},
            [-30.0],
            True,
        ),
        "still-lost": ({-60.0: True, -40.0: False, -5.0: False}, [-30.0], False),
        "first-listed-after-the-order": ({-5.0: False, 1.0: True}, [], False),
    },
)
def test_no_records_at_all_are_believed_once_an_operator_closed_the_breaker_for_them(
    shown: Mapping[float, bool], resets: list[float], counts: bool
) -> None:
    """MAX, L3, B3: an unlisted node counts although the record listing is empty, until then."""
    world = World("0", draw(0).shape)
    told = Told(world)
    truth = Truth(world, told)
    pool = next(iter(world.pools.values()))
    manager, now = world.start(pool), world.engine.now
    uuid = "zzzzz-7ekkf-000000000000001"
    node = world.cloud.start(tags=Tags(pool.name, uuid, "life"), size="s.1", name="n", by="main-1")
    node.created_at = now - 600.0
    ears = told.ears[manager.name]
    ears.cloud.append(Heard(now - 1.0, now - 1.0, True, {}, given_at=now - 1.0))
    for at, full in shown.items():
        items = {uuid: Record(uuid, "v")} if full else {}
        ears.records.append(Heard(now + at, now + at, True, items, given_at=now + at))
    ears.resets = [now + at for at in resets]
    assert truth._is_evident(node, manager, now) is counts


class LateDestroy:
    """A destroy ordered at 10 s and sent at 20 s; its node is ordered to go again at 30 s.

    It arrives at 40 s.
    """

    def __init__(self, *reasons: Reason, read_at: float = 15.0) -> None:
        self.world = world = World("0", draw(0).shape)
        told = Told(world)
        self.rules = NodeRules(world, told, CleanRules(world, told, Truth(world, told)))
        self.work = Work(world, told, self.rules)
        pool = next(iter(world.pools.values()))
        manager, begun = world.start(pool), world.engine.now
        self.by, self.begun, uuid = manager.name, begun, "zzzzz-7ekkf-000000000000001"
        tags = Tags(pool.name, uuid, "life")
        self.node = node = world.cloud.start(tags=tags, size="s.1", name="n", by=self.by)
        listed = {node.id: CloudNode(node.id, "n", CloudState.RUNNING, tags=tags)}
        record = Record(uuid, "v", worker_state=WorkerState.IDLE)
        ears = told.ears[self.by]
        ears.reads[uuid] = [Read(begun + read_at, record)]
        cloud = Heard(begun, begun, True, listed)
        records = Heard(begun, begun, True, {uuid: record})
        for at, reason in zip((10.0, 30.0), reasons, strict=True):
            world.engine.now = begun + at
            order = ShutdownOrder(
                node.id, "n", None, reason, "p", 0, begun + 90.0, None, uuid, "v", "life"
            )
            self.rules._shutdown(manager, order, ears, cloud, records, pool.settings)

    def arrives(self) -> set[str]:
        """The rules that it breaks."""
        self.world.violations.clear()
        self.world.weather.sent_at = self.begun + 20.0
        self.world.engine.now = self.begun + 40.0
        self.rules.destroyed(self.node, self.by)
        self.work._destroyed(self.node, self.by)
        return {one.rule for one in self.world.violations}


@cases(("read_at", "found"), {"since-its-order": (15.0, False), "before-it": (5.0, True)})
def test_a_late_destroy_was_looked_at_since_the_order_that_it_was_sent_for_d2(
    read_at: float, found: bool
) -> None:
    late = LateDestroy(Reason.IDLE_BEYOND_DEMAND, Reason.IDLE_BEYOND_DEMAND, read_at=read_at)
    assert ("D2" in late.arrives()) is found


@cases(
    ("reasons", "found"),
    {
        "as-idle": ((Reason.IDLE_BEYOND_DEMAND, Reason.NODE_DOWN), True),
        "as-down": ((Reason.NODE_DOWN, Reason.IDLE_BEYOND_DEMAND), False),
    },
)
def test_a_late_destroy_is_for_the_reason_of_the_order_that_it_was_sent_for_work(
    reasons: tuple[Reason, ...], found: bool
) -> None:
    """WORK: its node is at work since before it was sent, and gave no word of its own."""
    late = LateDestroy(*reasons)
    at_work = SimpleNamespace(
        busy_since=late.begun, heard_at=None, drains_for=lambda _: False, words={}
    )
    late.node.machine = cast(Machine, at_work)
    assert ("WORK" in late.arrives()) is found


@cases(
    ("states", "turned"),
    {
        "silent-since-its-newest-word": (("idle", "idle", "idle"), 30.0),
        "down-since-it-began-to-say-so": (("idle", "down", "down"), 20.0),
        "up-in-between": (("down", "idle", "down"), 30.0),
        "silent-and-up-by-its-newest-word": (("down", "down", "idle"), 30.0),
    },
)
def test_a_node_that_pings_that_it_is_down_turned_when_it_first_said_so_d9(
    states: tuple[str, ...], turned: float
) -> None:
    """It pings on for minutes, and another that falls silent then is of no wave with it."""
    late = LateDestroy(Reason.NODE_DOWN, Reason.NODE_DOWN)
    words = {10.0 * n: Word(10.0 * n, 10.0 * n, state) for n, state in enumerate(states, 1)}
    pinging = SimpleNamespace(heard_at=30.0, words=words, uuid=late.node.tags.record)
    late.node.machine = cast(Machine, pinging)
    late.node.created_at = 0.0
    records = late.rules.told.ears[late.by].records
    records.append(Heard(0.0, 0.0, True, {}))
    _, order = late.rules.memory[late.by].ordered[late.node.id][0]
    assert late.rules._turned_at(order, late.by) == turned


@cases(
    ("said", "asked", "found"),
    {
        "killed": (["kill done"], True, False),
        "nobody-killed-it": ([], True, True),
        "its-kill-was-refused": (["kill refused"], True, True),
        "called-off": (["kill done", "run done"], True, True),
        "too-late-to-call-it-off": (["kill done", "run refused"], True, False),
        "killed-and-the-cloud-was-not-asked": (["kill done"], False, True),
    },
)
def test_an_unlisted_node_is_killed_if_an_operator_did_and_the_cloud_has_it_d13_o2(
    said: list[str], asked: bool, found: bool
) -> None:
    late = LateDestroy(Reason.KILLED, Reason.KILLED)
    world, rules, node = late.world, late.rules, late.node
    manager, now = world.managers[late.by], world.engine.now
    uuid = node.tags.record or ""
    events = {"kill": Event.OPERATOR_KILL, "run": Event.OPERATOR_UNDRAIN}
    for word in said:
        verb, result = word.split()
        world.logged(manager, events[verb], {"node": node.id, "result": result})
    ears = rules.told.ears[late.by]
    if asked:
        shown = CloudNode(node.id, "n", CloudState.RUNNING, tags=node.tags)
        ears.by_id[node.id] = [Answer(now, (shown,), given=True)]
    record = Record(
        uuid, "v", claim=Claim(manager.pool.name, "m", 1, now, "n", "life"), last_ping_at=now
    )
    order = ShutdownOrder(
        node.id, "n", None, Reason.KILLED, "p", 0, now + 60.0, None, uuid, "v", "life"
    )
    world.violations.clear()
    cloud, records = Heard(now, now, True, {}), Heard(now, now, True, {uuid: record})
    rules._shutdown(manager, order, ears, cloud, records, manager.pool.settings)
    assert [one.rule for one in world.violations] == (["D1"] if found else [])


@cases(
    ("size", "alike", "price", "found"),
    {
        "one-for-each-of-the-size-that-they-want": (SMALL, 2, 0.9, True),
        "one-too-many-of-that-size": (SMALL, 3, 0.9, False),
        "a-larger-one": (LARGE, 2, 0.9, False),
        "a-preemptible-one": (SPOT, 2, 0.9, False),
        "too-dear-all-together": (SMALL, 2, 1.1, False),
    },
)
def test_a_node_was_wanted_at_its_word_if_as_many_jobs_wanted_its_size_work(
    size: Size, alike: int, price: float, found: bool
) -> None:
    """WORK, U12: two jobs wait as it says idle, and one begins on it before the destroy is sent."""
    late = LateDestroy(Reason.IDLE_BEYOND_DEMAND, Reason.IDLE_BEYOND_DEMAND)
    world, begun, node = late.world, late.begun, late.node
    pool = world.managers[late.by].pool
    sizes = (SMALL, LARGE, SPOT)
    pool.settings = replace(pool.settings, max_nodes=4, max_total_price=1.0, sizes=sizes)
    node.tags = replace(node.tags, size=size.name)
    poll = Poll(begun + 11.0, wanted=2, living=3, alike=alike, price=price)
    late.work.polls[late.by].append(poll)
    at_work = SimpleNamespace(
        busy_since=begun + 16.0,
        heard_at=begun + 12.0,
        habits=Habits(),
        drains_for=lambda _: False,
        words={None: Word(begun + 12.0, begun + 12.0, "idle")},
    )
    node.machine = cast(Machine, at_work)
    assert ("WORK" in late.arrives()) is found


@cases(("is_answered", "found"), {"told": (True, True), "answered-with-an-error": (False, False)})
def test_a_node_with_a_drain_hook_may_be_hit_in_the_gap_if_it_can_be_told_nothing_work(
    is_answered: bool, found: bool
) -> None:
    late = LateDestroy(Reason.IDLE_BEYOND_DEMAND, Reason.IDLE_BEYOND_DEMAND)
    at = late.begun + 12.0
    at_work = SimpleNamespace(
        busy_since=late.begun + 16.0,
        heard_at=at,
        habits=Habits(),
        drains_for=lambda _: True,
        words={None: Word(at, at, "idle", is_answered=is_answered)},
    )
    late.node.machine = cast(Machine, at_work)
    assert ("WORK" in late.arrives()) is found


@pytest.mark.parametrize("slots", [1, 2])
def test_a_ping_that_finds_no_free_slot_counts_and_is_told_no_order(slots: int) -> None:
    """As the registry answers it: 422, after it wrote the ping."""
    shape = draw(0).shape
    habits = replace(shape.habits, drain_hook=True)
    world = World("0", replace(shape, slots=slots, habits=habits, fenced=False))
    world.registry.insert({"slot_number": 1}, "server", "made")
    row = world.registry.insert({"drain": "00c0ffee"}, "server", "made")
    record = world.registry.record(row["uuid"])
    assert record is not None
    node = world.cloud.start(tags=Tags(), size="s.1", name="n", by="somebody")
    world._boot(node, f"{record.uuid}?{record.ping_secret}")
    machine = node.machine
    assert machine is not None
    now = world.engine.now
    machine._arrive(Word(now, now, "idle"), None, machine.life)
    assert machine.heard_at == world.engine.now
    assert [word.is_answered for word in machine.words.values()] == [slots > 1]
    assert machine.told == (None if slots == 1 else "00c0ffee")


def test_leftovers_are_written_down_and_released() -> None:
    """D4 in a simulated world: nothing that a gone node pinned stays for ever."""
    scenario = draw(3)
    traits = replace(scenario.shape.traits, pins=True)
    world = shown({"all nodes die": (900.0, 0.0)}, traits=traits)
    now = world.engine.now
    released = [one for one in world.cloud.pinned.values() if one.is_gone(now)]
    assert released


def test_every_kind_of_fault_is_drawn() -> None:
    """Those of seats where Slurm's nodes are the records, those of a lease where managers share
    one; those that are apart by storms alone."""
    drawn = {
        fault.kind
        for seed in range(400)
        for more in ({}, {"seated": True}, {"leased": True})
        for fault in draw(seed, **more).script
    }
    assert drawn == {name for name, kind in KINDS.items() if not kind.apart}


def test_a_breaker_opens_when_too_many_may_be_freed_at_once() -> None:
    """B1: more than a hundred leaked records, and a manager that holds nothing back."""
    scenario = draw(3)
    settings, poll_time = scenario.shape.pools[0]
    pools = ((replace(settings, hold_backlog=False), poll_time),)
    opened: set[Cause | None] = set()

    def watch(world: World) -> None:
        def planned(manager: Manager, plan: Plan, snapshot: Snapshot, settings: Settings) -> None:
            opened.update(part.cause for part in plan.breaker.parts)
            world.engine.halted = Cause.CLEAN_RATE in opened

        world.plans.append(planned)

    shape = replace(scenario.shape, pools=pools, crowd=120, slots=140, heirlooms=1)
    play(replace(scenario, shape=shape, script=()), watch=watch)
    assert Cause.CLEAN_RATE in opened


def test_one_seed_on_sqlite_is_one_run() -> None:
    seed = 14
    assert draw(seed).shape.sqlite, "take another short one"
    assert run(seed).digest == run(seed).digest
