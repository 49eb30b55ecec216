"""What a killed run left open is finished by the next one (SAFETY.md R1-R4)."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from nodemanager.actors.daemon.intents import clean_order, entry_of, state_of
from nodemanager.actors.daemon.runner import Runner
from nodemanager.actors.messages import CarriedOut, Ordered, Stop
from nodemanager.core.execute import clean
from nodemanager.core.execute.effects import AskNode, LookAtRecord
from nodemanager.core.execute.workflow import Action, Key
from nodemanager.core.model.annotations import Mark, Marks
from nodemanager.core.model.reasons import Reason
from nodemanager.core.model.world import NO_TAGS, Guarantee, WorkerState
from nodemanager.core.operate.replies import Command, Reply, Result
from nodemanager.core.operate.verbs import Verb
from nodemanager.errors import CloudError, StoreError
from nodemanager.journal.api import PASSED_OVER_AFTER, Intent, IntentKind
from nodemanager.journal.kept import BREAKER, MARKS
from tests.actors.conftest import MakeRig
from tests.actors.rig import Rig, memory, restart, until
from tests.cases import cases
from tests.core import build
from tests.fakes import FakeCloud, FakeStore, TickingClock, answer, fail, first
from tests.fakes.journal import MemoryJournal
from tests.fakes.script import Step

pytestmark = pytest.mark.slow

HOUR = 3600.0
AT_DEATH: dict[int, MemoryJournal] = {}
"""By rig, the journal as it was when the process died."""


def now_of(rig: Rig) -> MemoryJournal:
    """The journal as it is at this moment on the disk."""
    journal = memory(rig)
    return copy.deepcopy(journal, {id(journal.clock): journal.clock})


class Killed(CloudError):
    """The call never comes back: the process was killed in it."""


def killed_in(rig: Rig, *, lost: bool) -> Step:
    """A call that the process dies in: before it takes effect or, if `lost`, after.

    The dead run may end its turn, but nothing of it reaches the store any more.
    """

    def die(*_: object) -> None:
        AT_DEATH[id(rig)] = now_of(rig)
        rig.store.down = True
        raise Killed("killed")

    return answer(die) if lost else first(die)


def killed(rig: Rig, within: float = 600) -> None:
    """Let it run until the call that it dies in, and no further."""
    end = rig.clock.boottime() + within
    while id(rig) not in AT_DEATH:
        assert rig.clock.boottime() < end, "it did not come to that"
        rig.turn(0.5)
    rig.journal = AT_DEATH.pop(id(rig))
    rig.kill()
    rig.store.down = False


def step_our_wall_alone(rig: Rig, step: float) -> None:
    """The simple store's clock is our wall clock and its skew."""
    rig.clock.step_wall(step)
    rig.store.skew -= step


# Destroys.


@pytest.fixture
def idle(make_rig: MakeRig) -> Callable[[], tuple[Rig, str, str]]:
    """A rig with an idle node that is about to be destroyed: its id, and its record's uuid."""

    def make() -> tuple[Rig, str, str]:
        rig = make_rig(min_nodes=0, node_stale_after=7200)
        rig.fleet.state = WorkerState.IDLE
        machine, record = rig.fleet.add_node(age=10 * HOUR)
        return rig, machine.node.id, record.uuid

    return make


Idle = Callable[[], tuple[Rig, str, str]]


def test_killed_in_a_destroy_that_took_effect_the_slot_is_free_at_once(idle: Idle) -> None:
    rig, node_id, uuid = idle()
    rig.cloud.on("destroy", killed_in(rig, lost=True))
    rig.start()
    killed(rig)
    restart(rig)
    line = until(rig, "record.cleaned", within=90, record=uuid)
    assert line["reason"] == "after_shutdown"
    assert rig.store.used_slots() == []
    assert rig.lines("intent.open", action="destroy", node=node_id, record=uuid)
    assert rig.lines("intent.ended", action="destroy", outcome="gone")
    assert rig.journal.open_intents() == ()


def test_nodes_whose_destroys_a_former_run_sent_may_leave_the_list_l3(make_rig: MakeRig) -> None:
    """L3, R1: the new run's own first listing shows them yet."""
    rig = make_rig(min_nodes=3)
    rig.fleet.state = WorkerState.IDLE
    rig.cloud.destroy_takes = HOUR
    for _ in range(5):
        rig.fleet.add_node(age=10 * HOUR)
    rig.start()
    while rig.cloud.calls["destroy"] < 2:
        rig.turn(1)
    rig.turn(1)
    rig.kill()
    ending = [id for id, one in rig.cloud.machines.items() if one.ends_at is not None]
    assert len(ending) == 2
    restart(rig)
    until(rig, "cycle.done", within=60)
    for node_id in ending:
        rig.cloud.vanish(node_id)
        rig.fleet.silent.add(node_id)
    rig.turn(300)
    assert rig.lines("list.suspect") == []
    assert len(rig.lines("node.gone")) == 2


def test_killed_in_a_destroy_of_a_node_that_is_forgotten_the_slot_is_free_once_it_is_missed(
    idle: Idle,
) -> None:
    """C20, C5: "no such node" counts once listings have lacked it for `settle`, too."""
    rig, node_id, uuid = idle()
    rig.cloud.on("destroy", killed_in(rig, lost=True))
    rig.start()
    killed(rig)
    rig.cloud.vanish(node_id)
    rig.fleet.silent.add(node_id)
    restart(rig)
    rig.turn(50)
    assert rig.lines("node.gone") == []
    until(rig, "record.cleaned", within=120, record=uuid, reason="after_shutdown")


def test_killed_in_a_clean_that_took_effect_it_is_done_and_not_done_again(idle: Idle) -> None:
    rig, _, uuid = idle()
    rig.store.on("clean", killed_in(rig, lost=True))
    rig.start()
    killed(rig)
    restart(rig)
    rig.turn(120)
    assert rig.store.calls["clean"] == 0
    assert rig.lines("intent.ended", action="clean", outcome="cleaned")
    (told,) = rig.lines("record.cleaned", record=uuid, reason="after_shutdown")
    assert "took effect" in told["detail"]
    assert rig.lines("record.clean_skipped") == []
    (image,) = rig.journal.pre_images(record=uuid)
    assert image.outcome == "cleaned"
    assert rig.journal.open_intents() == ()


def test_a_stopped_run_leaves_the_slot_to_the_next_one(idle: Idle) -> None:
    rig, _, uuid = idle()
    rig.cloud.destroy_takes = 120.0
    rig.start()
    until(rig, "node.shutdown_started", within=600)
    rig.turn(5)
    rig.ask_to_stop()
    assert rig.stopped
    restart(rig)
    until(rig, "record.cleaned", within=300, record=uuid, reason="after_shutdown")


@pytest.fixture(params=Guarantee, ids=[one.value for one in Guarantee])
def either(make_rig: MakeRig, request: pytest.FixtureRequest) -> Callable[..., Rig]:
    """A rig on a store that compares versions, and on one that can't."""

    def make(**options: Any) -> Rig:
        clock = TickingClock()
        store = FakeStore(clock, guarantee=request.param)
        return make_rig(cloud=FakeCloud(clock), store=store, **options)

    return make


def stop_in(rig: Rig, call: str, of: FakeCloud | FakeStore) -> None:
    """The daemon is told to stop while this call is under way."""
    stop = Stop("test", lambda: rig.stopped.append("done"))
    of.on(call, first(lambda: rig.system.daemon.tell(stop)))


def test_a_claim_whose_create_a_stop_forbade_is_released_by_the_next_run_u6(
    either: Callable[..., Rig],
) -> None:
    rig = either(min_nodes=1)
    stop_in(rig, "create", of=rig.store)
    rig.start()
    rig.turn(120)
    assert rig.stopped
    (claimed,) = rig.store.rows.values()
    assert claimed.claim is not None
    assert rig.lines("node.setup_withdrawn", record=claimed.uuid, reason="stopping")
    assert rig.cloud.calls["create"] == 0
    restart(rig)
    until(rig, "record.cleaned", within=90, record=claimed.uuid, reason="create_refused")
    until(rig, "node.created", within=60)
    assert rig.journal.open_intents() == ()


@pytest.mark.parametrize("call", ["ask", "find_by_record", "fence"])
def test_a_slot_whose_clean_after_a_shutdown_a_stop_forbade_is_freed_by_the_next_run_c20(
    either: Callable[..., Rig], call: str
) -> None:
    rig = either(min_nodes=0, node_stale_after=7200)
    if call == "fence" and rig.store.guarantee is Guarantee.CAS:
        call = "find_by_record"
    rig.fleet.state = WorkerState.IDLE
    _, record = rig.fleet.add_node(age=10 * HOUR)
    stop_in(rig, call, of=rig.store if call == "fence" else rig.cloud)
    rig.start()
    rig.turn(600)
    assert rig.stopped
    assert rig.lines("node.gone")
    assert rig.store.rows[record.uuid].slot_number is not None
    restart(rig)
    until(rig, "record.cleaned", within=180, record=record.uuid, reason="after_shutdown")
    assert rig.journal.open_intents() == ()


def test_an_intent_blocks_only_the_node_and_record_it_names(idle: Idle) -> None:
    rig, _, uuid = idle()
    rig.cloud.destroy_takes = None
    rig.start()
    until(rig, "node.shutdown_started", within=600)
    rig.turn(5)
    leaked = rig.store.add_leaked(40, quiet_for=3 * HOUR)
    restart(rig)
    until(rig, "record.cleaned", within=300, record=leaked.uuid)
    assert rig.summary()["shutting_down"] == 1
    assert rig.store.rows[uuid].slot_number is not None


def test_a_recovery_without_an_answer_is_passed_over_after_five_attempts(idle: Idle) -> None:
    rig, node_id, uuid = idle()
    rig.cloud.on("destroy", killed_in(rig, lost=True))
    rig.start()
    killed(rig)
    rig.cloud.always("ask", fail(CloudError("timeout")))
    restart(rig)
    line = until(rig, "intent.passed_over", within=PASSED_OVER_AFTER * 1200)
    assert (line["node"], line["record"], line["action"]) == (node_id, uuid, "destroy")
    (one,) = rig.journal.open_intents()
    assert (one.passed_over, one.failures) == (True, PASSED_OVER_AFTER)
    rig.cloud.always("ask", None)
    restart(rig)
    assert rig.lines("intent.passed_over", node=node_id)
    until(rig, "record.cleaned", within=3 * HOUR, record=uuid, reason="stale_slot")


# Cleans of stale records, and fences.


def test_a_clean_that_nobody_answers_for_is_passed_over_after_five_attempts(
    make_rig: MakeRig,
) -> None:
    rig = make_rig(backlog="clean")
    record = rig.store.add_leaked(3, quiet_for=3 * HOUR)
    rig.store.on("clean", killed_in(rig, lost=False))
    rig.start()
    killed(rig)
    rig.store.always("read", fail(StoreError("timeout")))
    restart(rig)
    line = until(rig, "intent.passed_over", within=PASSED_OVER_AFTER * 1200)
    assert (line["record"], line["action"]) == (record.uuid, "clean")
    (one,) = rig.journal.open_intents()
    assert (one.passed_over, one.failures) == (True, PASSED_OVER_AFTER)
    assert len(rig.lines("flight.expired", action="clean")) == PASSED_OVER_AFTER
    rig.store.always("read", None)
    restart(rig)
    assert len(rig.lines("intent.passed_over", record=record.uuid)) == 1
    until(rig, "record.cleaned", within=3 * HOUR, record=record.uuid, reason="stale_slot")


@pytest.mark.parametrize("hangs", ["destroy", "clean"])
@pytest.mark.parametrize("failed", [0, 1], ids=["at-once", "after-a-failure"])
def test_a_recovery_whose_question_hangs_is_passed_over_after_five_attempts_r1(
    idle: Idle, monkeypatch: Any, hangs: str, failed: int
) -> None:
    """A question without an answer is a failed attempt, like one that got an error."""
    rig, _, uuid = idle()
    (rig.cloud if hangs == "destroy" else rig.store).on(hangs, killed_in(rig, lost=True))
    rig.start()
    killed(rig)
    asked = {"destroy": AskNode, "clean": LookAtRecord}[hangs]
    left = [failed]

    def taken(runner: Runner, message: CarriedOut, now: float) -> None:
        if isinstance(message.effect, asked):
            if not left[0]:
                return
            left[0] -= 1
            error = CloudError("timeout")
            message = CarriedOut(message.key, message.serial, message.effect, None, error)
        carried_out(runner, message, now)

    carried_out = Runner.carried_out
    monkeypatch.setattr(Runner, "carried_out", taken)
    restart(rig)
    line = until(rig, "intent.passed_over", within=PASSED_OVER_AFTER * 1200)
    assert (line["record"], line["action"]) == (uuid, hangs)
    assert rig.lines("intent.ended", action=hangs) == []
    (one,) = rig.journal.open_intents()
    assert (one.passed_over, one.failures) == (True, PASSED_OVER_AFTER)
    assert len(rig.lines("flight.expired")) == PASSED_OVER_AFTER


ORDER = {
    "uuid": "r1",
    "reason": "stale_slot",
    "plan_id": "p",
    "breaker_generation": 0,
    "not_after": 0.0,
    "version": "v1",
    "incarnation": None,
    "instance_id": None,
}


def test_what_is_written_down_of_a_clean_is_what_is_read_again() -> None:
    order = clean_order(Intent(IntentKind.CLEAN, "clean:r1", "p", details={"order": ORDER}))
    judged = build.record("r1", at=0.0)
    workflow = clean.Clean()
    for state in (
        clean.Looking(replace(order, reason=Reason.AFTER_SHUTDOWN)),
        clean.Fencing(order, judged, tries=2),
        clean.Writing(order, judged, doubted=5.0),
        clean.Lifting(order, judged, found=True),
    ):
        assert state.is_written
        entry = entry_of(Key(Action.CLEAN, "r1"), state, workflow)
        fences = isinstance(state, clean.Fencing | clean.Lifting)
        assert entry.kind is (IntentKind.FENCE if fences else IntentKind.CLEAN)
        assert state_of(workflow, entry) == state


@pytest.fixture
def fenced(make_rig: MakeRig, clock: TickingClock) -> tuple[Rig, str]:
    store = FakeStore(clock, guarantee=Guarantee.FENCED)
    rig = make_rig(cloud=FakeCloud(clock), store=store, backlog="clean")
    record = store.add_leaked(3, quiet_for=3 * HOUR)
    return rig, record.uuid


def test_killed_behind_a_fence_the_node_gets_its_secret_back(fenced: tuple[Rig, str]) -> None:
    rig, uuid = fenced
    secret = rig.store.rows[uuid].ping_secret
    rig.start()
    until(rig, "record.clean", within=600)
    assert rig.store.rows[uuid].ping_secret != secret
    assert [one.intent.kind for one in rig.journal.open_intents()] == [IntentKind.FENCE]
    restart(rig)
    rig.turn(10)
    assert rig.store.rows[uuid].ping_secret == secret
    assert rig.lines("intent.ended", action="fence", outcome="lifted")
    until(rig, "record.cleaned", within=3 * HOUR, record=uuid, reason="stale_slot")


# Creates.


def test_killed_in_a_create_that_took_effect_its_node_is_found_by_tag(make_rig: MakeRig) -> None:
    rig = make_rig(min_nodes=1, max_nodes=1)
    rig.fleet.mute = True
    rig.cloud.on("create", killed_in(rig, lost=True))
    rig.start()
    killed(rig)
    (machine,) = rig.cloud.living()
    machine.listed = False
    restart(rig)
    rig.turn(60)
    assert rig.cloud.calls["create"] == 0
    assert rig.reasons("record.keep")[-1] in ("node_expected", "claim_within_window")
    assert rig.journal.open_intents() == ()
    (ended,) = rig.journal.concluded()
    assert (ended.outcome, ended.details["node"]) == ("created", machine.node.id)


def test_killed_before_a_create_its_claim_stands_until_it_expires(make_rig: MakeRig) -> None:
    rig = make_rig(min_nodes=1, max_nodes=1, claim_expiry="on")
    rig.cloud.on("create", killed_in(rig, lost=False))
    rig.start()
    killed(rig)
    (record,) = rig.records
    restart(rig)
    rig.turn(600)
    assert [one.intent.kind for one in rig.journal.open_intents()] == [IntentKind.CREATE]
    assert rig.store.rows[record.uuid].claim is not None
    until(rig, "record.cleaned", within=HOUR, record=record.uuid, reason="claim_expired")
    rig.turn(120)
    ended = [
        one.outcome
        for one in rig.journal.concluded()
        if one.intent.kind in (IntentKind.CLAIM, IntentKind.CREATE)
        and one.intent.details["order"]["claim"]["incarnation"] == record.incarnation
    ]
    assert ended[-1] == "released"


@cases("in_call", {"killed-in-the-create": True, "killed-after-it": False})
def test_a_create_that_a_former_run_sent_stands_for_a_node_to_be_though_no_listing_has_its_claim(
    make_rig: MakeRig, in_call: bool
) -> None:
    """U6, U9: a record listing may lack the claim, and the create may still take effect."""
    rig = make_rig(min_nodes=1, max_nodes=1)
    rig.cloud.takes_client_tokens = False
    rig.cloud.on("create", killed_in(rig, lost=False) if in_call else fail(CloudError("timeout")))
    rig.start()
    if in_call:
        killed(rig)
    else:
        until(rig, "node.setup_failed", within=120)
    short = answer(lambda listed: replace(listed, items=()))
    rig.store.on("list_records", *[short] * 6)
    restart(rig)
    assert rig.lines("intent.open", action="create")

    rig.turn(300)
    assert rig.cloud.calls["create"] == 0


@pytest.mark.parametrize("later_s", [0.0, 1500.0], ids=["at-once", "after-a-while"])
def test_a_create_whose_claim_a_former_run_has_cleaned_stands_for_no_node_u6(
    make_rig: MakeRig, later_s: float
) -> None:
    """C21: no node comes of it any more, though its create was never seen to end."""
    rig = make_rig(min_nodes=1, max_nodes=1, boot_fail_after=600, claim_expiry="on")
    rig.cloud.takes_client_tokens = False
    rig.cloud.on("create", fail(CloudError("timeout")))
    rig.start()
    claimed = until(rig, "record.claimed", within=120)["record"]
    rig.apply(replace(rig.system.settings, min_nodes=0))

    def unseen(cleaned: Any) -> Any:
        """No listing shows this run what became of the record."""
        rig.store.always("list_records", fail(StoreError("timeout")))
        return cleaned

    rig.store.on("clean", answer(unseen))
    until(rig, "record.cleaned", within=3600, record=claimed, reason="claim_expired")
    rig.kill()
    rig.store.always("list_records", None)
    rig.clock.advance(later_s)
    restart(rig)
    assert rig.lines("intent.open", action="create", record=claimed)
    until(rig, "node.created", within=180)


@pytest.mark.parametrize("step", [-HOUR, 0.0, HOUR])
def test_a_node_that_a_former_run_created_is_told_to_its_claim_though_its_tags_are_lost_p1a(
    make_rig: MakeRig, step: float
) -> None:
    """P1a: it is the node that the create answered, and the journal has the answer; whatever our
    wall clock shows since."""
    rig = make_rig(min_nodes=1, max_nodes=1)
    rig.fleet.mute = True
    rig.start()
    created = until(rig, "node.created", within=120)
    assert rig.store.rows[created["record"]].claim.node_id is None
    rig.cloud.change(created["node"], tags=NO_TAGS)
    rig.kill()
    step_our_wall_alone(rig, step)
    restart(rig)
    rig.turn(90)
    assert rig.store.rows[created["record"]].claim.node_id == created["node"]


@pytest.mark.parametrize("in_clean", [False, True])
def test_a_node_that_a_former_run_created_and_ended_is_expected_no_more_p4(
    make_rig: MakeRig, in_clean: bool
) -> None:
    rig = make_rig(min_nodes=1, max_nodes=1, consecutive_idle_count=1)
    rig.fleet.state = WorkerState.IDLE
    rig.start()
    created = until(rig, "node.created", within=120)
    until(rig, "node.paired", within=120)
    rig.apply(replace(rig.system.settings, min_nodes=0))
    if in_clean:
        rig.store.on("clean", killed_in(rig, lost=True))
        killed(rig)
    else:
        until(rig, "record.cleaned", within=600, record=created["record"])
    rig.cloud.vanish(created["node"])
    restart(rig)
    until(rig, "node.created", within=90)


def test_what_ended_such_a_node_counts_however_the_clock_was_set_back_since_p4(
    make_rig: MakeRig,
) -> None:
    rig = make_rig(min_nodes=1, max_nodes=1, boot_fail_after=600, consecutive_idle_count=1)
    rig.clock.step_wall(7200.0)
    rig.fleet.state = WorkerState.IDLE
    rig.start()
    created = until(rig, "node.created", within=120)
    until(rig, "node.paired", within=120)
    rig.clock.step_wall(-7200.0)
    rig.apply(replace(rig.system.settings, min_nodes=0))
    until(rig, "record.cleaned", within=600)
    rig.turn(700)
    rig.cloud.vanish(created["node"])
    restart(rig)
    until(rig, "node.created", within=90)


def test_a_node_that_a_former_run_created_and_that_ended_by_itself_is_missed_in_time_p4(
    make_rig: MakeRig,
) -> None:
    """P4, C5: it was paired and heard, and boot_fail_after is of those that did not come yet."""
    rig = make_rig(min_nodes=1, max_nodes=1, boot_fail_after=1800)
    rig.fleet.state = WorkerState.IDLE
    rig.start()
    created = until(rig, "node.created", within=120)
    until(rig, "node.paired", within=120)
    rig.turn(400)
    rig.cloud.vanish(created["node"])
    restart(rig)
    until(rig, "node.created", within=240)


def test_a_claim_that_was_freed_keeps_no_place_for_its_node_longer_over_a_restart(
    make_rig: MakeRig,
) -> None:
    """P4, U9: the time in which a create may still take effect counts from the create.

    Its own run freed the claim, and was answered as if somebody else had: the request arrived
    twice.
    """
    rig = make_rig(min_nodes=1, max_nodes=3, boot_fail_after=600)
    rig.cloud.takes_client_tokens = False
    rig.cloud.on("create", fail(CloudError("timeout")))
    # Else two denials would end its place sooner.
    rig.cloud.always("find_by_record", fail(CloudError("timeout")))
    rig.start()
    rig.turn(500)
    (claimed,) = rig.records
    rig.kill()
    rig.store.clean(claimed, "claim_expired")
    restart(rig)
    rig.turn(60)
    assert rig.cloud.calls["create"] == 0
    until(rig, "node.created", within=90)


# What else outlives the process.


def test_the_breaker_is_loaded_before_the_first_plan(make_rig: MakeRig) -> None:
    rig = make_rig(min_nodes=0, max_nodes=20, backlog="clean")
    for _ in range(8):
        rig.fleet.add_node(age=10 * HOUR)
    rig.store.add_leaked(40, quiet_for=3 * HOUR)
    rig.cloud.always("ask", fail(CloudError("timeout")))
    rig.start()
    rig.cloud.machines.clear()
    until(rig, "breaker.opened", within=120)
    opened = rig.journal.kept(BREAKER)
    restart(rig)
    assert rig.lines("breaker.opened", cause="cloud_collapsed")
    rig.turn(600)
    assert rig.lines("record.cleaned") == []
    assert rig.summary()["breaker"] == "cloud_collapsed"
    again = rig.journal.kept(BREAKER)
    assert opened is not None
    assert again is not None
    assert (again.generation, again.ids) == (opened.generation, opened.ids)


def test_a_breaker_that_opened_before_the_journal_could_be_read_outlives_the_run_b3(
    make_rig: MakeRig,
) -> None:
    """What is read late has no breaker: it takes the place of none that opened meanwhile."""
    rig = make_rig(min_nodes=0, max_nodes=20, backlog="clean")
    for _ in range(8):
        rig.fleet.add_node(age=10 * HOUR)
    rig.cloud.always("ask", fail(CloudError("timeout")))
    memory(rig).fail("the disk is away")
    rig.start()
    rig.cloud.machines.clear()
    until(rig, "breaker.opened", within=120)
    memory(rig).heal()
    until(rig, "journal.healed", within=120)
    rig.kill()
    restart(rig)
    rig.turn(300)
    assert rig.summary()["breaker"] == "cloud_collapsed"


def test_a_breaker_stays_open_as_long_though_our_wall_clock_stepped_before_a_boot_b3(
    make_rig: MakeRig,
) -> None:
    """A1, B3: a lost node may be younger than visible_after, and a denial of it is then no news."""
    rig = make_rig(min_nodes=0, max_nodes=20, backlog="clean", visible_after=600)
    for _ in range(8):
        rig.fleet.add_node(age=10 * HOUR)
    rig.start()
    machines = dict(rig.cloud.machines)
    rig.cloud.machines.clear()
    until(rig, "breaker.opened", within=120)
    rig.kill()
    step_our_wall_alone(rig, HOUR)
    memory(rig).boot_id = "boot-2"
    restart(rig)
    rig.turn(400)
    assert rig.summary()["breaker"] != "closed"
    rig.cloud.machines.update(machines)
    until(rig, "breaker.closed", within=120)


def keep_holds(rig: Rig, *ids: str) -> None:
    """In the journal, as a former run left them."""
    rig.journal.keep(MARKS, Marks(holds={id: Mark("anna", 1.0, "to look at") for id in ids}))


def test_nothing_is_freed_before_breaker_and_holds_could_be_read(make_rig: MakeRig) -> None:
    rig = make_rig(min_nodes=0, backlog="clean")
    held, leaked = (rig.store.add_leaked(slot, quiet_for=3 * HOUR) for slot in (40, 41))
    keep_holds(rig, held.uuid)
    memory(rig).fault = lambda call: "locked" if call == "kept operator_marks" else None
    rig.start()
    rig.turn(600)
    assert rig.store.calls["clean"] == 0
    memory(rig).heal()
    until(rig, "record.cleaned", within=120, record=leaked.uuid)
    rig.turn(300)
    assert rig.store.rows[held.uuid].slot_number is not None


def test_nothing_is_finished_in_another_store_than_the_known_one(
    make_rig: MakeRig, clock: TickingClock
) -> None:
    """L5 comes before R1."""
    rig = make_rig(min_nodes=0)
    rig.fleet.state = WorkerState.IDLE
    _, record = rig.fleet.add_node(age=10 * HOUR)
    rig.store.on("clean", killed_in(rig, lost=False))
    rig.start()
    killed(rig)
    rig.store.id = "store-2"
    restart(rig)
    rig.turn(300)
    assert rig.store.calls["clean"] == rig.store.calls["read"] == 0
    rig.store.id = "store-1"
    until(rig, "record.cleaned", within=120, record=record.uuid, reason="after_shutdown")


# Operators' commands.


def test_a_hold_stands_over_restarts_until_it_is_released(make_rig: MakeRig) -> None:
    """They are loaded before the first plan."""
    rig = make_rig(min_nodes=0, backlog="clean")
    rig.fleet.state = WorkerState.IDLE
    machine, _ = rig.fleet.add_node(age=10 * HOUR)
    leaked = rig.store.add_leaked(40, quiet_for=3 * HOUR)
    rig.start()
    said: list[Reply] = []
    for id in (leaked.uuid, machine.node.id):
        rig.system.daemon.tell(Ordered(Command(Verb.HOLD, "anna", "to look at", id), said.append))
    rig.flush()
    rig.turn(300)
    restart(rig)
    rig.turn(900)
    assert rig.reasons("record.keep", record=leaked.uuid) == ["held"]
    assert rig.reasons("node.keep", node=machine.node.id) == ["held"]
    assert rig.nodes
    for id in (leaked.uuid, machine.node.id):
        rig.system.daemon.tell(Ordered(Command(Verb.RELEASE, "anna", "", id), said.append))
    until(rig, "record.cleaned", within=300, record=leaked.uuid)
    assert [one.result for one in said] == [Result.DONE] * 4
    assert rig.journal.kept(MARKS).holds == {}


@pytest.mark.parametrize("verb", [Verb.RELEASE, Verb.RUN, Verb.RESUME])
def test_what_an_unread_journal_may_keep_is_not_called_undone_already(
    make_rig: MakeRig, verb: Verb
) -> None:
    """C9: a hold was ordered before the restart, and its release must not be lost in silence."""
    rig = make_rig(min_nodes=0, backlog="clean")
    rig.fleet.state = WorkerState.BUSY
    machine, record = rig.fleet.add_node(age=10 * HOUR)
    ids = {Verb.RELEASE: record.uuid, Verb.RUN: machine.node.id, Verb.RESUME: None}
    keep_holds(rig, record.uuid)
    memory(rig).fail("the disk is full")
    rig.start()
    rig.turn(120)
    said: list[Reply] = []
    rig.system.daemon.tell(Ordered(Command(verb, "anna", "", ids[verb]), said.append))
    rig.flush()
    ((result, text),) = [(one.result, one.text) for one in said]
    assert result is Result.FAILED
    assert "the disk is full" in text
    memory(rig).heal()
    rig.turn(120)
    rig.system.daemon.tell(Ordered(Command(verb, "anna", "", ids[verb]), said.append))
    rig.flush()
    done = Result.DONE if verb is Verb.RELEASE else Result.ALREADY
    assert said[-1].result is done


# The store's clock.


@cases(
    ("ours", "boot", "is_read_late"),
    {
        "same-boot": (0.0, "boot-1", False),
        "another-boot": (0.0, "boot-2", False),
        "ours-was-set-as-far-before-that-boot": (2 * HOUR, "boot-2", False),
        "the-journal-is-read-late": (0.0, "boot-1", True),
    },
)
def test_a_step_of_the_stores_clock_over_a_restart_makes_no_record_stale(
    make_rig: MakeRig, ours: float, boot: str, is_read_late: bool
) -> None:
    """T1, R4: quiet for an hour, and its stamps look three hours old."""
    rig = make_rig(backlog="clean")
    record = rig.store.add_leaked(3, quiet_for=HOUR)
    rig.start()
    rig.turn(300)
    step_our_wall_alone(rig, ours)
    rig.turn(300)
    rig.kill()
    rig.store.skew += 2 * HOUR
    memory(rig).boot_id = boot
    if is_read_late:
        memory(rig).fail("the disk is away")
    restart(rig)
    if is_read_late:
        rig.turn(300)
        memory(rig).heal()
    rig.turn(1200)
    assert rig.store.rows[record.uuid].slot_number is not None
    until(rig, "record.cleaned", within=3 * HOUR, record=record.uuid)


@pytest.mark.parametrize("step", [-2 * HOUR, 2 * HOUR])
def test_a_step_of_our_wall_clock_before_a_boot_makes_no_slot_late(
    make_rig: MakeRig, step: float
) -> None:
    """T1, R4: the store's clock stood still, so the record's age goes on over the boot."""
    rig = make_rig(backlog="clean")
    record = rig.store.add_leaked(3, quiet_for=HOUR)
    rig.start()
    rig.turn(300)
    step_our_wall_alone(rig, step)
    rig.turn(300)
    rig.kill()
    memory(rig).boot_id = "boot-2"
    restart(rig)
    until(rig, "record.cleaned", within=HOUR, record=record.uuid)


def test_the_clocks_are_kept_only_when_they_are_news(make_rig: MakeRig) -> None:
    rig = make_rig()
    saved = []
    journal = memory(rig)
    journal.fault = lambda call: saved.append(call) if call == "keep clocks" else None
    rig.start()
    rig.turn(HOUR)
    assert len(saved) == 1
    rig.store.skew += 90
    rig.turn(60)
    assert len(saved) > 1
