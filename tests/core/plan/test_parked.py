"""What an operator's parking makes of a pool: it boots nothing, and empties (doc/rules O7)."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from nodemanager.core.execute.setup import confirm_setup, order_setup
from nodemanager.core.execute.workflow import Seen
from nodemanager.core.explain.explain import DecisionView, explain
from nodemanager.core.explain.rules import RuleStatus
from nodemanager.core.explain.why import why
from nodemanager.core.model.annotations import PARK, PAUSE, Mark
from nodemanager.core.model.reasons import Kind, Reason
from nodemanager.core.model.world import NO_TAGS, Claim, Guarantee, Job, WorkerState
from nodemanager.core.plan.destroy import ShutdownEvidence, confirm_shutdown
from nodemanager.core.plan.orders import BootOrder
from tests.cases import cases
from tests.core.build import EPOCH, POOL, SMALL, START, World, incarnation_of, world
from tests.core.nodes import BUSY, IDLE, live, pinging, verdict

NODE = "i-r1"
MARK = Mark("ann", EPOCH + START, "until Monday", incarnation_of("r1"))
PARKED = {"pool_marks": {PARK: Mark("ann", EPOCH + START, "until Monday")}}


def parked(made: World, **flags: Any) -> World:
    made.flags |= {**PARKED, **flags}
    made.plan()
    return made


def test_o7_a_parked_pool_boots_nothing_for_jobs_spares_or_min_nodes_and_says_why() -> None:
    spared = replace(SMALL, spare_nodes=1)
    made = world(min_nodes=2, max_nodes=9, sizes=(spared,))
    made.flags |= {"slots": 10, "demand": (Job("j", count=3),)}
    made.round()
    assert len(made.booted) == 4
    parked(made)
    assert made.booted == []
    assert {reason for _, reason in made.wants.refused} == {Reason.POOL_PARKED}
    assert made.last.pool_marks == PARKED["pool_marks"]
    (small,) = why(DecisionView(made.snapshot(), made.last, made.settings))
    assert [(one.reason, one.measures["by"]) for one in small.grows] == [
        (Reason.POOL_PARKED, "ann")
    ]


def test_o7_an_idle_node_goes_also_below_min_nodes_and_in_no_window_once_its_word_is_new() -> None:
    made = live(
        IDLE,
        polls=1,
        consecutive_idle_count=99,
        min_nodes=5,
        shutdown_windows=(1e9, 1.0),
    )
    parked(made, demand=(Job("j", count=5),))
    assert verdict(made) == (Kind.KEEP, Reason.IDLE_WORD_OLD)
    pinging(made, IDLE)
    assert verdict(made) == (Kind.SHUTDOWN, Reason.PARKED)
    assert made.destroyed == [NODE]
    measures = made.of_node(NODE).measures
    assert measures is not None
    assert (measures["by"], measures["cause"]) == ("ann", "until Monday")


@cases(
    ("state", "reason"),
    {"busy": (BUSY, Reason.PARKING), "pings-without-a-word": (None, Reason.WORKER_UNKNOWN)},
)
def test_o7_a_node_that_may_be_busy_stays_until_it_says_that_it_is_idle(
    state: WorkerState | None, reason: Reason
) -> None:
    made = parked(live(state))
    assert verdict(made) == (Kind.KEEP, reason)
    pinging(made, state, polls=20)
    assert made.destroyed == []
    pinging(made, IDLE)
    assert made.destroyed == [NODE]


def test_o7_many_nodes_go_at_once_as_idle_ones_do() -> None:
    """They did no work and are well: the cap on shutdowns is for others (D9)."""
    made = world(max_nodes=9, max_shutdowns_per_cycle=1)
    for number in range(5):
        made.add_record(f"r{number}")
        made.add_node(f"r{number}")
    pinging(made, IDLE)
    parked(made)
    pinging(made, IDLE)
    assert len(made.destroyed) == 5


@cases(
    ("flags", "expected"),
    {
        "held": ({"holds": frozenset({NODE})}, (Kind.KEEP, Reason.HELD)),
        "cordoned": ({"drains": {NODE: replace(MARK, kept=True)}}, (Kind.KEEP, Reason.CORDONED)),
        "drained-by-itself": ({"drains": {NODE: MARK}}, (Kind.SHUTDOWN, Reason.DRAINED)),
        "killed": ({"kills": {NODE: MARK}}, (Kind.SHUTDOWN, Reason.KILLED)),
        "paused-too": (
            {"pool_marks": {**PARKED["pool_marks"], PAUSE: MARK}},
            (Kind.KEEP, Reason.PAUSED),
        ),
    },
)
def test_o7_the_other_orders_of_operators_stand_beside_it(
    flags: dict[str, Any], expected: tuple[Kind, Reason]
) -> None:
    made = parked(live(IDLE), **flags)
    pinging(made, IDLE)
    assert verdict(made) == expected


def test_o7_a_node_without_a_tag_and_one_of_another_pool_are_not_parked() -> None:
    for tags in (NO_TAGS, replace(live(IDLE).nodes[0].tags, pool="theirs")):
        made = live(IDLE)
        made.change_node(NODE, tags=tags)
        made.poll()
        parked(made)
        pinging(made, IDLE)
        assert made.destroyed == []


def test_o7_its_record_is_freed_no_sooner() -> None:
    made = world()
    made.add_record("young", quiet=100.0)
    made.add_record("dead", quiet=10_000.0)
    made.flags |= PARKED
    made.settle()
    assert made.of_record("young").reason is Reason.WITHIN_WINDOW
    assert made.cleaned == ["dead"]


def test_o7_a_node_is_told_to_take_no_more_work_and_after_unpark_to_take_some() -> None:
    made = world(tells_drain=True)
    made.add_record("r1", quiet=100.0, drain_hook=True, slot=1)
    made.add_node("r1")
    pinging(made, BUSY)
    parked(made)
    assert [(one.node_id, one.on) for one in made.last.drains] == [(NODE, True)]
    made.change("r1", drain="1")
    made.flags |= {"pool_marks": {}, "drain_orders": {"r1": "1"}}
    pinging(made, BUSY)
    assert [(one.node_id, one.on) for one in made.last.drains] == [(NODE, False)]


# What was ordered before.


def test_o7_what_was_to_go_stays_once_the_pool_is_unparked() -> None:
    made = parked(live(IDLE))
    pinging(made, IDLE)
    order = made.shutdown_order(NODE)

    def look(**flags: Any) -> tuple[Kind, Reason]:
        found = ShutdownEvidence(made.record("r1"))
        said = confirm_shutdown(order, found, made.snapshot(**flags), made.settings, wanted=True)
        return said.kind, said.reason

    assert look() == (Kind.SHUTDOWN, Reason.PARKED)
    assert look(pool_marks={}) == (Kind.KEEP, Reason.NO_LONGER_WANTED)
    made.ping("r1", BUSY)
    assert look() == (Kind.KEEP, Reason.NO_LONGER_WANTED)


def test_o7_a_set_up_that_waits_for_a_worker_is_not_begun() -> None:
    made = world(max_nodes=4)
    made.round()
    claim = Claim(POOL, "m", 1, 0.0, "n", "life", size=SMALL.name)
    order = order_setup(BootOrder(SMALL, Reason.WANTED, "p"), claim, "store-1", made.now)
    assert confirm_setup(order, Seen(made.snapshot(), made.settings, Guarantee.CAS), None) is None
    seen = Seen(made.snapshot(**PARKED), made.settings, Guarantee.CAS)
    refused = confirm_setup(order, seen, None)
    assert refused is not None
    assert refused.reason is Reason.POOL_PARKED


@pytest.mark.parametrize(
    ("state", "status"), [(IDLE, RuleStatus.CALLS), (BUSY, RuleStatus.BLOCKS)], ids=str
)
def test_o7_explain_names_the_parking_and_whose_it_is(
    state: WorkerState, status: RuleStatus
) -> None:
    made = parked(live(state))
    pinging(made, state)
    told = explain(made.snapshot(), made.last, made.settings, NODE)
    (found,) = [one for one in told.findings if one.rule == "O7"]
    assert found.status is status
    assert (found.measures or {})["by"] == "ann"
    assert told.verdict == made.of_node(NODE)
