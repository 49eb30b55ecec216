"""Telling nodes to take no more work, and waiting until they say that they have drained (D12)."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from nodemanager.actors.messages import Ordered
from nodemanager.core.model.world import Guarantee, Job, WorkerState
from nodemanager.core.operate.replies import Command
from nodemanager.core.operate.verbs import Verb
from nodemanager.errors import BadRequest, CloudError, Conflict, StoreError
from tests.actors.conftest import MakeRig
from tests.actors.rig import Rig, restart, until
from tests.actors.test_operators import Operator
from tests.fakes import FakeCloud, FakeStore, TickingClock, answer, fail, first
from tests.fakes.journal import MemoryJournal

pytestmark = pytest.mark.slow

HOUR = 3600.0


def hooked(make_rig: MakeRig, state: WorkerState = WorkerState.IDLE) -> tuple[Rig, str]:
    """One node that nobody wants, with a drain hook."""
    rig = make_rig(min_nodes=0)
    rig.fleet.state, rig.fleet.drain_hooks = state, True
    machine, _ = rig.fleet.add_node(age=10 * HOUR)
    rig.jobs = ()
    return rig.start(), machine.node.id


def actions(rig: Rig) -> list[object]:
    return [line["action"] for line in rig.lines("node.drain") if line.get("error") is None]


def test_an_idle_node_is_told_to_drain_and_goes_once_it_has(make_rig: MakeRig) -> None:
    rig, node = hooked(make_rig)
    line = rig.turn_until("node.drain", within=300)
    assert (line["node"], line["action"], line["reason"]) == (node, "drain", "drain_awaited")
    assert rig.nodes
    started = rig.turn_until("node.shutdown_started", within=120)
    assert started["reason"] == "idle_beyond_demand"
    assert node in rig.fleet.drained
    rig.turn(120)
    assert rig.nodes == []


def test_a_node_that_does_not_drain_is_left_alone(make_rig: MakeRig) -> None:
    """It pings on that it is idle, and has not said yet that it takes no work."""
    rig, node = hooked(make_rig)
    rig.turn_until("node.drain", within=300)
    rig.fleet.mute = True
    rig.turn(600)
    assert [one.id for one in rig.nodes] == [node]


def test_demand_that_comes_back_gives_it_work_again(make_rig: MakeRig) -> None:
    rig, node = hooked(make_rig)
    rig.turn_until("node.drain", within=300)
    # Before it pings: what it is told is taken back before it hears of it, or after.
    rig.fleet.mute = True
    rig.jobs = (Job("j"),)
    rig.turn(60)
    rig.fleet.mute = False
    rig.turn(60)
    assert actions(rig) == ["drain", "resume"]
    assert [one.id for one in rig.nodes] == [node]
    assert rig.fleet.drained == {}


def test_a_restart_tells_it_anew_and_believes_only_the_answer_to_that(make_rig: MakeRig) -> None:
    rig, node = hooked(make_rig)
    rig.turn_until("node.drain", within=300)
    (first,) = [row.drain for row in rig.records]
    rig.kill()
    rig.fleet.beat()
    assert rig.fleet.drained == {node: first}
    rig.start()
    rig.turn_until("node.drain", within=300)
    (second,) = [row.drain for row in rig.records]
    assert second not in (None, first)
    rig.turn(120)
    assert rig.nodes == []


def destroyed_without_an_answer(
    make_rig: MakeRig, *, denied: bool = True, freed: bool = False
) -> tuple[Rig, str]:
    """A drained node whose destroy gets no answer. Demand wants it again, and the cloud denies it
    once although it lives, or shows it alive until `action_timeout`. It is `freed` if the cloud
    denies it until its record was cleaned, too."""
    cloud = FakeCloud(TickingClock(), visible_after=0.0)
    rig = make_rig(cloud=cloud, min_nodes=0, action_timeout=900.0)
    rig.fleet.state, rig.fleet.drain_hooks = WorkerState.IDLE, True
    machine, _ = rig.fleet.add_node(age=10 * HOUR)
    rig.jobs = ()
    rig.cloud.on("destroy", fail(CloudError("timed out")))
    rig.cloud.always("create", fail(BadRequest("not now")))
    if denied:
        rig.cloud.on("ask", *[fail(CloudError("503"))] * 5, answer(lambda node: None))
    if freed:
        rig.may_violate = True
        rig.cloud.on("ask", answer(lambda node: None))
        rig.cloud.always("find_by_record", answer(lambda nodes: ()))
    rig.start()
    rig.turn_until("node.shutdown_failed", within=300)
    rig.jobs = (Job("j"),)
    rig.turn_until("node.gone" if denied else "flight.expired", within=1800)
    rig.cloud.always("find_by_record", None)
    return rig, machine.node.id


@pytest.mark.parametrize("denied", [True, False])
def test_a_node_that_a_late_destroy_may_hit_is_given_no_work_again(
    make_rig: MakeRig, denied: bool
) -> None:
    rig, node = destroyed_without_an_answer(make_rig, denied=denied)
    rig.turn(800)
    assert actions(rig) == ["drain"]
    assert node in rig.fleet.drained
    rig.turn(300)
    assert actions(rig) == ["drain", "resume"]
    assert [one.id for one in rig.nodes] == [node]


def test_a_life_given_back_is_given_no_work_while_a_late_destroy_may_hit_it_u8(
    make_rig: MakeRig,
) -> None:
    rig, node = destroyed_without_an_answer(make_rig, freed=True)
    until(rig, "record.restored", within=600)
    rig.turn(300)
    assert node in rig.fleet.drained
    assert actions(rig) == ["drain"]
    rig.turn(900)
    assert actions(rig) == ["drain", "resume"]
    assert rig.fleet.drained == {}


def test_a_restart_remembers_which_node_a_late_destroy_may_hit_r4(make_rig: MakeRig) -> None:
    rig, node = destroyed_without_an_answer(make_rig)
    rig.turn(60)
    restart(rig)
    rig.turn(600)
    assert actions(rig) == []
    assert node in rig.fleet.drained
    rig.turn(500)
    assert actions(rig) == ["resume"]


def test_a_run_on_a_new_journal_gives_no_work_by_a_former_runs_order_at_first_r1(
    make_rig: MakeRig,
) -> None:
    """The lost journal may have had a destroy that still takes effect."""
    rig, node = destroyed_without_an_answer(make_rig)
    rig.turn(60)
    rig.kill()
    rig.journal = MemoryJournal(rig.clock)
    restart(rig)
    rig.turn(800)
    assert actions(rig) == []
    assert node in rig.fleet.drained
    rig.turn(300)
    assert actions(rig) == ["resume"]


@pytest.mark.parametrize("error", [StoreError("503"), Conflict("told otherwise")])
def test_an_order_that_could_not_be_written_is_given_again(
    make_rig: MakeRig, error: StoreError
) -> None:
    rig, _ = hooked(make_rig)
    rig.store.on("drain", fail(error))
    failed = rig.turn_until("node.drain", within=300)
    assert str(error) in failed["error"]
    rig.turn(300)
    assert rig.nodes == []


def test_an_operators_drain_tells_a_busy_node_to_take_no_more_o1(make_rig: MakeRig) -> None:
    rig, node = hooked(make_rig, WorkerState.BUSY)
    rig.turn(60)
    assert Operator(rig).drain(node).ok
    rig.turn(120)
    assert actions(rig) == ["drain"]
    assert rig.nodes
    assert Operator(rig).run(node).ok
    rig.turn(60)
    assert actions(rig) == ["drain", "resume"]


def test_a_dry_run_tells_no_node_anything_s3(make_rig: MakeRig) -> None:
    rig = make_rig(min_nodes=0)
    rig.fleet.state, rig.fleet.drain_hooks = WorkerState.IDLE, True
    rig.fleet.add_node(age=10 * HOUR)
    rig.start(dry_run=True)
    rig.turn(600)
    assert rig.store.calls["drain"] == 0


def test_where_the_store_tells_its_nodes_nothing_the_time_rule_stands_alone(
    make_rig: MakeRig,
) -> None:
    clock = TickingClock()
    store = FakeStore(clock, guarantee=Guarantee.FENCED)
    rig = make_rig(cloud=FakeCloud(clock), store=store, min_nodes=0)
    rig.fleet.state, rig.fleet.drain_hooks = WorkerState.IDLE, True
    rig.fleet.add_node(age=10 * HOUR)
    rig.start()
    rig.turn(300)
    assert rig.nodes == []
    assert rig.store.calls["drain"] == 0


def amid_drains(make_rig: MakeRig, happens: Callable[[Rig], None]) -> Rig:
    """Two nodes are to drain, and `happens` happens while the one worker tells the first."""
    rig = make_rig(min_nodes=0, max_creates=1)
    rig.fleet.state, rig.fleet.drain_hooks = WorkerState.IDLE, True
    for _ in range(2):
        rig.fleet.add_node(age=10 * HOUR)
    rig.jobs = ()
    rig.store.on("drain", first(lambda: happens(rig)))
    rig.start()
    rig.turn_until("node.drain", within=300)
    rig.turn(10)
    return rig


def test_no_order_that_waits_for_the_worker_goes_out_after_the_lease_is_lost_l6(
    make_rig: MakeRig,
) -> None:
    rig = amid_drains(make_rig, lambda rig: setattr(rig, "lease", False))
    assert rig.store.calls["drain"] == 1


def test_no_order_that_waits_for_the_worker_goes_out_after_a_hold_c9(make_rig: MakeRig) -> None:
    def hold(rig: Rig) -> None:
        for node in rig.nodes:
            hold = Command(Verb.HOLD, "ann", "wait for me", node.id)
            rig.system.daemon.tell(Ordered(hold, lambda reply: None))

    rig = amid_drains(make_rig, hold)
    assert rig.store.calls["drain"] == 1


def test_two_nodes_that_nobody_wants_are_both_told_to_drain(make_rig: MakeRig) -> None:
    assert amid_drains(make_rig, lambda rig: None).store.calls["drain"] == 2
