"""What operators' orders make of nodes, and of a pool (doc/rules O1, O2, O4, O5)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from nodemanager.core.explain.explain import explain
from nodemanager.core.explain.rules import RuleStatus
from nodemanager.core.judge import nodes
from nodemanager.core.judge.node_view import NodeView, Subject
from nodemanager.core.judge.nodes import Ask, NodeFacts
from nodemanager.core.judge.preconditions import RuleCheck
from nodemanager.core.model.annotations import PAUSE, Mark
from nodemanager.core.model.breaker import Breaker, Cause
from nodemanager.core.model.reasons import Kind, Reason
from nodemanager.core.model.world import NO_TAGS, CloudNode, CloudState, Tags, WorkerState
from nodemanager.core.observe.pairing import NO_PAIRS
from nodemanager.core.plan.destroy import ShutdownEvidence, confirm_shutdown
from tests.cases import cases
from tests.core.build import (
    EPOCH,
    POOL,
    SMALL,
    START,
    Job,
    World,
    incarnation_of,
    node,
    world,
)
from tests.core.nodes import live, pinging, unpaired, verdict

NODE = "i-r1"
MARK = Mark("ann", EPOCH + START, "new image", incarnation_of("r1"))
KILL = {"kills": {NODE: MARK}}
DRAIN = {"drains": {NODE: MARK}}
CORDONED = replace(MARK, kept=True)
CORDON = {"drains": {NODE: CORDONED}}
PAUSED = {"pool_marks": {PAUSE: MARK}}


def marked(made: World, **flags: Any) -> World:
    made.flags |= flags
    made.plan()
    return made


def asked(check: RuleCheck[Ask], node: CloudNode, made: World, **flags: Any) -> NodeView | None:
    """What one check says of an idle node."""
    facts = NodeFacts(made.snapshot(**flags), made.settings, NO_PAIRS)
    return check.ask(facts, Subject(node, None, WorkerState.IDLE))


# O1: drain.


def test_o1_a_drained_node_goes_as_soon_as_it_is_idle_whatever_demand_says() -> None:
    """No idle count, no window, no min_nodes, no job keeps it."""
    made = live(
        WorkerState.IDLE,
        polls=1,
        consecutive_idle_count=99,
        min_nodes=5,
        shutdown_windows=(1e9, 1.0),
    )
    made.flags["demand"] = (Job("j", count=5),)
    marked(made, **DRAIN)
    assert verdict(made) == (Kind.KEEP, Reason.IDLE_WORD_OLD)
    pinging(made, WorkerState.IDLE)
    assert verdict(made) == (Kind.SHUTDOWN, Reason.DRAINED)
    assert made.destroyed == [NODE]
    measures = made.of_node(NODE).measures
    assert measures is not None
    assert (measures["by"], measures["cause"]) == ("ann", "new image")


@cases(
    ("state", "reason"),
    {
        "busy": (WorkerState.BUSY, Reason.DRAINING),
        "pings-without-a-word": (None, Reason.WORKER_UNKNOWN),
    },
)
def test_o1_a_drained_node_is_never_shut_down_while_it_may_be_busy(
    state: WorkerState | None, reason: Reason
) -> None:
    made = marked(live(state), **DRAIN)
    assert verdict(made) == (Kind.KEEP, reason)
    assert not made.view(NODE).counts
    pinging(made, state, polls=20)
    assert made.destroyed == []
    pinging(made, WorkerState.IDLE)
    assert made.destroyed == [NODE]


@cases(
    ("state", "mark"),
    {"drains-o1": (WorkerState.BUSY, DRAIN), "is-cordoned-o5": (WorkerState.IDLE, CORDON)},
)
def test_another_node_is_booted_for_one_that_no_new_work_is_meant_for_o1_o5(
    state: WorkerState, mark: dict[str, Any]
) -> None:
    """It is no supply; it exists, and counts against max_nodes."""
    made = live(state, min_nodes=1, max_nodes=2, sizes=(SMALL,))
    made.flags["slots"] = 10
    made.plan()
    assert made.booted == []
    marked(made, **mark)
    assert made.booted == ["small"]
    made.with_settings(max_nodes=1)
    made.plan()
    assert (made.booted, made.destroyed) == ([], [])


# O2: kill.


def test_o2_a_node_that_never_pinged_or_has_no_record_can_be_killed() -> None:
    made = world()
    made.add_record("r1", pinged=False, quiet=10.0)
    made.add_node("r1")
    made.round()
    assert marked(made, **KILL).destroyed == [NODE]
    lone = unpaired()
    lone.round()
    assert marked(lone, **KILL).destroyed == [NODE]


def held(made: World) -> None:
    made.flags["holds"] = frozenset({NODE})


def record_held(made: World) -> None:
    made.flags["holds"] = frozenset({"r1"})


def without_our_tag(made: World) -> None:
    """It pairs by its id."""
    made.nodes = [node(id=NODE, pool=None, created_at=made.ago(10_000.0))]
    made.with_settings(ids_unique=True)


def of_another_pool(made: World) -> None:
    made.nodes = [node("r1", pool="other", created_at=made.ago(10_000.0))]


def malformed(made: World) -> None:
    made.change_node(NODE, problems=("no state",))


def twins(made: World) -> None:
    made.nodes.append(node("r1", id="i-twin", created_at=made.ago(10_000.0)))


@pytest.mark.parametrize("order", [KILL, DRAIN], ids=["kill", "drain"])
@cases(
    ("happens", "reason"),
    {
        "held": (held, Reason.HELD),
        "its-record-held": (record_held, Reason.HELD),
        "untagged-D11": (without_our_tag, Reason.UNTAGGED),
        "other-pool-T3": (of_another_pool, Reason.FOREIGN_NODE),
        "malformed-P3": (malformed, Reason.UNREADABLE),
        "ambiguous-P2": (twins, Reason.AMBIGUOUS),
    },
)
def test_no_order_reaches_a_node_that_a_rule_keeps(
    order: dict[str, Any], happens: Callable[[World], None], reason: Reason
) -> None:
    """An operator's order (O1, O2) breaks none of these (C9, D11, T3, P3, P2)."""
    made = live(WorkerState.IDLE)
    happens(made)
    made.advance(30.0)
    made.poll()
    marked(made, **order)
    assert made.of_node(NODE).reason is reason
    assert made.destroyed == []


def no_lease(made: World) -> dict[str, Any]:
    return {"lease": False}


def read_only(made: World) -> dict[str, Any]:
    return {"read_only": "another account"}


def open_breaker(made: World) -> dict[str, Any]:
    made.breaker = Breaker(Cause.RECORDS_COLLAPSED, frozenset({"r9"}))
    return {}


def old_polls(made: World) -> dict[str, Any]:
    made.advance(made.settings.poll_stale_after + 1.0)
    return {}


def paused(made: World) -> dict[str, Any]:
    return PAUSED


@pytest.mark.parametrize("order", [KILL, DRAIN], ids=["kill", "drain"])
@cases(
    ("standing", "reason"),
    {
        "lease-L6": (no_lease, Reason.NO_LEASE),
        "read-only-L5": (read_only, Reason.READ_ONLY),
        "breaker-B2": (open_breaker, Reason.BREAKER_OPEN),
        "old-polls-C7": (old_polls, Reason.POLL_STALE),
        "paused-O4": (paused, Reason.PAUSED),
    },
)
def test_what_forbids_every_shutdown_forbids_an_operators_too(
    order: dict[str, Any], standing: Callable[[World], dict[str, Any]], reason: Reason
) -> None:
    made = live(WorkerState.IDLE)
    marked(made, **order, **standing(made))
    assert made.of_node(NODE).reason is reason
    assert made.destroyed == []


def test_orders_count_against_the_cycles_cap_of_shutdowns() -> None:
    """For any reason but idle beyond demand (D9)."""
    made = world(max_nodes=9, max_shutdowns_per_cycle=2)
    for number in range(4):
        made.add_record(f"r{number}")
        made.add_node(f"r{number}")
    made.round()
    kills = {
        f"i-r{number}": replace(MARK, incarnation=incarnation_of(f"r{number}"))
        for number in range(4)
    }
    marked(made, kills=kills)
    assert len(made.destroyed) == 2
    reasons = [made.of_node(f"i-r{number}").reason for number in range(4)]
    assert reasons.count(Reason.SHUTDOWN_CAP) == 2


@pytest.mark.parametrize("order", [KILL, DRAIN], ids=["kill", "drain"])
def test_an_order_is_not_about_a_later_node_of_the_same_id(order: dict[str, Any]) -> None:
    """A cloud may use an id again; the order named the node that was there."""
    made = live(WorkerState.IDLE, min_nodes=1)
    earlier = {
        key: {id: replace(mark, incarnation="an-earlier-life") for id, mark in marks.items()}
        for key, marks in order.items()
    }
    marked(made, **earlier)
    assert made.destroyed == []
    assert made.view(NODE).counts
    marked(made, **order)
    pinging(made, WorkerState.IDLE)
    ordered = made.shutdown_order(NODE).reason
    assert look(made, ordered, **earlier) == (Kind.KEEP, Reason.NO_LONGER_WANTED)


# O5: cordon.


@pytest.mark.parametrize(
    "state", [WorkerState.BUSY, WorkerState.IDLE, WorkerState.DOWN, None], ids=str
)
def test_o5_a_cordoned_node_is_kept_whatever_it_says_and_serves_nobody(
    state: WorkerState | None,
) -> None:
    made = marked(live(state), **CORDON)
    pinging(made, state, polls=20)
    assert verdict(made) == (Kind.KEEP, Reason.CORDONED)
    assert not made.view(NODE).counts
    assert NODE in made.history.unwanted, "so that it is told to take no more work"
    assert made.destroyed == []
    measures = made.of_node(NODE).measures
    assert measures is not None
    assert (measures["by"], measures["cause"]) == ("ann", "new image")


def test_o5_a_cordoned_node_that_falls_silent_is_kept_and_counts_for_d9() -> None:
    made = marked(live(WorkerState.BUSY, node_stale_after=600.0, boot_fail_after=600.0), **CORDON)
    for _ in range(40):
        made.advance(60.0)
        made.poll()
        made.plan()
    assert verdict(made) == (Kind.KEEP, Reason.CORDONED)
    assert made.view(NODE).bad
    marked(made, drains={})
    assert verdict(made) == (Kind.SHUTDOWN, Reason.NODE_DOWN), "and then it goes as any other"


def test_o5_a_cordon_stays_on_a_node_whose_tags_were_taken_and_a_drain_does_not() -> None:
    made = unpaired()
    made.round(40, every=120.0)
    mark = replace(CORDONED, incarnation=made.nodes[0].tags.incarnation)
    stripped = replace(made.nodes[0], tags=Tags(pool=POOL))
    made.nodes[0] = stripped
    made.poll()
    marked(made, drains={stripped.id: mark})
    assert made.of_node(stripped.id).reason is Reason.CORDONED
    assert made.destroyed == []
    drain = replace(mark, kept=False)
    marked(made, drains={stripped.id: drain})
    said = asked(nodes._not_drained, stripped, made, drains={stripped.id: drain})
    assert said is None, "who it is is not known"


def test_o5_explain_names_the_cordon_and_what_ends_it() -> None:
    made = marked(live(WorkerState.IDLE), **CORDON)
    shown = explain(made.snapshot(), made.last, made.settings, NODE)
    (rule,) = [one for one in shown.findings if one.rule == "O5"]
    assert rule.status is RuleStatus.BLOCKS
    assert rule.why is not None
    assert "uncordon" in rule.why


# The last look (D2).


def look(made: World, reason: Reason, **flags: Any) -> tuple[Kind, Reason]:
    order = made.shutdown_order(NODE)
    assert order.reason is reason
    found = ShutdownEvidence(made.record("r1"))
    said = confirm_shutdown(order, found, made.snapshot(**flags), made.settings, wanted=True)
    return said.kind, said.reason


@pytest.mark.parametrize("order", [DRAIN, {}], ids=["drained", "beyond-demand"])
def test_o5_a_cordon_calls_off_what_was_ordered_before_it(order: dict[str, Any]) -> None:
    made = marked(live(WorkerState.IDLE), **order)
    pinging(made, WorkerState.IDLE, polls=3)
    reason = made.shutdown_order(NODE).reason
    assert look(made, reason, **CORDON) == (Kind.KEEP, Reason.CORDONED)


def test_o5_a_kill_goes_before_a_cordon() -> None:
    made = marked(live(WorkerState.BUSY), **KILL, **CORDON)
    assert look(made, Reason.KILLED, **KILL, **CORDON) == (Kind.SHUTDOWN, Reason.KILLED)


def test_a_drained_node_that_took_work_again_is_left_alone_at_the_last_look() -> None:
    made = marked(live(WorkerState.IDLE), **DRAIN)
    made.ping("r1", WorkerState.BUSY)
    assert look(made, Reason.DRAINED) == (Kind.KEEP, Reason.NO_LONGER_WANTED)


def test_a_killed_node_goes_also_when_its_record_moved() -> None:
    made = marked(live(WorkerState.IDLE), **KILL)
    made.ping("r1", WorkerState.BUSY)
    assert look(made, Reason.KILLED) == (Kind.SHUTDOWN, Reason.KILLED)


@pytest.mark.parametrize("order", [KILL, DRAIN], ids=["kill", "drain"])
def test_an_order_that_was_undone_is_left_at_the_last_look(order: dict[str, Any]) -> None:
    made = marked(live(WorkerState.IDLE), **order)
    reason = made.shutdown_order(NODE).reason
    assert look(made, reason, kills={}, drains={}) == (Kind.KEEP, Reason.NO_LONGER_WANTED)


@pytest.mark.parametrize("order", [KILL, DRAIN], ids=["kill", "drain"])
@cases(
    ("flags", "reason"),
    {
        "held": ({"holds": frozenset({"r1"})}, Reason.HELD),
        "paused": (PAUSED, Reason.PAUSED),
        "no-lease": ({"lease": False}, Reason.NO_LEASE),
    },
)
def test_what_came_after_the_order_stops_it_at_the_last_look(
    order: dict[str, Any], flags: dict[str, Any], reason: Reason
) -> None:
    made = marked(live(WorkerState.IDLE), **order)
    ordered = made.shutdown_order(NODE).reason
    assert look(made, ordered, **flags) == (Kind.KEEP, reason)


# O4: pause.


def test_o4_a_paused_pool_boots_destroys_and_frees_nothing_and_says_who_paused_it() -> None:
    made = world(min_nodes=3, max_nodes=5, sizes=(SMALL,))
    made.add_record("dead", quiet=10_000.0)
    made.add_record("r1", quiet=100.0)
    made.add_node("r1", state=CloudState.STOPPED)
    made.flags |= PAUSED | {"slots": 10}
    made.settle()
    assert (made.cleaned, made.destroyed, made.booted) == ([], [], [])
    kept = made.of_record("dead")
    assert (kept.kind, kept.reason) == (Kind.KEEP, Reason.PAUSED)
    assert kept.measures is not None
    assert (kept.measures["by"], kept.measures["cause"]) == ("ann", "new image")
    assert {reason for _, reason in made.wants.refused} == {Reason.PAUSED}
    assert made.last.pool_marks == {PAUSE: MARK}

    del made.flags["pool_marks"]
    made.round()
    assert (made.cleaned, made.destroyed) == (["dead"], [NODE])
    assert made.booted == ["small"] * 3


def test_o4_a_pause_judges_on_so_that_nothing_starts_anew_after_it() -> None:
    """Absence goes on to be counted, and verdicts of their own are told."""
    made = world()
    made.add_record("young", quiet=100.0)
    made.flags |= PAUSED
    made.settle()
    assert made.of_record("young").reason is Reason.WITHIN_WINDOW
    made.add_record("dead", quiet=10_000.0)
    made.settle()
    del made.flags["pool_marks"]
    made.plan()
    assert made.cleaned == ["dead"]


@cases(
    ("state", "flags", "rule", "status"),
    {
        "killed": (WorkerState.BUSY, KILL, "O2", RuleStatus.CALLS),
        "drained": (WorkerState.IDLE, DRAIN, "O1", RuleStatus.CALLS),
        "draining": (WorkerState.BUSY, DRAIN, "O1", RuleStatus.BLOCKS),
        "paused": (WorkerState.IDLE, KILL | PAUSED, "O4", RuleStatus.BLOCKS),
    },
)
def test_explain_tells_whose_order_it_is_and_agrees_with_the_verdict(
    state: WorkerState, flags: dict[str, Any], rule: str, status: RuleStatus
) -> None:
    made = marked(live(state), **flags)
    told = explain(made.snapshot(), made.last, made.settings, NODE)
    asked = [one for one in told.findings if one.status is not RuleStatus.NOT_ASKED]
    (found,) = [one for one in asked if one.rule == rule]
    assert found.status is status
    assert (found.measures or {}).get("by", "ann") == "ann"
    blocked = [one.rule for one in told.blocks]
    assert blocked == ([rule] if status is RuleStatus.BLOCKS else [])
    assert told.verdict == made.of_node(NODE)


def test_marks_tell_for_how_long_they_have_stood() -> None:
    assert Mark("ann", 100.0).measures(130.0) == {"by": "ann", "age_s": 30.0}


@cases(
    ("flags", "check"),
    {
        "kill": (KILL, nodes._not_killed),
        "cordon": (CORDON, nodes._not_cordoned),
        "drain": (DRAIN, nodes._not_drained),
    },
)
def test_no_order_of_an_operator_touches_a_node_without_a_tag_d11_o2(
    flags: dict[str, dict[str, Mark]], check: RuleCheck[Ask]
) -> None:
    """A mark on one names no life, as the node's tags name none."""
    made = live(WorkerState.IDLE)
    (ours,) = made.nodes
    assert asked(check, ours, made, **flags) is not None
    bare = {name: {NODE: replace(marks[NODE], incarnation=None)} for name, marks in flags.items()}
    assert asked(check, replace(ours, tags=NO_TAGS), made, **bare) is None
