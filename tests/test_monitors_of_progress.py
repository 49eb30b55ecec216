"""The monitors of progress: each debt has its time, and the docs state it (F1)."""

from __future__ import annotations

from dataclasses import replace

import mock
import pytest

from nodemanager.core.model.breaker import Breaker, Cause
from nodemanager.core.model.world import Claim, Tags
from nodemanager.core.observe.clocks import Clocks, MeasuredClock
from nodemanager.journal.kept import CLOCKS
from nodemanager.records import wire
from tests.cases import cases
from tests.simulation import health
from tests.simulation.boot_loops import BootLoops
from tests.simulation.debts import NEVER, Debts, Owed
from tests.simulation.health import Health
from tests.simulation.latch import Latch
from tests.simulation.liveness import Calm
from tests.simulation.machine import Word
from tests.simulation.progress import Progress
from tests.simulation.rotations import RotationRules
from tests.simulation.scenario import draw
from tests.simulation.setups import SetUpRules
from tests.simulation.told import Told
from tests.simulation.truth import Truth
from tests.simulation.world import Pool, World

pytestmark = pytest.mark.slow

ROTATIONS = mock.create_autospec(RotationRules)


@pytest.fixture
def world() -> World:
    return World("0", draw(0).shape)


def _owed(key: str, *, within: float = 60.0, since: float = 0.0) -> Owed:
    return Owed("PROGRESS", key, f"{key} comes", since, within)


def test_a_debt_is_overdue_only_past_its_bound(world: World) -> None:
    """The bound counts from when it was first owed."""
    debts = Debts(world)
    assert not debts.look([_owed("a node")])
    world.engine.run(world.engine.now + 60.0)
    assert not debts.look([_owed("a node")])
    assert world.violations == []
    world.engine.run(world.engine.now + 1.0)
    debts.look([_owed("a node")])
    assert [one.rule for one in world.violations] == ["PROGRESS"]


def test_a_debt_that_was_paid_in_between_is_owed_anew(world: World) -> None:
    debts = Debts(world)
    debts.look([_owed("a node")])
    world.engine.run(world.engine.now + 50.0)
    assert debts.look([])
    debts.look([_owed("a node")])
    world.engine.run(world.engine.now + 50.0)
    debts.look([_owed("a node")])
    assert world.violations == []


def test_a_debt_counts_from_its_cause_where_that_is_later(world: World) -> None:
    debts = Debts(world)
    later = world.engine.now + 100.0
    debts.look([_owed("a node", since=later)])
    world.engine.run(world.engine.now + 150.0)
    debts.look([_owed("a node", since=later)])
    assert world.violations == []


def test_whatever_is_owed_when_the_calm_ends_is_a_failure(world: World) -> None:
    """The limit of the calm is no end without a finding, also for what has no bound."""
    debts = Debts(world)
    debts.look([_owed("a node", within=NEVER)])
    world.engine.run(world.engine.now + 6000.0)
    debts.look([_owed("a node", within=NEVER)])
    assert world.violations == []
    debts.end()
    assert [one.rule for one in world.violations] == ["PROGRESS"]


def test_the_calm_lasts_until_all_is_due_that_was_owed_within_its_limit(world: World) -> None:
    """A hundred records that are freed one by one may take longer than the limit."""
    debts, begun = Debts(world), world.engine.now
    debts.look([_owed("a slot", within=7000.0), _owed("at rest", within=NEVER)])
    assert debts.due_by(begun + 6000.0) == begun + 7000.0
    world.engine.run(begun + 6500.0)
    debts.look([_owed("a node", within=7000.0), _owed("at rest", within=NEVER)])
    assert debts.due_by(begun + 6000.0) == begun + 6000.0


def _with_a_node(tags: Tags, *, broad: bool) -> tuple[World, Pool, str]:
    """A pool of at most one node and at least one, and that node, of which a record knows."""
    shape = draw(0).shape
    ((settings, poll_time), *_) = shape.pools
    settings = replace(settings, min_nodes=1, max_nodes=1, max_total_price=0.0)
    shape = replace(
        shape, pools=((settings, poll_time),), traits=replace(shape.traits, broad=broad), slots=4
    )
    world = World("0", shape)
    (pool,) = world.pools.values()
    row = world.registry.insert(
        {"properties": {wire.POOL: pool.name}, "slot_number": 1}, "server", "made"
    )
    record = world.registry.record(row["uuid"])
    assert record is not None
    node = world.cloud.start(tags=tags, size="s.1", name="n", by="somebody")
    world._boot(node, f"{record.uuid}?{record.ping_secret}")
    return world, pool, node.id


@pytest.mark.parametrize("broad", [True, False])
def test_whose_tags_an_operator_took_fills_the_pool_for_as_long_as_it_lives_d11(
    broad: bool,
) -> None:
    """A5: no other node may come beside it, though no listing by tag shows it."""
    world, pool, node_id = _with_a_node(Tags(), broad=broad)
    assert health.lacking(world, pool, health.ward(world, pool)) == 0
    world.cloud.end(world.cloud.instances[node_id])
    (row,) = world.registry.rows.values()
    world.registry.delete(row["uuid"], "operator")
    assert health.lacking(world, pool, health.ward(world, pool)) == 1


def test_it_serves_nobody_where_there_is_room_for_one_more_d11() -> None:
    world, pool, _ = _with_a_node(Tags(), broad=False)
    pool.settings = replace(pool.settings, max_nodes=2)
    assert health.lacking(world, pool, health.ward(world, pool)) == 1


def test_whom_no_record_of_the_pool_knows_is_no_excuse_d11() -> None:
    """A stranger's node that no listing shows; and one whose record somebody deleted (A5)."""
    world, pool, _ = _with_a_node(Tags(), broad=False)
    (row,) = world.registry.rows.values()
    world.registry.delete(row["uuid"], "operator")
    assert health.lacking(world, pool, health.ward(world, pool)) == 1


def test_a_node_is_counted_once_though_a_record_knows_it_too() -> None:
    """Its twin lost its tags: the record is the other's, that has them."""
    world, pool, node_id = _with_a_node(Tags(), broad=False)
    pool.settings = replace(pool.settings, min_nodes=2, max_nodes=2)
    one = world.cloud.instances[node_id]
    assert one.machine is not None
    twin = world.cloud.start(tags=Tags(pool.name), size="s.1", name="n", by="somebody")
    world._boot(twin, f"{one.machine.uuid}?{one.machine.secret}")
    assert health.ward(world, pool).estranged == 0
    assert health.lacking(world, pool, health.ward(world, pool)) == 1


def _beside_an_idle_node(named: str | None) -> tuple[World, Pool]:
    """A pool whose one paired node is idle, and a node with the pool's tag that names no record;
    the record that it pings names `named`: "it", "another" or None. Its pings tell no id."""
    shape = draw(0).shape
    ((settings, poll_time), *_) = shape.pools
    settings = replace(
        settings,
        min_nodes=1,
        max_nodes=3,
        max_total_price=0.0,
        ids_unique=False,
        demand_polled=True,
    )
    habits = replace(
        shape.habits, tells_state=True, tells_instance=False, works=0.0, dies_every=0.0
    )
    world = World("0", replace(shape, pools=((settings, poll_time),), habits=habits, slots=4))
    (pool,) = world.pools.values()
    for slot, paired in enumerate((True, False)):
        values = {"properties": {wire.POOL: pool.name}, "slot_number": slot}
        row = world.registry.insert(values, "server", "made")
        tags = Tags(pool.name, row["uuid"] if paired else None)
        node = world.cloud.start(tags=tags, size="s.1", name="n", by="somebody")
        if not paired and named is not None:
            known = node.id if named == "it" else "i-another"
            world.registry.change(row, {"info": {**row["info"], wire.INSTANCE_ID: known}}, "x", "x")
        record = world.registry.record(row["uuid"])
        assert record is not None
        world._boot(node, f"{record.uuid}?{record.ping_secret}")
    world.engine.run(world.engine.now + 200.0)
    return world, pool


@cases(
    ("named", "beyond"),
    {
        "nothing-names-it": (None, 0),
        "its-record-names-another": ("another", 0),
        "its-record-names-it": ("it", 1),
    },
)
def test_an_idle_node_is_surplus_only_beside_one_that_serves_min_nodes_d11(
    named: str | None, beyond: int
) -> None:
    """What pairs with nothing ends by D7, and serves min_nodes no longer."""
    world, pool = _beside_an_idle_node(named)
    seen = health.ward(world, pool)
    assert [one.health for one in seen.patients if one.idle] == [Health.SERVING]
    assert health.surplus(world, pool, seen) == beyond
    assert len(seen.strays) == 1 - beyond
    pool.settings = replace(pool.settings, max_nodes=1)
    assert health.surplus(world, pool, seen) == beyond


@cases(
    ("which", "waits"),
    {
        "it-is-the-idle-one": ("idle", True),
        "the-idle-one-serves-min-nodes-in-its-place": ("other", True),
        "no-destroy-was-sent": ("none", False),
    },
)
def test_an_idle_node_stays_until_it_shows_what_became_of_a_destroy_d3(
    which: str, waits: bool
) -> None:
    """A destroy that the storm's runs sent may end its node yet, also where that node works."""
    world, pool = _beside_an_idle_node("it")
    calm, truth = mock.create_autospec(Calm), mock.create_autospec(Truth)
    setups, latch = mock.create_autospec(SetUpRules), mock.create_autospec(Latch)
    calm.begun, calm.since.return_value = None, 50.0
    progress = Progress(world, truth, calm, latch, setups, ROTATIONS, BootLoops(world, Told(world)))
    progress._left_open[pool.name] = set()
    seen = health.ward(world, pool)
    doomed = {"idle" if one.idle else "other": one.node.id for one in seen.patients}
    if which in doomed:
        world.weather.sent[-1]("main-1", "cloud.destroy", doomed[which])
    (owed,) = progress._surplus(pool, seen, 60.0, mock.Mock(surplus=100.0))
    assert owed.since == (50.0 + pool.settings.action_timeout if waits else 60.0)


def test_a_node_that_pairs_with_nothing_fills_max_nodes_and_serves_no_demand_d11() -> None:
    world, pool = _beside_an_idle_node(None)
    pool.wanted = 2
    seen = health.ward(world, pool)
    assert health.lacking(world, pool, seen) == 1
    pool.settings = replace(pool.settings, max_nodes=2)
    assert health.lacking(world, pool, seen) == 0
    pool.wanted, pool.settings = 1, replace(pool.settings, min_nodes=0, max_nodes=1)
    assert health.surplus(world, pool, seen) == 1
    (stray,) = seen.strays
    world.cloud.hidden.add(stray.node.id)
    assert health.surplus(world, pool, seen) == 0


@cases(
    ("listed", "broken", "lost"),
    {
        "denied": (False, ("A1", "node"), True),
        "its-record-edited": (False, ("A5", "record"), True),
        "a-wrong-clock": (False, ("A3",), False),
        "another-denied": (False, ("A1", "another"), False),
        "nothing-broken": (False, None, False),
        "listed": (True, ("A1", "node"), False),
    },
)
def test_only_an_unlisted_node_that_was_robbed_of_its_claim_is_owed_no_end_d13(
    listed: bool, broken: tuple[str, ...] | None, lost: bool
) -> None:
    world, pool, node_id = _with_a_node(Tags(), broad=False)
    (uuid,) = world.registry.rows
    node = world.cloud.instances[node_id]
    world.cloud.retag(node, Tags(pool.name, uuid, "an earlier life"))
    if not listed:
        world.cloud.hidden.add(node_id)
    if broken is not None:
        which, *about = broken
        names = {"node": node_id, "record": uuid}
        world.break_assumption(which, "as told", *(names.get(one, one) for one in about))
    (one,) = health.ward(world, pool).patients
    assert health.is_lost(world, one) is lost


@pytest.mark.parametrize("pinged", [False, True])
def test_an_unlisted_node_with_its_claim_is_owed_its_end_d13(pinged: bool) -> None:
    """Also where it was denied for a while (A1): it is asked for again."""
    world, pool, node_id = _with_a_node(Tags(), broad=False)
    world.cloud.hidden.add(node_id)
    world.break_assumption("A1", "as told", node_id)
    (uuid,) = world.registry.rows
    record = world.registry.record(uuid)
    assert record is not None
    world.cloud.retag(world.cloud.instances[node_id], Tags(pool.name, uuid, record.incarnation))
    (one,) = health.ward(world, pool).patients
    assert one.paired
    assert not health.is_lost(world, replace(one, pinged=pinged))


@cases(("opened_at", "late"), {"open-all-along": (1.0, True), "opened-anew": (90.0, False)})
def test_a_breaker_owes_its_closing_from_its_newest_opening_b3(
    world: World, opened_at: float, late: bool
) -> None:
    """It may close and open between two looks."""
    calm, truth = mock.create_autospec(Calm), mock.create_autospec(Truth)
    calm.awake.return_value = 0.0
    calm.bounds.return_value.breaker.return_value = 100.0
    latch, debts = Latch(world, truth, calm), Debts(world)
    lost = Breaker(Cause.CLOUD_COLLAPSED, frozenset({"i-1"}), opened_at=1.0)
    (pool,) = list(world.pools)[:1]
    for part in (lost, replace(lost, opened_at=opened_at)):
        latch.breakers[pool] = part
        debts.look(latch.owed())
        world.engine.run(world.engine.now + 60.0)
    debts.look(latch.owed())
    assert [one.rule for one in world.violations] == (["B3"] if late else [])
    world.engine.run(world.engine.now + 60.0)
    debts.look(latch.owed())
    assert "B3" in [one.rule for one in world.violations], "it does not close either"


@pytest.mark.parametrize(("age", "later"), [(0.0, 100.0), (40.0, 60.0), (250.0, 0.0)])
def test_a_node_that_ends_young_is_settled_from_when_listings_must_show_it_c11(
    world: World, age: float, later: float
) -> None:
    """`age` counts from its first ping; the cloud may take 100 s to show a node."""
    calm, truth = mock.create_autospec(Calm), mock.create_autospec(Truth)
    setups, latch = mock.create_autospec(SetUpRules), mock.create_autospec(Latch)
    progress = Progress(world, truth, calm, latch, setups, ROTATIONS, BootLoops(world, Told(world)))
    world.cloud.traits = replace(world.cloud.traits, visible_after=100.0)
    pool = next(iter(world.pools))
    node = world.cloud.start(tags=Tags(pool), size="s.1", name="n", by="somebody")
    world._boot(node, "r1?secret")
    assert node.machine is not None
    begun = world.engine.now
    node.machine.words[1.0] = Word(begun, begun, "idle")
    node.machine.words[2.0] = Word(begun + age, begun + age, "idle")
    world.engine.run(begun + age)
    world.cloud.end(node)
    assert progress._ended_at == {pool: begun + age + later}


def _watched(world: World) -> Progress:
    calm, setups = mock.create_autospec(Calm), mock.create_autospec(SetUpRules)
    calm.since.return_value, setups.refused_until = 0.0, {}
    latch, truth = mock.create_autospec(Latch), mock.create_autospec(Truth)
    return Progress(world, truth, calm, latch, setups, ROTATIONS, BootLoops(world, Told(world)))


def _lacked_since(progress: Progress, pool: Pool) -> float:
    bounds = mock.Mock(settled=0.0, polls=0.0, clock=0.0)
    seen = health.ward(progress.world, pool)
    (owed,) = progress._wanted(pool, seen, 60.0, bounds)
    return owed.since


@pytest.mark.parametrize(("taker", "anew"), [("other", True), ("main", False)])
def test_a_pool_may_wait_only_where_another_took_the_last_slot(taker: str, anew: bool) -> None:
    """Both look at one table: its own set-up shows that a pool had its turn."""
    shape = replace(draw(1).shape, slots=1)
    pools = [(replace(one, min_nodes=1, max_total_price=0.0), poll) for one, poll in shape.pools]
    world = World("1", replace(shape, pools=tuple(pools)))
    progress, pool = _watched(world), world.pools["main"]
    now = world.engine.now
    claim = Claim(taker, f"{taker}-1", 1, now, "n", "a" * 32)
    row = world.registry.insert(
        {"properties": wire.claimed({}, claim), "slot_number": 1}, taker, "create"
    )
    world.engine.run(now + 200.0)
    world.registry.delete(row["uuid"], "operator")
    assert _lacked_since(progress, pool) == (now if anew else 60.0)


@pytest.mark.parametrize(("jobs", "waits"), [(1, True), (2, False)])
def test_a_busy_node_that_no_listing_need_show_may_be_meant_for_the_one_job_that_waits(
    jobs: int, waits: bool
) -> None:
    """It counts as one that boots. Of two jobs the other lacks a node all the same."""
    world, pool = _beside_an_idle_node(None)
    (busy,) = health.ward(world, pool).idle
    assert busy.node.machine is not None
    busy.node.machine.busy_since, pool.wanted = world.engine.now, jobs
    world.cloud.traits = replace(world.cloud.traits, visible_after=1000.0)
    progress = _watched(world)
    since = busy.node.created_at + 1000.0 if waits else 60.0
    assert _lacked_since(progress, pool) == since
    world.engine.run(busy.node.created_at + 1001.0)
    assert _lacked_since(progress, pool) == since, "nor sooner, once it is listed"


@pytest.mark.parametrize("lost", [True, False])
def test_a_step_is_unmeasured_where_the_journal_that_knew_the_clock_is_lost(
    world: World, lost: bool
) -> None:
    """A3: what no reading shows is no fault of the manager that starts after it."""
    journal = next(iter(world.pools.values())).journal
    journal.pen("before").keep(CLOCKS, Clocks(None, MeasuredClock(0.0, 0.0)))
    world.step_store_clock(2000.0)
    if lost:
        journal.lose()
        journal.heal()
    journal.pen("after").kept(CLOCKS)
    assert ("A3" in world.broken) is lost
