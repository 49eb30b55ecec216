"""Destroying nodes, and the record behind them (SAFETY.md C20, D2, D3, D9)."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest

from nodemanager.actors.messages import Beat
from nodemanager.core.model.settings import ASK_AGAIN_S
from nodemanager.core.model.world import Job, Record, Tags, WorkerState
from nodemanager.core.observe.facts import DemandSeen
from nodemanager.errors import Conflict, StoreError
from nodemanager.journal.api import Intent, IntentKind
from tests.actors.conftest import MakeRig
from tests.actors.rig import Rig
from tests.cases import cases
from tests.fakes import FakeCloud, FakeStore, TickingClock, fail, first
from tests.fakes.journal import MemoryJournal

HOUR = 3600.0


@pytest.fixture
def idling(make_rig: MakeRig) -> Callable[..., tuple[Rig, Record]]:
    """A rig with one idle node that nobody wants."""

    def make(*, visible_after: float = 300.0, **options: object) -> tuple[Rig, Record]:
        cloud = FakeCloud(TickingClock(), visible_after=visible_after)
        rig = make_rig(cloud=cloud, min_nodes=0, backlog="clean", **options)
        rig.fleet.state = WorkerState.IDLE
        _, record = rig.fleet.add_node(age=10 * HOUR)
        return rig, record

    return make


Idling = Callable[..., tuple[Rig, Record]]


def test_a_destroy_that_was_only_accepted_frees_nothing_until_the_cloud_says_gone(
    idling: Idling,
) -> None:
    rig, record = idling()
    rig.cloud.destroy_takes = 400.0
    rig.start()
    rig.turn_until("node.shutdown_started", within=300)
    rig.turn(390)
    assert rig.store.rows[record.uuid].slot_number is not None
    assert rig.lines("node.gone") == []

    rig.turn(400)
    assert rig.lines("node.gone")
    assert rig.store.rows[record.uuid].slot_number is None


@pytest.mark.slow
def test_a_destroy_that_never_happens_is_tried_again_and_frees_nothing(idling: Idling) -> None:
    rig, record = idling(action_timeout=900)
    rig.cloud.destroy_takes = None
    rig.start()
    rig.turn(3000)
    assert rig.lines("flight.expired", action="shutdown")
    assert rig.cloud.calls["destroy"] >= 2
    assert rig.store.rows[record.uuid].slot_number is not None
    # One chain of questions, however often it was begun anew.
    rig.forget_calls()
    rig.turn(600)
    assert rig.cloud.calls["ask"] <= 12


@cases(
    ("visible_after", "apart"),
    {"reads-are-consistent": (0.0, 0.0), "reads-lag": (300.0, ASK_AGAIN_S)},
)
def test_no_such_node_is_gone_only_when_asked_as_d3_says(
    idling: Idling, visible_after: float, apart: float
) -> None:
    rig, record = idling(visible_after=visible_after)
    denied: list[float] = []
    rig.cloud.on("destroy", first(rig.cloud.machines.clear))
    rig.cloud.always("ask", first(lambda: denied.append(rig.clock.boottime())))
    rig.start()
    rig.turn_until("record.cleaned", within=600, record=record.uuid, reason="after_shutdown")

    # The last question is the cleaner's own last look.
    assert denied[-2] - denied[0] >= apart
    assert (len(denied) == 2) == (apart == 0)


def test_another_node_that_bears_the_uuid_keeps_the_record_after_a_shutdown(
    idling: Idling,
) -> None:
    rig, record = idling()
    rig.cloud.on(
        "find_by_record",
        first(lambda: rig.cloud.add(tags=Tags("pool", record.uuid, "another"))),
    )
    rig.start()
    skipped = rig.turn_until("record.clean_skipped", within=300)
    assert skipped["reason"] == "node_alive"
    assert rig.store.rows[record.uuid].slot_number is not None


def test_a_shutdowns_clean_that_fails_is_retried_by_the_timer(idling: Idling) -> None:
    rig, record = idling(poll_time=300)
    rig.store.on("clean", fail(StoreError("timeout")), fail(Conflict("moved")))
    rig.start()
    rig.turn_until("node.gone", within=900)
    rig.turn(30)
    assert rig.lines("record.cleaned", record=record.uuid, reason="after_shutdown")


def test_an_idle_node_that_took_work_since_the_plan_is_left_alone(idling: Idling) -> None:
    rig, _ = idling()

    def take_work() -> None:
        rig.fleet.state = WorkerState.BUSY
        rig.fleet.beat()

    rig.store.on("read", first(take_work))
    rig.start()
    skipped = rig.turn_until("node.shutdown_skipped", within=300)
    assert skipped["reason"] == "no_longer_wanted"
    rig.turn(600)
    assert rig.cloud.calls["destroy"] == 0


def test_a_plan_between_the_order_and_its_last_look_delays_no_shutdown(idling: Idling) -> None:
    """D12: a node that is being shut down is still one that nobody wants."""
    rig, _ = idling()
    plans: list[int] = []

    def plan_meanwhile() -> None:
        daemon = rig.system.daemon
        before = len(rig.lines("cycle.done"))
        daemon.tell(DemandSeen((), rig.clock.boottime(), rig.clock.boottime()))
        for _ in ("what the poll says", "the plan that it calls for"):
            daemon.ask(Beat(lambda: None), timeout=10)
        plans.append(len(rig.lines("cycle.done")) - before)

    rig.store.on("read", first(plan_meanwhile))
    rig.start()
    rig.turn_until("node.gone", within=600)
    assert plans[0] > 0
    assert rig.lines("node.shutdown_skipped") == []


def test_demand_that_came_back_since_the_plan_saves_the_node(make_rig: MakeRig) -> None:
    rig = make_rig(min_nodes=0, max_nodes=4, wishlist_poll_time=30)
    rig.jobs = ()
    rig.fleet.state = WorkerState.IDLE
    machine, _ = rig.fleet.add_node(age=10 * HOUR)

    def demand_comes_back() -> None:
        rig.jobs = (Job("1", count=2),)
        now = rig.clock.boottime()
        rig.system.daemon.tell(DemandSeen(rig.jobs, now, now))

    rig.store.on("read", first(demand_comes_back))
    rig.start()
    skipped = rig.turn_until("node.shutdown_skipped", within=300)
    assert skipped["reason"] == "changed_since_plan"
    rig.turn(300)
    assert machine.node in rig.nodes
    assert len(rig.nodes) == 2, "it serves one of the two jobs"


def test_no_more_bad_nodes_are_destroyed_a_cycle_than_the_cap(make_rig: MakeRig) -> None:
    rig = make_rig(
        min_nodes=0, max_nodes=30, max_shutdowns_per_cycle=2, boot_fail_after=1800, poll_time=60
    )
    # Six of twenty-five fail: under collapse_fraction, above the cap.
    for _ in range(19):
        rig.fleet.add_node(age=10 * HOUR)
    for _ in range(6):
        machine, _ = rig.fleet.add_node(age=10 * HOUR)
        rig.fleet.states[machine.node.id] = WorkerState.DOWN
    rig.start()
    rig.turn(30)
    per_round = []
    for _ in range(6):
        before = rig.cloud.calls["destroy"]
        rig.turn(60)
        per_round.append(rig.cloud.calls["destroy"] - before)
    assert per_round == [2, 2, 2, 0, 0, 0]
    assert len(rig.nodes) == 19


@pytest.mark.slow
def test_many_that_turn_silent_at_once_are_all_kept(make_rig: MakeRig) -> None:
    rig = make_rig(min_nodes=0, max_nodes=30)
    machines = [rig.fleet.add_node(age=10 * HOUR)[0] for _ in range(10)]
    rig.start()
    rig.turn(60)
    rig.fleet.silent.update(machine.node.id for machine in machines[:5])
    rig.change_polling(120)
    rig.turn(6 * HOUR)
    rig.change_polling(30)
    assert rig.lines("breaker.opened", cause="mass_silence")
    assert rig.cloud.calls["destroy"] == 0
    assert rig.store.calls["clean"] == 0

    rig.fleet.silent.clear()
    rig.turn(120)
    assert rig.lines("breaker.closed", cause="mass_silence")


class StopsBeforeDestroy(MemoryJournal):
    """The process is stopped right after a destroy was written down: `meanwhile` happens."""

    meanwhile: Callable[[], None]

    def intend(self, intents: Sequence[Intent]) -> None:
        super().intend(intents)
        if any(one.kind is IntentKind.DESTROY for one in intents):
            self.meanwhile()


def test_a_destroy_that_was_confirmed_long_ago_is_not_sent(
    make_rig: MakeRig, clock: TickingClock
) -> None:
    """C11's not-after, D12: the process was stopped in between, and the node has work by now."""
    journal = StopsBeforeDestroy(clock)
    rig = make_rig(cloud=FakeCloud(clock), store=FakeStore(clock), journal=journal, min_nodes=0)
    rig.fleet.state = WorkerState.IDLE
    machine, _ = rig.fleet.add_node(age=10 * HOUR)

    def stopped_for_an_hour() -> None:
        rig.fleet.state = WorkerState.BUSY
        clock.advance(HOUR)
        rig.fleet.beat()

    journal.meanwhile = stopped_for_an_hour
    rig.start()
    rig.turn(600)
    assert machine.node in rig.nodes
