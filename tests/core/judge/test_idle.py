"""What an idle word is worth: it must be news, and from after the node was wanted no more (D12)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from nodemanager.core.judge import idle
from nodemanager.core.model.reasons import Kind, Reason
from nodemanager.core.model.world import Job, WorkerState
from nodemanager.core.plan.destroy import ShutdownEvidence, confirm_shutdown
from tests.cases import cases
from tests.core.build import SMALL, Flight, World, world
from tests.core.nodes import pinging

NODES = 8
EVERY = 30.0


def waiting(count: int) -> dict[str, Any]:
    return {"demand": (Job("j", count=count),) if count else ()}


def idle_pool(jobs: int = NODES, **settings: Any) -> World:
    """Eight nodes that have said often that they are idle, for so many jobs that wait."""
    made = world(max_nodes=NODES, sizes=(SMALL,), **settings)
    for number in range(NODES):
        made.add_record(f"r{number}", quiet=100.0)
        made.add_node(f"r{number}")
    made.flags |= waiting(jobs)
    pinging(made, WorkerState.IDLE, polls=4, every=EVERY)
    assert made.destroyed == []
    return made


def demand_falls(made: World) -> None:
    made.flags |= waiting(0)
    made.plan()


def reasons(made: World) -> set[Reason]:
    return {made.of_node(f"i-r{number}").reason for number in range(NODES)}


def test_the_jobs_that_demand_fell_by_may_be_on_the_very_nodes_that_said_idle_d12() -> None:
    """Eight idle nodes for eight jobs; they begin, demand is gone, and no node has pinged (N1)."""
    made = idle_pool()
    demand_falls(made)
    assert (made.destroyed, reasons(made)) == ([], {Reason.IDLE_WORD_OLD})
    for _ in range(5):
        made.advance(EVERY)
        made.poll()
        made.plan()
        assert made.destroyed == []
    pinging(made, WorkerState.BUSY)
    assert (made.destroyed, reasons(made)) == ([], {Reason.BUSY})


def test_a_word_from_before_demand_fell_that_is_listed_after_it_is_too_old_d12() -> None:
    """It counts when it was said, not when it was seen."""
    made = idle_pool()
    made.advance(EVERY)
    for one in list(made.records):
        made.ping(one.uuid, WorkerState.IDLE)
    made.advance(1.0)
    demand_falls(made)
    made.poll()
    made.plan()
    assert (made.destroyed, reasons(made)) == ([], {Reason.IDLE_WORD_OLD})


def test_a_node_that_is_wanted_again_in_between_starts_anew_d12() -> None:
    made = idle_pool()
    demand_falls(made)
    made.flags |= waiting(NODES)
    pinging(made, WorkerState.IDLE)
    demand_falls(made)
    assert (made.destroyed, reasons(made)) == ([], {Reason.IDLE_WORD_OLD})


def test_a_node_that_a_cycle_which_is_aborted_wants_again_starts_anew_d12_l4() -> None:
    """It may have begun the very job since its newest word, and no plan saw that job wait."""
    made = idle_pool()
    demand_falls(made)
    made.advance(EVERY)
    for one in list(made.records):
        made.ping(one.uuid, WorkerState.IDLE)
    nodes = list(made.nodes)
    made.nodes += nodes[:2]
    made.poll_cloud()
    made.flags |= waiting(NODES)
    made.plan()
    assert made.last.aborted is not None
    made.nodes[:] = nodes
    made.poll()
    demand_falls(made)
    assert (made.destroyed, reasons(made)) == ([], {Reason.IDLE_WORD_OLD})
    pinging(made, WorkerState.IDLE)
    assert len(made.destroyed) == NODES


def one_over_max(made: World) -> None:
    """All eight are wanted, and one is more than there may be; then all say that they are idle."""
    made.flags |= {"demand": tuple(Job(f"j{number}") for number in range(NODES))}
    made.with_settings(max_nodes=NODES - 1)
    made.plan()
    made.advance(EVERY)
    for one in list(made.records):
        made.ping(one.uuid, WorkerState.IDLE)
    made.poll()


def test_one_over_max_nodes_goes_with_a_word_from_after_that_d12() -> None:
    made = idle_pool()
    one_over_max(made)
    made.plan()
    assert len(made.destroyed) == 1


def test_one_that_was_over_max_nodes_and_is_beyond_demand_now_starts_anew_d12() -> None:
    """It may have the very job that demand fell by."""
    made = idle_pool()
    one_over_max(made)
    made.with_settings(max_nodes=NODES)
    made.flags |= waiting(NODES - 1)
    made.plan()
    assert (made.destroyed, reasons(made)) == ([], {Reason.NEEDED, Reason.IDLE_WORD_OLD})
    pinging(made, WorkerState.IDLE)
    assert len(made.destroyed) == 1


def test_those_beyond_demand_and_those_over_max_nodes_do_not_change_places_d12() -> None:
    """Else each starts anew in turn, and none ever goes."""
    made = idle_pool()
    made.flags |= {"demand": tuple(Job(f"j{number}") for number in range(4))}
    made.with_settings(max_nodes=1)
    for done in range(1, NODES + 1):
        made.advance(EVERY)
        for number in range(NODES):
            made.ping(f"r{number}", WorkerState.IDLE if number < done else WorkerState.BUSY)
        made.poll()
        made.plan()
    for _ in range(5):
        made.advance(EVERY)
        made.plan()
        pinging(made, WorkerState.IDLE)
    assert len(made.destroyed) == NODES - 1


def test_a_word_is_news_in_the_first_listing_that_shows_it_alone_d12() -> None:
    """A node whose pings stopped may have been given work since."""
    made = idle_pool(jobs=0, consecutive_idle_count=9, min_nodes=0)
    made.with_settings(consecutive_idle_count=1)
    made.advance(EVERY)
    made.poll_records()
    made.plan()
    assert (made.destroyed, reasons(made)) == ([], {Reason.IDLE_WORD_OLD})
    pinging(made, WorkerState.IDLE)
    assert len(made.destroyed) == NODES


def test_a_word_is_no_news_where_no_record_poll_has_come_for_long_d12() -> None:
    made = idle_pool(jobs=0, shutdown_windows=(1e9, 1.0))
    made.advance(EVERY)
    for one in list(made.records):
        made.ping(one.uuid, WorkerState.IDLE)
    made.poll_records()
    made.advance(125.0)
    made.poll_cloud()
    made.with_settings(shutdown_windows=())
    made.plan()
    assert (made.destroyed, reasons(made)) == ([], {Reason.IDLE_WORD_OLD})


def test_who_is_kept_by_a_window_goes_as_soon_as_it_opens_d12_d1() -> None:
    """Nobody has wanted it since before its newest word: that is all that is asked."""
    made = idle_pool(jobs=0, shutdown_windows=(1e9, 1.0))
    assert reasons(made) == {Reason.WINDOW_CLOSED}
    made.with_settings(shutdown_windows=())
    made.plan()
    assert len(made.destroyed) == NODES


@cases(
    ("jobs", "settings"),
    {
        "for-demand": (2, {"max_nodes": 8}),
        "as-one-more-than-demand-wants": (1, {"max_nodes": 8}),
        "as-one-over-max_nodes": (3, {"max_nodes": 2}),
        "as-one-over-min_nodes": (0, {"max_nodes": 8, "min_nodes": 1}),
    },
)
def test_no_idle_node_goes_for_a_claim_that_no_node_has_come_of_d1(
    jobs: int, settings: dict[str, Any]
) -> None:
    """Its node may never come, and the idle one would have the next job."""
    made = world(sizes=(SMALL,), **settings)
    made.add_record("r0", quiet=100.0)
    made.add_node("r0")
    made.flags |= {"demand": tuple(Job(f"j{number}") for number in range(jobs))}
    for number in range(1, 3):
        made.add_record(f"r{number}", pinged=False)
    for _ in range(4):
        made.advance(EVERY)
        made.ping("r0", WorkerState.IDLE)
        made.poll()
        made.plan()
    assert (made.destroyed, made.booted) == ([], [])
    assert made.of_node("i-r0").reason is Reason.NEEDED


def test_while_the_probe_fails_no_idle_node_goes_d12_d8() -> None:
    """The pings' door is down and the database is up."""
    made = idle_pool()
    demand_falls(made)
    made.advance(EVERY)
    for one in list(made.records):
        made.ping(one.uuid, WorkerState.IDLE)
    made.poll_records(answers=False)
    made.poll_cloud()
    made.plan()
    assert (made.destroyed, reasons(made)) == ([], {Reason.NOT_IDLE_LONG})


def test_where_the_clock_was_just_set_no_stamp_says_what_came_first_d12_t1() -> None:
    made = idle_pool()
    demand_falls(made)
    made.store_step = 900.0
    pinging(made, WorkerState.IDLE)
    assert (made.destroyed, reasons(made)) == ([], {Reason.CLOCK_UNKNOWN})
    pinging(made, WorkerState.IDLE, polls=2)
    assert len(made.destroyed) == NODES


def test_a_word_from_the_future_says_not_whether_it_came_before_demand_fell_d12_t1() -> None:
    """The store's clock is measured five minutes slow, by readings that agree (1005095100)."""
    made = idle_pool()
    made.store_step = -300.0

    def say(round_s: float) -> None:
        made.advance(round_s)
        for one in list(made.records):
            made.ping(one.uuid, WorkerState.IDLE)
            made.change(one.uuid, last_ping_at=made.store_now + 300.0)
        made.poll()

    for _ in range(4):
        say(EVERY)
        made.plan()
    say(EVERY)
    made.advance(5.0)
    demand_falls(made)
    assert (made.destroyed, reasons(made)) == ([], {Reason.CLOCK_UNKNOWN})


def test_without_a_demand_poll_the_plan_that_finds_it_too_many_counts_d12() -> None:
    made = idle_pool(jobs=0, min_nodes=NODES)
    assert reasons(made) == {Reason.NEEDED}
    made.with_settings(min_nodes=NODES - 1)
    made.plan()
    assert made.destroyed == []
    pinging(made, WorkerState.IDLE)
    assert len(made.destroyed) == 1


def test_a_restart_hears_each_node_again_first_d12_r4() -> None:
    made = idle_pool(jobs=0, min_nodes=NODES)
    made.restart()
    made.with_settings(min_nodes=0, consecutive_idle_count=1)
    made.round()
    assert made.destroyed == []
    pinging(made, WorkerState.IDLE)
    assert len(made.destroyed) == NODES


# The last look (D2).


@cases(
    ("fields", "stays"),
    {
        "nothing-may-hit-it": ({}, False),
        "a-late-destroy": ({"late_destroys": frozenset({"i-r1"})}, True),
        "of-another-node": ({"late_destroys": frozenset({"i-r2"})}, False),
        "a-lost-journal-may-have-one": ({"unknown_destroys": True}, True),
        "this-run-drained-it": ({"unknown_destroys": True, "drain_orders": {"r1": "7"}}, False),
        "it-drained-another": ({"unknown_destroys": True, "drain_orders": {"r2": "7"}}, True),
    },
)
def test_a_drained_node_stays_so_only_while_a_destroy_may_hit_it_d12(
    fields: dict[str, Any], stays: bool
) -> None:
    """Else a node that is wanted again would never work again."""
    made = world()
    made.add_record("r1", drain="7")
    made.add_node("r1")
    made.round()
    record, snapshot = made.record("r1"), made.snapshot(**fields)
    assert idle.stays_drained("i-r1", record, snapshot) is stays
    assert not idle.stays_drained("i-r1", replace(record, drain=None), snapshot)


def at_last_look(made: World, **flags: Any) -> tuple[Kind, Reason]:
    order = made.shutdown_order("i-r0")
    found = ShutdownEvidence(made.record("r0"))
    said = confirm_shutdown(order, found, made.snapshot(**flags), made.settings, wanted=False)
    return said.kind, said.reason


def ordered() -> World:
    made = idle_pool()
    demand_falls(made)
    pinging(made, WorkerState.IDLE)
    return made


def wanted_since(made: World) -> None:
    ordered_by = made.last
    made.flags |= waiting(NODES)
    made.plan()
    made.last = ordered_by


def planned_since(made: World, jobs: int = 0) -> None:
    """A plan comes between the order and its last look; all eight are on their way."""
    ordered_by = made.last
    made.flags |= waiting(jobs)
    made.plan(node_flights={f"i-r{n}": Flight("shutdown:idle", made.now) for n in range(NODES)})
    made.last = ordered_by


@cases("planned", {"at-once": False, "after-a-plan-that-lacked-one": True})
def test_demand_that_falls_while_one_over_max_nodes_is_on_its_way_is_news_d12_d2(
    planned: bool,
) -> None:
    made = idle_pool()
    one_over_max(made)
    made.plan()
    (node_id,) = made.destroyed
    order = made.shutdown_order(node_id)
    flights = {node_id: Flight("shutdown:idle", made.now)}
    if planned:
        made.plan(node_flights=flights)
    made.flags |= waiting(NODES - 1)
    made.plan(node_flights=flights)
    found = ShutdownEvidence(made.record(node_id.removeprefix("i-")))
    snapshot = made.snapshot(node_flights=flights)
    said = confirm_shutdown(order, found, snapshot, made.settings, wanted=False)
    assert (said.kind, said.reason) == (Kind.KEEP, Reason.IDLE_WORD_OLD)


def test_one_over_max_nodes_goes_though_demand_wants_more_than_may_be_d2() -> None:
    """A plan comes between the order and its last look: what lacks then may not come back."""
    made = idle_pool()
    one_over_max(made)
    made.flags |= {"demand": tuple(Job(f"j{number}") for number in range(NODES + 3))}
    made.plan()
    (node_id,) = made.destroyed
    order = made.shutdown_order(node_id)
    flights = {node_id: Flight("shutdown:idle", made.now)}
    wants = made.plan(node_flights=flights).wants
    assert wants is not None
    found = ShutdownEvidence(made.record(node_id.removeprefix("i-")))
    snapshot = made.snapshot(node_flights=flights)
    wanted = order.size in wants.unmet
    assert confirm_shutdown(order, found, snapshot, made.settings, wanted=wanted).kind is (
        Kind.SHUTDOWN
    )


def test_one_on_its_way_out_stays_where_max_nodes_leaves_room_again_d2() -> None:
    made = idle_pool()
    one_over_max(made)
    made.plan()
    (node_id,) = made.destroyed
    made.with_settings(max_nodes=NODES)
    wants = made.plan(node_flights={node_id: Flight("shutdown:idle", made.now)}).wants
    assert wants is not None
    assert wants.unmet == {"small"}


def test_while_one_over_max_nodes_is_on_its_way_out_no_other_goes_for_it_d1() -> None:
    made = idle_pool()
    one_over_max(made)
    made.plan()
    (node_id,) = made.destroyed
    made.flags |= {"node_flights": {node_id: Flight("shutdown:idle", made.now)}}
    pinging(made, WorkerState.IDLE, polls=3)
    assert made.destroyed == []
    assert reasons(made) == {Reason.NEEDED, Reason.SHUTTING_DOWN}


def listed_without_a_ping(made: World) -> None:
    made.advance(EVERY)
    made.poll_records()


def stamped_before_all_that(made: World) -> None:
    made.change("r0", last_ping_at=made.ago(9 * EVERY))


@cases(
    ("happens", "expected"),
    {
        "nothing-since": (lambda made: None, (Kind.SHUTDOWN, Reason.IDLE_BEYOND_DEMAND)),
        "one-more-idle-word": (
            lambda made: made.ping("r0", WorkerState.IDLE),
            (Kind.SHUTDOWN, Reason.IDLE_BEYOND_DEMAND),
        ),
        "busy-since": (
            lambda made: made.ping("r0", WorkerState.BUSY),
            (Kind.KEEP, Reason.NO_LONGER_WANTED),
        ),
        "a-plan-since": (planned_since, (Kind.SHUTDOWN, Reason.IDLE_BEYOND_DEMAND)),
        "a-plan-since-that-lacks-one": (
            lambda made: planned_since(made, jobs=1),
            (Kind.KEEP, Reason.NO_LONGER_WANTED),
        ),
        "wanted-again": (wanted_since, (Kind.KEEP, Reason.NO_LONGER_WANTED)),
        "no-news-any-more": (listed_without_a_ping, (Kind.KEEP, Reason.IDLE_WORD_OLD)),
        "an-older-word": (stamped_before_all_that, (Kind.KEEP, Reason.IDLE_WORD_OLD)),
    },
)
def test_the_word_is_held_against_the_same_rule_right_before_the_destroy_d12_d2(
    happens: Callable[[World], None], expected: tuple[Kind, Reason]
) -> None:
    made = ordered()
    happens(made)
    assert at_last_look(made) == expected
