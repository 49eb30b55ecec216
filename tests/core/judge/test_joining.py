"""Up is what the scheduler hears: a node that pings and never joins it has failed to boot (D17)."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from nodemanager.core.model.breaker import Cause
from nodemanager.core.model.reasons import Kind, Reason
from nodemanager.core.model.scheduling import OURS, SchedulerNode
from nodemanager.core.model.world import CloudState, Job, Listing
from nodemanager.core.observe import history as histories
from nodemanager.core.observe.ended import is_booting, unjoined_for
from nodemanager.core.observe.scheduled import report_on, scheduler_listed
from nodemanager.core.plan.destroy import (
    ShutdownEvidence,
    confirm_shutdown,
    order_shutdown,
)
from tests.cases import cases
from tests.core.build import SMALL, World, claim, incarnation_of, record, world
from tests.core.nodes import BUSY, DOWN, IDLE, UNKNOWN

pytestmark = pytest.mark.slow

HOST = "compute1"
GRACE = 1800.0
ROUND = 60.0
Told = SchedulerNode | None
UNREACHED = SchedulerNode(HOST, UNKNOWN, responds=False)
NOT_UP = [
    pytest.param(None, id="not-listed"),
    pytest.param(SchedulerNode(HOST, DOWN), id="down"),
    pytest.param(UNREACHED, id="not-reached"),
    pytest.param(SchedulerNode(HOST, DOWN, draining=True, reason=f"{OURS}goes"), id="our-drain"),
]


def booting(count: int = 1, **settings: Any) -> World:
    """A pool whose nodes were claimed and launched just now, and ping."""
    settings = {"max_nodes": 8, "sizes": (SMALL,), "boot_fail_after": GRACE} | settings
    made = world(scheduled=True, demand_polled=True, **settings)
    for number in range(1, count + 1):
        host = f"compute{number}"
        made.records.append(
            record(f"r{number}", at=made.store_now, slot=number, hostname=host, pinged=False)
        )
        made.add_node(f"r{number}", age=1.0)
    made.poll()
    return made


def told(made: World, *nodes: Told, lasts: float = ROUND, jobs: tuple[Job, ...] = ()) -> Reason:
    """Rounds for `lasts` seconds in which all nodes ping and the scheduler says that of them."""
    until = made.now + lasts
    while made.now < until:
        made.advance(ROUND - 2.7)
        for one in list(made.records):
            made.ping(one.uuid)
        made.poll()
        made.poll_scheduler(*[one for one in nodes if one is not None], jobs=jobs)
        made.plan()
    return made.of_node("i-r1").reason


@pytest.mark.parametrize("node", NOT_UP)
def test_one_that_never_joins_boots_satisfies_nothing_and_goes_d17(node: Told) -> None:
    made = booting(min_nodes=1)
    assert told(made, node, lasts=GRACE - 2 * ROUND) is Reason.BOOTING
    assert (made.booted, made.destroyed) == ([], [])
    assert told(made, node, lasts=4 * ROUND) is Reason.NOT_JOINED
    assert made.destroyed == ["i-r1"]
    assert made.booted
    measures = made.of_node("i-r1").measures or {}
    assert measures["unjoined_s"] > measures["limit_s"] == GRACE
    assert made.view("i-r1").bad_s == measures["unjoined_s"]


def test_one_whose_first_ping_is_listed_only_after_the_answer_that_called_it_up_has_joined_d17():
    made = booting(min_nodes=1)
    made.ping("r1")
    made.advance(ROUND)
    made.poll_scheduler(SchedulerNode(HOST, BUSY))
    made.poll()
    made.plan()
    # It goes down in a reboot, and pings on.
    assert told(made, UNREACHED, lasts=GRACE + 4 * ROUND) is Reason.DOWN_IN_SCHEDULER
    assert (made.booted, made.destroyed) == ([], [])


def test_time_in_which_the_scheduler_did_not_answer_counts_for_nothing_d17() -> None:
    """The node may have come up meanwhile."""
    made = booting(min_nodes=1)
    told(made, UNREACHED, lasts=GRACE - 2 * ROUND)
    assert made.settings.poll_stale_after > 4 * ROUND
    for _ in range(4):
        made.advance(ROUND)
        made.ping("r1")
        made.poll()
        made.plan()
        assert made.destroyed == []
    told(made, SchedulerNode(HOST, IDLE))
    assert made.destroyed == []


@cases(
    "node",
    {
        "idle": SchedulerNode(HOST, IDLE),
        "busy": SchedulerNode(HOST, BUSY),
        "planned": SchedulerNode(HOST, UNKNOWN, planned=True),
    },
)
@pytest.mark.parametrize("after", NOT_UP)
def test_one_that_was_up_once_is_never_ended_for_that_d17(node: Told, after: Told) -> None:
    made = booting(min_nodes=1)
    told(made, after, lasts=600.0)
    told(made, node)
    reason = told(made, after, lasts=3 * GRACE)
    assert made.destroyed == []
    assert reason is (Reason.UNSCHEDULED if after is None else Reason.DOWN_IN_SCHEDULER)
    assert bool(made.booted) is (after is None)


@cases(
    ("node", "reason"),
    {
        "reserved": (SchedulerNode(HOST, DOWN, reserved=True), Reason.SET_ASIDE),
        "drained-by-others": (
            SchedulerNode(HOST, DOWN, draining=True, reason="disk"),
            Reason.SET_ASIDE,
        ),
        "nothing-known": (SchedulerNode(HOST, UNKNOWN), Reason.UNJOINED),
        "it-waits-for-its-power": (
            SchedulerNode(HOST, UNKNOWN, responds=False, suspended=True, wanted=True),
            Reason.UNJOINED,
        ),
    },
)
def test_what_says_nothing_of_its_slurmd_ends_it_never_d17(node: Told, reason: Reason) -> None:
    made = booting(min_nodes=1)
    told(made, UNREACHED, lasts=GRACE - 5 * ROUND)
    assert told(made, node, lasts=2 * GRACE) is reason
    assert made.destroyed == []
    # What somebody set aside is no lack (D16); what was never up satisfies nothing.
    assert bool(made.booted) is (reason is Reason.UNJOINED)
    # And what was counted before it counts no more.
    assert told(made, UNREACHED, lasts=GRACE - 2 * ROUND) is Reason.UNJOINED
    assert told(made, UNREACHED, lasts=4 * ROUND) is Reason.NOT_JOINED


def test_one_that_says_that_it_works_stays_d17() -> None:
    made = booting()
    for _ in range(60):
        made.advance(ROUND)
        made.ping("r1", BUSY)
        made.poll()
        made.poll_scheduler(UNREACHED)
        made.plan()
    assert made.of_node("i-r1").reason is Reason.BUSY
    assert made.destroyed == []


def test_one_that_fell_silent_goes_for_its_silence_d8() -> None:
    made = booting(node_stale_after=1000.0)
    told(made, UNREACHED, lasts=GRACE - 600.0)
    for _ in range(14):
        made.advance(ROUND)
        made.poll()
        made.poll_scheduler(UNREACHED)
        made.plan()
    assert made.of_node("i-r1").reason is Reason.SILENT_WITHIN_WINDOW


def silent_scheduler(made: World, seconds: float) -> None:
    until = made.now + seconds
    while made.now < until:
        made.advance(ROUND)
        made.ping("r1")
        made.poll()
        made.plan()


def test_time_in_which_the_scheduler_was_not_reached_does_not_count_d17() -> None:
    made = booting(poll_stale_after=300.0)
    told(made, UNREACHED, lasts=GRACE - 5 * ROUND)
    silent_scheduler(made, 900.0)
    assert made.destroyed == []
    assert told(made, UNREACHED, lasts=GRACE - 2 * ROUND) is Reason.UNJOINED
    assert made.destroyed == []
    assert told(made, UNREACHED, lasts=4 * ROUND) is Reason.NOT_JOINED


def test_an_old_answer_says_of_none_that_it_is_not_up_d17() -> None:
    made = booting(poll_stale_after=300.0)
    told(made, UNREACHED, lasts=GRACE - 2 * ROUND)
    silent_scheduler(made, 900.0)
    assert unjoined_for(made.record("r1"), made.snapshot(), made.settings) is None
    assert made.of_node("i-r1").reason is Reason.UNJOINED
    assert made.destroyed == []


def test_one_that_pinged_only_after_the_newest_answer_boots_past_its_grace_d17() -> None:
    """The scheduler may have called it up since, and cannot be asked."""
    made = booting(min_nodes=1)
    made.advance(GRACE - ROUND)
    made.poll()
    made.poll_scheduler(UNREACHED)
    silent_scheduler(made, 3 * ROUND)
    assert (made.of_node("i-r1").reason, made.booted) == (Reason.BOOTING, [])
    assert told(made, UNREACHED) is Reason.UNJOINED
    assert made.booted


def test_an_incomplete_answer_counts_as_none_d17() -> None:
    made = booting(poll_stale_after=300.0)
    told(made, UNREACHED)
    for _ in range(60):
        made.advance(ROUND)
        made.ping("r1")
        made.poll()
        made.poll_scheduler(complete=False)
        made.plan()
    assert made.destroyed == []


def test_nobody_ends_one_that_nobody_watched_from_its_boot_on_d17() -> None:
    """A manager's restart beside a scheduler that forgets: it may work."""
    made = world(scheduled=True, demand_polled=True, max_nodes=8, sizes=(SMALL,))
    made.add_record("r1", quiet=0.0, hostname=HOST, first_ping_at=made.ago(GRACE))
    made.change("r1", claim=claim("r1", at=made.ago(2 * GRACE)))
    made.add_node("r1")
    made.poll()
    assert told(made, None, lasts=3 * GRACE) is Reason.UNSCHEDULED
    assert made.destroyed == []
    assert not is_booting("r1", incarnation_of("r1"), made.history)


def test_a_young_claim_is_watched_by_whoever_sees_it_first_d17() -> None:
    made = booting()
    made.ping("r1")
    made.restart()
    made.poll()
    assert is_booting("r1", incarnation_of("r1"), made.history)
    told(made, UNREACHED, lasts=GRACE + 2 * ROUND)
    assert made.of_node("i-r1").reason is Reason.NOT_JOINED


@pytest.mark.parametrize("joined", [True, False])
def test_a_restart_knows_who_has_joined_and_counts_anew_d17_r4(joined: bool) -> None:
    made = booting()
    told(made, SchedulerNode(HOST, IDLE) if joined else UNREACHED, lasts=GRACE - 2 * ROUND)
    kept = made.history.hostnames
    made.advance(GRACE)
    made.restart()
    made.history = histories.hostnames_kept(made.history, kept)
    told(made, UNREACHED, lasts=GRACE - 2 * ROUND)
    assert made.destroyed == []
    told(made, UNREACHED, lasts=4 * ROUND)
    assert made.destroyed == ([] if joined else ["i-r1"])


def test_what_either_run_saw_join_has_joined_d17_r4() -> None:
    made = booting()
    told(made, UNREACHED)
    waits = made.history.hostnames
    told(made, SchedulerNode(HOST, IDLE))
    joined = made.history.hostnames
    assert waits != joined
    for own, kept in ((waits, joined), (joined, waits)):
        history = replace(made.history, hostnames=own)
        assert histories.hostnames_kept(history, kept).hostnames == joined


@pytest.mark.parametrize("step", [-86_400.0, 86_400.0])
def test_a_jump_of_the_clocks_ends_none_sooner_and_keeps_none_longer_d17_t1(step: float) -> None:
    made = booting()
    told(made, UNREACHED, lasts=GRACE - 5 * ROUND)
    made.store_step += step
    made.wall_step += step
    told(made, UNREACHED, lasts=3 * ROUND)
    assert made.destroyed == []
    assert told(made, UNREACHED, lasts=4 * ROUND) is Reason.NOT_JOINED


def test_a_late_create_leaves_its_node_no_less_time_to_join_d17_a2() -> None:
    made = booting()
    for _ in range(29):
        made.advance(ROUND)
        made.poll()
        made.poll_scheduler(UNREACHED)
        made.plan()
    made.nodes = []
    made.add_node("r1", age=1.0)
    assert told(made, UNREACHED, lasts=GRACE - 2 * ROUND) is Reason.BOOTING
    assert told(made, UNREACHED, lasts=4 * ROUND) is Reason.NOT_JOINED


@pytest.mark.parametrize("step", [-86_400.0, -1000.0, 0.0])
def test_a_claim_from_before_a_jump_is_of_no_known_age_d17_t1(step: float) -> None:
    """A clock set back makes an old claim young: nobody has watched what its node did since."""
    made = booting()
    made.ping("r1")
    made.advance(0.0 if not step else 1500.0)
    made.round()
    made.restart()
    made.read_clock()
    made.store_step += step
    made.poll()
    assert is_booting("r1", incarnation_of("r1"), made.history) is (not step)


def test_a_word_from_before_its_first_ping_is_of_the_machine_before_d17() -> None:
    made = booting()
    made.advance(ROUND)
    made.poll()
    made.poll_scheduler(SchedulerNode(HOST, IDLE))
    assert is_booting("r1", incarnation_of("r1"), made.history)
    told(made, UNREACHED, lasts=GRACE + 2 * ROUND)
    assert made.of_node("i-r1").reason is Reason.NOT_JOINED


STARTED = 1_700_000_000


def given_anew() -> World:
    """The record of a node that is up was deleted, and its hostname is that of another by now."""
    made = booting()
    told(made, SchedulerNode(HOST, BUSY, started_at=STARTED))
    made.records = [record("r5", at=made.store_now, slot=1, hostname=HOST, pinged=False)]
    made.add_node("r5", age=1.0)
    made.poll()
    return made


def test_a_word_on_the_machine_before_is_none_on_the_next_one_d17_d7() -> None:
    made = given_anew()
    before = SchedulerNode(HOST, BUSY, started_at=STARTED)
    told(made, before, lasts=GRACE + 2 * ROUND)
    assert made.of_node("i-r5").reason is Reason.UNJOINED
    assert report_on(made.record("r5"), made.snapshot(), made.settings) is None
    assert (made.of_node("i-r1").reason, made.destroyed) == (Reason.BUSY, [])
    # That it is lost says nothing of the next one, as long as it is listed.
    lost = replace(before, state=DOWN, responds=False)
    told(made, lost, lasts=5 * ROUND)
    assert unjoined_for(made.record("r5"), made.snapshot(), made.settings) is None
    made.change_node("i-r1", state=CloudState.TERMINATED)
    told(made, lost, lasts=5 * ROUND)
    unjoined_s = unjoined_for(made.record("r5"), made.snapshot(), made.settings)
    assert unjoined_s is not None
    assert unjoined_s <= 5 * ROUND


@pytest.mark.parametrize("started_at", [STARTED + 1, STARTED - 1, None])
def test_once_another_daemon_is_heard_the_next_one_has_joined_d17(started_at: int | None) -> None:
    """So it has where nobody knows whose word it is."""
    made = given_anew()
    told(made, SchedulerNode(HOST, BUSY, started_at=started_at))
    assert not is_booting("r5", incarnation_of("r5"), made.history)
    assert report_on(made.record("r5"), made.snapshot(), made.settings) is not None


def test_an_answer_from_right_after_its_first_ping_says_that_it_joined_d17() -> None:
    """Also where no record listing has shown that ping before the answer began."""
    made = booting()
    made.advance(ROUND)
    made.ping("r1")
    made.advance(5.0)
    began = made.now
    made.poll()
    node = SchedulerNode(HOST, IDLE)
    listing = Listing((node,), began, made.now)
    made.history = scheduler_listed(made.history, listing, made.settings)
    assert not is_booting("r1", incarnation_of("r1"), made.history)


def test_two_records_of_one_hostname_are_no_word_on_either_d17() -> None:
    made = booting(2)
    made.change("r2", hostname=HOST)
    told(made, None, lasts=2 * GRACE)
    assert made.destroyed == []


def test_many_that_never_join_are_a_wave_and_none_is_ended_d9_d17() -> None:
    made = booting(6)
    told(made, None, lasts=GRACE + 3 * ROUND)
    assert made.breaker.part(Cause.MASS_SILENCE) is not None
    assert made.destroyed == []


def test_one_that_the_cloud_ends_before_it_joined_has_failed_to_boot_b5() -> None:
    made = booting()
    told(made, UNREACHED)
    made.change_node("i-r1", state=CloudState.TERMINATED)
    made.round()
    assert [(one.node_id, one.in_setup) for one in made.last.ended] == [("i-r1", True)]
    joined = booting()
    told(joined, SchedulerNode(HOST, IDLE))
    joined.change_node("i-r1", state=CloudState.TERMINATED)
    joined.round()
    assert [one.in_setup for one in joined.last.ended] == [False]


# Right before the destroy.


@cases(
    ("found", "kind"),
    {
        "not-listed": (None, Kind.SHUTDOWN),
        "down": (SchedulerNode(HOST, DOWN), Kind.SHUTDOWN),
        "idle": (SchedulerNode(HOST, IDLE), Kind.KEEP),
        "busy": (SchedulerNode(HOST, BUSY, responds=False), Kind.KEEP),
        "nothing-known": (SchedulerNode(HOST, UNKNOWN), Kind.KEEP),
        "reserved": (SchedulerNode(HOST, DOWN, reserved=True), Kind.KEEP),
    },
)
def test_the_scheduler_is_asked_again_right_before_d17_d2(found: Told, kind: Kind) -> None:
    made = booting()
    told(made, UNREACHED, lasts=GRACE + 2 * ROUND)
    order = order_shutdown(made.view("i-r1"), made.snapshot())
    assert (order.reason, order.hostname) == (Reason.NOT_JOINED, HOST)
    # It pings on, so that its record changes all the time.
    pinged = made.ping("r1")

    def confirmed(one: Any, said: Told) -> Kind:
        evidence = ShutdownEvidence(one, scheduled=() if said is None else (said,))
        verdict = confirm_shutdown(order, evidence, made.snapshot(), made.settings, wanted=False)
        return verdict.kind

    assert confirmed(pinged, found) is kind
    assert confirmed(None, None) is Kind.KEEP
    assert confirmed(made.ping("r1", BUSY), None) is Kind.KEEP
    another = replace(pinged, claim=claim("r1", at=made.store_now, life=2))
    assert confirmed(another, None) is Kind.KEEP


def test_those_that_fail_one_after_the_other_are_no_wave_d9_b5() -> None:
    """Boot loops bound them; a breaker would keep all that come."""
    made = booting(node_stale_after=50_000.0)
    for life in range(1, 12):
        node = f"i-{life}"
        claimed = record("r1", at=made.store_now, life=life, pinged=False, instance_id=node)
        made.records, made.nodes = [claimed], []
        made.add_node("r1", life=life, id=node, age=1.0)
        made.poll()
        until = made.now + GRACE + 3 * ROUND
        while made.now < until:
            made.advance(ROUND)
            made.ping("r1")
            made.poll()
            made.poll_scheduler()
            made.plan()
        assert made.of_node(node).reason is Reason.NOT_JOINED
    assert not made.breaker.is_open
