"""A node whose record was deleted, and that its scheduler knows by its hostname alone (D7)."""

from __future__ import annotations

from typing import Any

import pytest

from nodemanager.core.execute.effects import AskNode, LookAtNode
from nodemanager.core.execute.shutdown import Asking, ShutDown
from nodemanager.core.execute.workflow import Answered, Seen
from nodemanager.core.model.reasons import Kind, Reason
from nodemanager.core.model.scheduling import SEAT, SchedulerNode
from nodemanager.core.model.settings import Settings
from nodemanager.core.model.world import CloudState, Guarantee, Record
from nodemanager.core.observe import history as histories
from nodemanager.core.observe.nodes_by_record import NodesByRecord
from nodemanager.core.observe.pings import (
    KEPT_S,
    Hostname,
    Hostnames,
    hostnames_joined,
    hostnames_seen,
    hostnames_told,
)
from nodemanager.core.observe.scheduled import hostname_of
from nodemanager.core.plan.destroy import (
    ShutdownEvidence,
    ShutdownOrder,
    confirm_shutdown,
    order_shutdown,
)
from tests.cases import cases
from tests.core.build import SMALL, World, node, record, world
from tests.core.nodes import BUSY, DOWN, IDLE

pytestmark = pytest.mark.slow

HOST = "compute1"
LIFE = "r1/r1-life1"


def deleted() -> World:
    """Four paired nodes; then the record of the first is deleted."""
    made = world(scheduled=True, demand_polled=True, max_nodes=8, sizes=(SMALL,))
    for number in range(1, 5):
        made.add_record(f"r{number}", quiet=100.0, hostname=f"compute{number}")
        made.add_node(f"r{number}")
    says(made, SchedulerNode(HOST, BUSY))
    made.records = [one for one in made.records if one.uuid != "r1"]
    return made


def says(made: World, *told: SchedulerNode, rounds: int = 2) -> Reason:
    for _ in range(rounds):
        made.advance(60.0)
        for one in list(made.records):
            made.ping(one.uuid, BUSY)
        made.poll()
        made.poll_scheduler(*told)
        made.plan()
    return made.of_node("i-r1").reason


HOURS = 60
FREE_SEAT: dict[str, Any] = {
    "slot": None,
    "hostname": None,
    "pinged": False,
    "pool": None,
    "properties": {SEAT: "compute9"},
}
"""A record of Slurm's own node that is free, though a machine from before us is up as that node."""


@cases(
    ("told", "reason"),
    {
        "busy": ({"state": BUSY}, Reason.BUSY),
        "busy-not-reached": ({"state": BUSY, "responds": False}, Reason.BUSY),
        "idle": ({"state": IDLE}, Reason.UP_IN_SCHEDULER),
        "busy-and-drained": ({"state": BUSY, "draining": True}, Reason.BUSY),
        "drained": ({"state": IDLE, "draining": True}, Reason.UNPAIRED),
        "not-reached": ({"state": IDLE, "responds": False}, Reason.UNPAIRED),
        "down": ({"state": DOWN}, Reason.UNPAIRED),
    },
)
def test_it_stays_while_it_works_or_gets_work_d7(told: dict[str, Any], reason: Reason) -> None:
    made = deleted()
    assert says(made, SchedulerNode(HOST, **told), rounds=HOURS) is reason
    assert made.of_node("i-r1").kind is (Kind.SHUTDOWN if reason is Reason.UNPAIRED else Kind.KEEP)


def test_it_goes_where_the_scheduler_does_not_know_it_d7() -> None:
    assert says(deleted(), rounds=HOURS) is Reason.UNPAIRED


def test_its_hostname_outlives_the_run_that_saw_its_record_d7_r4() -> None:
    made = deleted()
    says(made, SchedulerNode(HOST, BUSY))
    kept = made.history.hostnames
    made.restart()
    made.history = histories.hostnames_kept(made.history, kept)
    assert says(made, SchedulerNode(HOST, BUSY), rounds=HOURS) is Reason.BUSY


@cases(
    ("other", "reason"),
    {
        "it-may-be-its-own": ({}, Reason.UP_IN_SCHEDULER),
        "claimed-for-another-node": ({"claimed": True}, Reason.UNPAIRED),
        "another-node-pings-it": ({"instance_id": "i-x"}, Reason.UNPAIRED),
        "not-up": ({"hostname": "compute8"}, Reason.UNPAIRED),
        "another-pool's": ({"pool": "other"}, Reason.UNPAIRED),
        "a-free-seat": (FREE_SEAT, Reason.UP_IN_SCHEDULER),
        "a-seat-not-up": ({**FREE_SEAT, "properties": {SEAT: "compute8"}}, Reason.UNPAIRED),
    },
)
def test_a_node_that_names_no_record_may_have_the_hostname_of_one_without_a_node_d7(
    other: dict[str, Any], reason: Reason
) -> None:
    made = with_adopted(other)
    go_on(made, SchedulerNode("compute9", IDLE))
    assert made.of_node("i-old").reason is reason


def with_adopted(other: dict[str, Any]) -> World:
    """Four paired nodes, one that names no record, and a record without a node."""
    made = world(scheduled=True, demand_polled=True, max_nodes=8, sizes=(SMALL,))
    for number in range(1, 5):
        made.add_record(f"r{number}", quiet=100.0, hostname=f"compute{number}")
        made.add_node(f"r{number}")
    made.add_node(id="i-old", age=10_000.0)
    fields: dict[str, Any] = {"hostname": "compute9", "slot": 9, "quiet": 100.0}
    made.add_record("r9", **{**fields, "instance_id": None, "claimed": False, **other})
    return made


def go_on(made: World, *told: SchedulerNode) -> None:
    """For hours, in which the four ping."""
    for _ in range(HOURS):
        made.advance(60.0)
        for number in range(1, 5):
            made.ping(f"r{number}", BUSY)
        made.poll()
        made.poll_scheduler(*told)
        made.plan()


STARTED = 1_700_000_000


@cases(
    ("before", "since", "reason"),
    {
        "another-is-heard": (STARTED, STARTED + 5, Reason.UNPAIRED),
        "another-whose-clock-is-slow": (STARTED, STARTED - 5, Reason.UNPAIRED),
        "it-is-heard": (STARTED, STARTED, Reason.BUSY),
        "its-start-is-not-told-now": (STARTED, None, Reason.BUSY),
        "its-start-was-never-told": (None, STARTED, Reason.BUSY),
        "no-start-is-told": (None, None, Reason.BUSY),
    },
)
def test_the_word_is_of_another_node_of_its_name_once_that_one_is_heard_d7(
    before: int | None, since: int | None, reason: Reason
) -> None:
    made = deleted()
    says(made, SchedulerNode(HOST, BUSY, started_at=before))
    made.add_record("r5", slot=1, hostname=HOST, pinged=False, quiet=0.0)
    made.add_node("r5")
    listed = made.nodes[0]
    made.poll()
    assert hostname_of(listed, made.history) == HOST
    told = SchedulerNode(HOST, BUSY, started_at=since)
    assert says(made, told, rounds=HOURS) is reason
    assert hostname_of(listed, made.history) == (HOST if reason is Reason.BUSY else None)


def test_the_name_may_be_its_own_again_once_the_other_node_is_not_listed_d7() -> None:
    """Its daemon still runs: the scheduler hears it again, and gives it work.

    The scheduler's newest answer is from when the other one was there, so it is asked right before
    the destroy.
    """
    made = deleted()
    says(made, SchedulerNode(HOST, BUSY, started_at=STARTED))
    made.add_record("r5", slot=1, hostname=HOST, pinged=False, quiet=0.0)
    made.add_node("r5")
    listed = made.nodes[0]
    other = SchedulerNode(HOST, BUSY, started_at=STARTED + 5)
    says(made, other, rounds=3)
    assert hostname_of(listed, made.history) is None
    made.drop_node("i-r5")
    made.poll()
    assert hostname_of(listed, made.history) == HOST


def test_one_whose_hostname_nobody_knows_any_more_may_have_that_of_a_record_without_a_node_d7() -> (
    None
):
    """Its record was deleted, its hostname given again, that node lost, and our journal, too."""
    made = deleted()
    made.add_record("r5", slot=1, hostname=HOST, quiet=0.0)
    made.add_node("r5")
    says(made, SchedulerNode(HOST, IDLE, started_at=STARTED + 5))
    made.restart()
    assert says(made, SchedulerNode(HOST, IDLE), rounds=HOURS) is Reason.UNPAIRED
    made.drop_node("i-r5")
    assert says(made, SchedulerNode(HOST, IDLE)) is Reason.UP_IN_SCHEDULER
    assert says(made, SchedulerNode(HOST, BUSY)) is Reason.BUSY
    assert says(made, SchedulerNode(HOST, DOWN)) is Reason.UNPAIRED


# Right before the destroy.


def seen(made: World) -> Seen:
    return Seen(made.snapshot(), made.settings, Guarantee.CAS)


def ordered() -> tuple[World, ShutdownOrder]:
    made = deleted()
    says(made, SchedulerNode(HOST, DOWN), rounds=HOURS)
    order = order_shutdown(made.view("i-r1"), made.snapshot())
    assert (order.reason, order.hostname) == (Reason.UNPAIRED, HOST)
    return made, order


@cases(
    ("told", "kind"),
    {
        "busy": (SchedulerNode(HOST, BUSY), Kind.KEEP),
        "idle": (SchedulerNode(HOST, IDLE), Kind.KEEP),
        "drained": (SchedulerNode(HOST, IDLE, draining=True), Kind.SHUTDOWN),
        "down": (SchedulerNode(HOST, DOWN), Kind.SHUTDOWN),
        "not-known": (None, Kind.SHUTDOWN),
    },
)
def test_the_scheduler_is_asked_by_its_hostname_right_before_d7_d2(
    told: SchedulerNode | None, kind: Kind
) -> None:
    made, order = ordered()
    step = ShutDown().start(order, seen(made))
    (look,) = step.effects
    assert isinstance(look, LookAtNode)
    assert look.hostnames == (HOST,)
    found = ShutdownEvidence(None, scheduled=() if told is None else (told,))
    verdict = confirm_shutdown(order, found, made.snapshot(), made.settings, wanted=False)
    assert verdict.kind is kind
    failed = ShutdownEvidence(None, error="the scheduler can't be asked")
    verdict = confirm_shutdown(order, failed, made.snapshot(), made.settings, wanted=False)
    assert verdict.reason is Reason.EVIDENCE_MISSING


def test_each_name_that_a_node_may_have_is_asked_for_right_before_d7_d2() -> None:
    """A machine from before us was adopted, and both free seats are down."""
    made = with_adopted(FREE_SEAT)
    made.add_record("r8", **{**FREE_SEAT, "claimed": False, "properties": {SEAT: "compute8"}})
    hosts = ("compute9", "compute8")
    go_on(made, *(SchedulerNode(name, DOWN) for name in hosts))
    order = order_shutdown(made.view("i-old"), made.snapshot())
    assert (order.reason, order.hostname) == (Reason.UNPAIRED, None)
    (look,) = ShutDown().start(order, seen(made)).effects
    assert isinstance(look, LookAtNode)
    assert look.hostnames == hosts
    for last, kind in ((BUSY, Kind.KEEP), (DOWN, Kind.SHUTDOWN)):
        told = (SchedulerNode("compute9", DOWN), SchedulerNode("compute8", last))
        found = ShutdownEvidence(None, scheduled=told)
        verdict = confirm_shutdown(order, found, made.snapshot(), made.settings, wanted=False)
        assert verdict.kind is kind


def test_no_name_is_marked_down_once_it_is_gone_d7() -> None:
    """By then it may be another node's."""
    made, order = ordered()
    state = Asking(order, made.now, asked_at=made.now)
    gone = node("r1", state=CloudState.TERMINATED)
    step = ShutDown().on(state, Answered(AskNode("i-r1"), gone), seen(made))
    assert step.state is None
    assert step.effects == ()


# What is kept.


def seen_hosts(
    known: Hostnames, records: list[Record], nodes_by_record: NodesByRecord, at: float
) -> Hostnames:
    return hostnames_seen(known, records, nodes_by_record, at, None, Settings(pool="main"))


def test_a_hostname_is_kept_a_day_longer_than_anything_shows_its_node_d7() -> None:
    one, nodes_by_record = record("r1", at=0.0, hostname=HOST), {"r1": (node("r1"),)}
    known = seen_hosts({}, [one], {}, 0.0)
    assert known == {LIFE: Hostname(HOST)}
    assert seen_hosts(known, [one], {}, 60.0) is known
    assert seen_hosts(known, [], nodes_by_record, 60.0) is known
    missed = seen_hosts(known, [], {}, 100.0)
    assert missed == {LIFE: Hostname(HOST, 100.0)}
    assert seen_hosts(missed, [], {}, 100.0 + KEPT_S) is missed
    assert seen_hosts(missed, [], nodes_by_record, 200.0) == known
    assert seen_hosts(missed, [], {}, 101.0 + KEPT_S) == {}


def test_a_start_is_of_the_life_with_the_name_then_and_of_no_later_one_d7() -> None:
    first, nodes_by_record = record("r1", at=0.0, hostname=HOST), {"r1": (node("r1"),)}
    known = seen_hosts({}, [first], nodes_by_record, 0.0)
    told = {HOST: SchedulerNode(HOST, BUSY, started_at=STARTED)}
    known = hostnames_told(known, [first], told)
    assert known == {LIFE: Hostname(HOST, started_at=STARTED)}
    assert hostnames_told(known, [first], told) is known
    # Its daemon starts again; then its record is deleted, and it does so once more.
    again = {HOST: SchedulerNode(HOST, BUSY, started_at=STARTED + 1)}
    assert hostnames_told(known, [first], again)[LIFE].started_at == STARTED + 1
    known = seen_hosts(known, [], nodes_by_record, 60.0)
    assert hostnames_told(known, [], again)[LIFE].started_at == STARTED + 1
    # Another record has the name, and the scheduler hears the node of before.
    second = record("r5", at=0.0, hostname=HOST)
    known = seen_hosts(known, [second], nodes_by_record, 120.0)
    assert hostnames_told(known, [second], told) is known
    both = hostnames_told(known, [second], again)
    assert [both[one].started_at for one in (LIFE, "r5/r5-life1")] == [STARTED, STARTED + 1]
    # Without either record, nobody knows whose it is.
    known = seen_hosts(both, [], {**nodes_by_record, "r5": (node("r5"),)}, 180.0)
    third = {HOST: SchedulerNode(HOST, BUSY, started_at=STARTED + 2)}
    assert hostnames_told(known, [], third) is known
    assert hostnames_told(known, [], {HOST: SchedulerNode(HOST, BUSY)}) is known


@cases(
    ("pinged", "before", "own", "next_"),
    {
        "the-next-one-has-not-come": (False, None, STARTED, None),
        "its-own-is-known": (False, 7, 7, STARTED),
        "the-next-one-has-come": (True, None, None, STARTED),
    },
)
def test_a_start_told_before_the_next_node_pinged_is_of_the_one_that_works_on_d7(
    pinged: bool, before: int | None, own: int | None, next_: int | None
) -> None:
    known = {LIFE: Hostname(HOST, started_at=before)}
    second = record("r5", at=0.0, hostname=HOST, pinged=pinged)
    known = seen_hosts(known, [second], {"r1": (node("r1"),)}, 60.0)
    told = {HOST: SchedulerNode(HOST, BUSY, started_at=STARTED)}
    both = hostnames_told(known, [second], told)
    assert [both[one].started_at for one in (LIFE, "r5/r5-life1")] == [own, next_]


def test_what_an_earlier_run_was_told_of_a_start_stands_d7_r4() -> None:
    kept = {LIFE: Hostname(HOST, started_at=STARTED), "r2/x": Hostname("compute2")}
    own = {LIFE: Hostname(HOST, started_at=STARTED + 9), "r2/x": Hostname("compute2", started_at=7)}
    assert hostnames_joined(kept, own) == {**own, LIFE: kept[LIFE]}


def test_a_node_of_a_later_life_does_not_keep_an_earlier_one() -> None:
    later = {"r1": (node("r1", life=2),)}
    known = {LIFE: Hostname(HOST)}
    assert seen_hosts(known, [], later, 100.0) == {LIFE: Hostname(HOST, 100.0)}


def test_without_a_scheduler_no_hostname_is_kept() -> None:
    made = world()
    made.add_record("r1", hostname=HOST)
    made.round()
    assert made.history.hostnames == {}
