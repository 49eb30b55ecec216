"""Whether an order that waited for a worker may still be carried out: each clause by itself."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from nodemanager.core.execute import drain
from nodemanager.core.execute.workflow import Seen
from nodemanager.core.model.annotations import Mark
from nodemanager.core.model.breaker import Breaker, Cause
from nodemanager.core.model.reasons import Kind, Reason
from nodemanager.core.model.scheduling import Dispatched, SchedulerNode
from nodemanager.core.model.settings import LATE_ORDER_S
from nodemanager.core.model.world import Guarantee, Record, Tags
from nodemanager.core.plan.destroy import ShutdownEvidence, ShutdownOrder, confirm_shutdown
from nodemanager.core.plan.orders import DrainOrder
from tests.cases import cases
from tests.core.build import EPOCH, POOL, START, World, claim, record, world
from tests.core.nodes import BUSY, DOWN, IDLE

NOW = EPOCH + START
OPEN = Breaker(Cause.WRITES_FAIL)


def paired(*, unwanted: bool, **settings: Any) -> World:
    made = world(**settings)
    made.add_record("r1")
    made.add_node("r1")
    made.round()
    made.history = replace(made.history, unwanted={"i-r1": made.now} if unwanted else {})
    return made


def seen(made: World, *, stopping: bool = False, **flags: Any) -> Seen:
    return Seen(made.snapshot(**flags), made.settings, Guarantee.CAS, stopping=stopping)


# Drains: by the ping script's hook, and in a scheduler.

KEPT: list[Any] = [
    pytest.param({"stopping": True}, {}, id="the-daemon-stops"),
    pytest.param({"lease": False}, {}, id="the-lease-is-lost"),
    pytest.param({"holds": frozenset({"i-r1"})}, {}, id="the-node-is-on-hold"),
    pytest.param({"holds": frozenset({"r1"})}, {}, id="its-record-is-on-hold"),
    pytest.param({}, {"held": True}, id="its-record-says-so"),
    pytest.param({}, None, id="its-record-is-gone"),
]


def read(made: World, change: dict[str, Any] | None) -> Record | None:
    return None if change is None else replace(made.record("r1"), **change)


@pytest.mark.parametrize("on", [True, False], ids=["drain", "resume"])
@pytest.mark.parametrize(("now", "change"), [pytest.param({}, {}, id="as-planned"), *KEPT])
def test_an_order_to_drain_or_resume_stands_until_anything_forbids_it_d12_l6_c9(
    now: dict[str, Any], change: dict[str, Any] | None, on: bool
) -> None:
    made = paired(unwanted=on, scheduled=False)
    order = DrainOrder("i-r1", made.record("r1"), on, Reason.DRAIN_AWAITED, "p")
    stands = now == change == {}
    assert drain.is_still_due(order, read(made, change), seen(made, **now)) is stands


@pytest.mark.parametrize("on", [True, False], ids=["drain", "resume"])
@pytest.mark.parametrize(
    ("now", "change"),
    [
        pytest.param({}, {}, id="as-planned"),
        *KEPT,
        pytest.param({}, {"hostname": "compute9"}, id="another-host"),
        pytest.param({}, {"claim": claim("r1", at=NOW, life=2)}, id="another-life"),
    ],
)
def test_an_order_to_the_scheduler_stands_until_anything_forbids_it_d12_l6_c9(
    now: dict[str, Any], change: dict[str, Any] | None, on: bool
) -> None:
    made = paired(unwanted=on)
    order = DrainOrder("i-r1", made.record("r1"), on, Reason.DRAIN_AWAITED, "p")
    stands = now == change == {}
    assert drain.may_tell_scheduler(order, read(made, change), seen(made, **now)) is stands


@pytest.mark.parametrize("on", [True, False], ids=["drain", "resume"])
def test_a_breaker_stops_drains_and_gives_work_again_b2(on: bool) -> None:
    made = paired(unwanted=on)
    one = made.record("r1")
    order = DrainOrder("i-r1", one, on, Reason.DRAIN_AWAITED, "p")
    now = seen(made, breaker=OPEN)
    assert drain.is_still_due(order, one, now) is not on
    assert drain.may_tell_scheduler(order, one, now) is not on


@pytest.mark.parametrize("on", [True, False], ids=["drain", "resume"])
def test_what_demand_says_by_now_counts_d12(on: bool) -> None:
    made = paired(unwanted=not on)
    one = made.record("r1")
    order = DrainOrder("i-r1", one, on, Reason.DRAIN_AWAITED, "p")
    assert not drain.is_still_due(order, one, seen(made))
    assert not drain.may_tell_scheduler(order, one, seen(made))


@cases(
    ("on", "ago", "due"),
    {
        "a-drain-that-may-be-undone": (True, LATE_ORDER_S, False),
        "a-drain-later": (True, LATE_ORDER_S + 1.0, True),
        "a-resume": (False, 1.0, True),
    },
)
def test_no_drain_goes_out_while_an_unclear_order_may_undo_it_d12(
    on: bool, ago: float, due: bool
) -> None:
    made = paired(unwanted=on)
    one = made.record("r1")
    order = DrainOrder("i-r1", one, on, Reason.DRAIN_AWAITED, "p")
    unclear = Dispatched(unclear={"r1": made.now - ago})
    assert drain.may_tell_scheduler(order, one, seen(made, dispatched=unclear)) is due


# Destroys.


def shutdown(reason: Reason, made: World, **fields: Any) -> ShutdownOrder:
    one = made.record("r1")
    order = ShutdownOrder(
        "i-r1", "node-r1", "small", reason, "p", 0, made.now + 60.0, made.ago(10_000.0), "r1",
        one.version, one.incarnation,
    )  # fmt: skip
    return replace(order, **fields)


def confirmed(
    made: World, order: ShutdownOrder, found: ShutdownEvidence | None = None, **flags: Any
) -> Reason:
    """The reason that it stays for, or the order's own where it goes."""
    found = found or ShutdownEvidence(made.record("r1"))
    verdict = confirm_shutdown(order, found, made.snapshot(**flags), made.settings, wanted=False)
    assert (verdict.kind is Kind.SHUTDOWN) is (verdict.reason is order.reason)
    return verdict.reason


def test_a_breaker_that_stands_open_stops_a_destroy_of_whatever_generation_b2() -> None:
    made = paired(unwanted=False)
    order = shutdown(Reason.NODE_DOWN, made)
    assert confirmed(made, order) is Reason.NODE_DOWN
    assert confirmed(made, order, breaker=OPEN) is Reason.BREAKER_OPEN
    assert confirmed(made, order, breaker=Breaker(generation=1)) is Reason.BREAKER_OPEN


@pytest.mark.parametrize("where", ["read", "listed"])
def test_a_hold_that_the_record_or_the_listing_shows_stops_a_destroy_c9(where: str) -> None:
    made = paired(unwanted=False)
    order = shutdown(Reason.KILLED, made)
    mark = Mark("ann", NOW, "it hangs", order.incarnation)
    if where == "listed":
        made.change_node("i-r1", held=True)
        made.poll_cloud()
    one = replace(made.record("r1"), held=where == "read")
    assert confirmed(made, order, ShutdownEvidence(one), kills={"i-r1": mark}) is Reason.HELD


@cases(
    ("mark", "reason", "expected"),
    {
        "a-cordon": ({"kept": True}, Reason.NODE_DOWN, Reason.CORDONED),
        "a-drain": ({"kept": False}, Reason.NODE_DOWN, Reason.NODE_DOWN),
        "of-another-life": (
            {"kept": True, "incarnation": "another"},
            Reason.NODE_DOWN,
            Reason.NODE_DOWN,
        ),
    },
)
def test_a_cordon_of_this_life_stops_a_destroy_o5(
    mark: dict[str, Any], reason: Reason, expected: Reason
) -> None:
    made = paired(unwanted=False)
    order = shutdown(reason, made)
    cordon = replace(Mark("ann", NOW, "disk", order.incarnation), **mark)
    assert confirmed(made, order, drains={"i-r1": cordon}) is expected


@pytest.mark.parametrize("marked_as", ["as-tagged", "untagged"])
def test_a_cordon_stops_the_destroy_of_a_node_whose_tags_were_taken_o5(marked_as: str) -> None:
    made = paired(unwanted=False)
    order = shutdown(Reason.NODE_DOWN, made)
    incarnation = order.incarnation if marked_as == "as-tagged" else None
    made.change_node("i-r1", tags=Tags(pool=POOL))
    made.poll_cloud()
    cordon = Mark("ann", NOW, "disk", incarnation, kept=True)
    untold = replace(order, incarnation=None)
    for one in (order, untold):
        assert confirmed(made, one, drains={"i-r1": cordon}) is Reason.CORDONED
        drain = replace(cordon, kept=False)
        assert confirmed(made, one, drains={"i-r1": drain}) is not Reason.CORDONED


def test_a_cordon_set_on_the_next_node_of_an_id_stops_the_destroy_of_the_one_before_o5() -> None:
    """A destroy names the id, so that it would hit the cordoned one."""
    made = paired(unwanted=False)
    order = shutdown(Reason.NODE_DOWN, made)
    made.change_node("i-r1", tags=Tags(POOL, "r1", "another"))
    made.poll_cloud()
    cordon = Mark("ann", NOW, "disk", "another", kept=True)
    assert confirmed(made, order, drains={"i-r1": cordon}) is Reason.CORDONED


def test_a_kill_goes_over_a_cordon_o2_o5() -> None:
    made = paired(unwanted=False)
    order = shutdown(Reason.KILLED, made)
    mark = Mark("ann", NOW, "it hangs", order.incarnation)
    cordon = {"i-r1": replace(mark, kept=True)}
    assert confirmed(made, order, kills={"i-r1": mark}, drains=cordon) is Reason.KILLED


@cases(
    ("found", "reason"),
    {
        "no-record": (None, Reason.UNPAIRED),
        "another-life": (record("r1", at=NOW, life=2, pinged=False), Reason.UNPAIRED),
        "its-ping-was-known": (record("r1", at=NOW, life=2), Reason.UNPAIRED),
        "its-own-again": (record("r1", at=NOW), Reason.NO_LONGER_WANTED),
        "it-was-pinged-since": (record("r1", at=NOW + 1.0, life=2), Reason.CHANGED_SINCE_PLAN),
        "another-pinged-it": (
            record("r1", at=NOW + 1.0, life=2, instance_id="i-other"),
            Reason.UNPAIRED,
        ),
    },
)
def test_an_unpaired_node_goes_unless_its_record_is_its_own_or_was_pinged_d2_d7(
    found: Record | None, reason: Reason
) -> None:
    made = paired(unwanted=False)
    order = shutdown(Reason.UNPAIRED, made)
    assert confirmed(made, order, ShutdownEvidence(found)) is reason


def test_neither_of_two_without_an_incarnation_is_the_others_d2_d7() -> None:
    made = paired(unwanted=False)
    order = shutdown(Reason.UNPAIRED, made, incarnation=None)
    bare = record("r1", at=NOW, claimed=False, instance_id=None)
    assert confirmed(made, order, ShutdownEvidence(bare)) is Reason.UNPAIRED


@cases(
    ("told", "reason"),
    {
        "not-listed": (None, Reason.NODE_DOWN),
        "it-works": (SchedulerNode("compute1", BUSY), Reason.CHANGED_SINCE_PLAN),
        "it-did": (SchedulerNode("compute1", BUSY, responds=False), Reason.NODE_DOWN),
        "idle": (SchedulerNode("compute1", IDLE), Reason.NODE_DOWN),
    },
)
def test_a_bad_node_stays_while_the_scheduler_hears_it_at_work_d2(
    told: SchedulerNode | None, reason: Reason
) -> None:
    made = paired(unwanted=False)
    order = shutdown(Reason.NODE_DOWN, made)
    found = ShutdownEvidence(made.record("r1"), scheduled=() if told is None else (told,))
    assert confirmed(made, order, found) is reason


@cases(
    ("reason", "change", "goes"),
    {
        "as-it-was": (Reason.NODE_DOWN, {}, True),
        "it-changed": (Reason.NODE_DOWN, {"version": "v2"}, False),
        "still-down": (Reason.NODE_DOWN, {"version": "v2", "worker_state": DOWN}, True),
        "it-came-up": (Reason.BOOT_FAILED, {"version": "v2", "worker_state": DOWN}, False),
        "its-record-is-gone": (Reason.NODE_DOWN, None, False),
    },
)
def test_any_change_of_its_record_is_a_sign_of_life_of_a_bad_node_d2(
    reason: Reason, change: dict[str, Any] | None, goes: bool
) -> None:
    made = paired(unwanted=False)
    order = shutdown(reason, made)
    found = ShutdownEvidence(read(made, change))
    assert (confirmed(made, order, found) is reason) is goes


@pytest.mark.parametrize("found", [None, "another-life"])
@pytest.mark.parametrize("reason", [Reason.IDLE_BEYOND_DEMAND, Reason.DRAINED])
def test_an_idle_node_stays_if_its_record_is_another_s_by_now_d2(
    found: str | None, reason: Reason
) -> None:
    made = paired(unwanted=True)
    order = shutdown(reason, made)
    one = record("r1", at=NOW, life=2, worker_state=IDLE)
    mark = Mark("ann", NOW, "new image", order.incarnation)
    evidence = ShutdownEvidence(None if found is None else one)
    drains = {"i-r1": mark} if reason is Reason.DRAINED else {}
    assert confirmed(made, order, evidence, drains=drains) is Reason.CHANGED_SINCE_PLAN


def test_a_drain_alone_is_no_kill_o2() -> None:
    made = paired(unwanted=True)
    order = shutdown(Reason.KILLED, made)
    drains = {"i-r1": Mark("ann", NOW, "new image", order.incarnation)}
    idle = ShutdownEvidence(replace(made.record("r1"), worker_state=IDLE))
    assert confirmed(made, order, idle, drains=drains) is Reason.NO_LONGER_WANTED
