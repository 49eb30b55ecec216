"""The replacement of outdated nodes: which goes, when, and what forbids it (D15)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from nodemanager.core.model.annotations import PAUSE, ROTATE_PAUSE, Mark
from nodemanager.core.model.reasons import Kind, Reason
from nodemanager.core.model.world import CloudState, Job, Tags, WorkerState
from nodemanager.core.observe.snapshot import Limits
from nodemanager.core.plan.destroy import ShutdownEvidence, confirm_shutdown
from nodemanager.core.plan.rotation import ROTATING, Rotation
from tests.cases import cases
from tests.core.build import LARGE, POOL, SMALL, Flight, World, incarnation_of, world
from tests.core.nodes import pinging

OLD, NEW = "ami-1", "ami-2"
JOB = Job("j")


def pool(
    count: int = 3, *, image: str | None = OLD, spare: int | None = None, **more: Any
) -> World:
    """So many idle nodes of one size, all of them spare ones, when the wanted image changes."""
    sizes = (replace(SMALL, spare_nodes=count if spare is None else spare), LARGE)
    made = world(**{"max_nodes": 9, "sizes": sizes, **more})
    made.flags["demand"] = ()
    for number in range(1, count + 1):
        add(made, f"r{number}", image=image)
    wants(made, NEW)
    return made


def add(made: World, name: str, *, image: str | None, age: float = 1e4, **fields: Any) -> None:
    made.add_record(name, slot=int(name[1:]))
    tags = Tags(POOL, name, incarnation_of(name), "small")
    made.add_node(name, **{"tags": tags, "image": image, "age": age, **fields})


def wants(made: World, image: str | None) -> None:
    made.history = replace(made.history, image=image)


def claimed_as(made: World, name: str, **fields: Any) -> None:
    claim = made.record(name).claim
    assert claim is not None
    made.change(name, claim=replace(claim, size="small", **fields))


def rotation(made: World) -> Rotation | None:
    return made.wants.rotations.sizes.get("small")


def waits(made: World) -> Reason | None:
    found = rotation(made)
    assert found is not None
    return found.waits


def replaced(made: World) -> list[tuple[str, Reason]]:
    return [(order.node_id, order.reason) for order in made.last.shutdowns]


def idle(made: World, polls: int = 4) -> World:
    pinging(made, WorkerState.IDLE, polls)
    return made


def each(made: World, **states: WorkerState) -> World:
    """Four pings of each node, with these states."""
    for _ in range(4):
        made.advance(30.0)
        for one in list(made.records):
            made.ping(one.uuid, states.get(one.uuid, WorkerState.IDLE))
        made.poll()
        made.plan()
    return made


# What is outdated.


def test_idle_nodes_on_another_image_are_replaced_one_at_a_time_d15() -> None:
    made = idle(pool())
    assert replaced(made) == [("i-r1", Reason.OTHER_IMAGE)]
    assert made.shutdown_order("i-r1").measures == {"old": OLD, "new": NEW}
    assert rotation(made) == Rotation(3, 3, {"other_image": 3}, node="i-r1")


@cases(
    ("listed", "wanted"),
    {
        "the-same": (NEW, NEW),
        "the-node's-is-unknown": (None, NEW),
        "the-wanted-is-unknown": (OLD, None),
    },
)
def test_what_is_the_same_or_unknown_is_not_replaced_d15(
    listed: str | None, wanted: str | None
) -> None:
    made = pool(image=listed)
    wants(made, wanted)
    idle(made)
    assert (replaced(made), rotation(made)) == ([], None)


def test_a_node_of_a_former_type_of_its_size_is_replaced_but_for_other_capitals_d15() -> None:
    made = pool(image=NEW)
    made.change_node("i-r2", size="T.Small")
    assert rotation(idle(made)) is None
    made.change_node("i-r2", size="t.former")
    assert replaced(idle(made)) == [("i-r2", Reason.OTHER_TYPE)]


@pytest.mark.parametrize(("age", "goes"), [(86_000.0, False), (87_000.0, True)])
def test_a_node_older_than_max_node_age_is_replaced_d15(age: float, goes: bool) -> None:
    made = pool(1, image=NEW, spare=2, max_node_age=86_400.0)
    add(made, "r2", image=NEW, age=age)
    idle(made)
    assert replaced(made) == ([("i-r2", Reason.TOO_OLD)] if goes else [])


# What is never replaced.


@cases(
    "change",
    {
        "busy": lambda made: each(made, r1=WorkerState.BUSY),
        "held": lambda made: made.flags.update(holds=frozenset({"i-r1"})),
        "untagged": lambda made: made.change_node("i-r1", tags=Tags()),
        "unlisted": lambda made: made.drop_node("i-r1"),
        "unpaired": lambda made: made.records.pop(0),
        "unreadable": lambda made: made.change_node("i-r1", problems=("size",)),
        "of-unknown-age": lambda made: made.change_node("i-r1", created_at=None),
        "drained-by-an-operator": lambda made: made.flags.update(
            drains={"i-r1": Mark("ann", 0.0, "", incarnation_of("r1"))}
        ),
    },
)
def test_only_an_idle_node_is_replaced_that_nothing_keeps_d15(
    change: Callable[[World], Any],
) -> None:
    made = pool(2, spare=2)
    made.change_node("i-r2", image=NEW)
    change(made)
    if not (made.plans and any(one.verdict.reason is Reason.BUSY for one in made.last.views)):
        idle(made)
    assert not any(reason is Reason.OTHER_IMAGE for _, reason in replaced(made))


def test_a_node_that_the_queue_wants_is_not_replaced_d15() -> None:
    made = pool(2)
    made.flags["demand"] = (JOB, JOB)
    idle(made)
    assert (replaced(made), waits(made)) == ([], Reason.REFILL_AWAITED)
    made.with_settings(sizes=(SMALL, LARGE), min_nodes=2)
    idle(made)
    assert (replaced(made), waits(made)) == ([], Reason.NO_IDLE_NODE)
    made.flags["demand"] = (JOB,)
    idle(made)
    assert [reason for _, reason in replaced(made)] == [Reason.OTHER_IMAGE]


def test_a_node_that_nobody_wants_goes_without_a_replacement_d15() -> None:
    made = idle(pool(3, spare=2))
    assert replaced(made) == [("i-r1", Reason.IDLE_BEYOND_DEMAND)]


def test_none_is_replaced_in_the_plan_that_lets_another_go_d15() -> None:
    made = idle(pool(3, spare=2))
    assert waits(made) is Reason.REFILL_AWAITED
    made.drop_node("i-r1")
    made.records.pop(0)
    idle(made, 2)
    assert replaced(made) == [("i-r2", Reason.OTHER_IMAGE)]


# One at a time.


@cases("held", {"free": False, "held": True})
def test_the_next_waits_until_the_first_is_gone_and_refilled_d15(held: bool) -> None:
    made = idle(pool())
    made.flags["node_flights"] = {"i-r1": Flight(ROTATING, made.now)}
    idle(made, 2)
    assert (replaced(made), rotation(made)) == ([], Rotation(3, 3, {"other_image": 3}, "i-r1"))
    assert "i-r1" in made.history.unwanted
    made.flags["node_flights"] = {}
    made.drop_node("i-r1")
    made.records.pop(0)
    idle(made, 2)
    assert (replaced(made), waits(made), made.booted) == ([], Reason.REFILL_AWAITED, ["small"])
    add(made, "r4", image=NEW, age=30.0)
    made.change("r4", last_ping_at=None, first_ping_at=None, held=held)
    made.poll()
    made.plan()
    assert (replaced(made), waits(made), made.booted) == ([], Reason.REFILL_AWAITED, [])
    idle(made)
    assert replaced(made) == [("i-r2", Reason.OTHER_IMAGE)]


@cases(
    "flags",
    {
        "another-goes": {"node_flights": {"i-r2": Flight("shutdown:idle", 0.0)}},
        "one-unlisted": {"node_flights": {"i-r9": Flight("shutdown:bad", 0.0)}},
        "a-destroy-may-still-take-effect": {"late_destroys": frozenset({"i-r2"})},
        "one-comes": {"boots_unclaimed": ("small",)},
    },
)
def test_while_another_goes_or_comes_none_is_replaced_d15(flags: dict[str, Any]) -> None:
    made = pool()
    made.flags |= flags
    assert (replaced(idle(made)), waits(made)) == ([], Reason.REFILL_AWAITED)


@cases(
    ("more", "flags"),
    {
        "a-late-destroy-of-one-gone": ({}, {"late_destroys": frozenset({"i-r9"})}),
        "max-nodes-the-one-that-goes-makes-room": ({"max_nodes": 3, "spare": 5}, {}),
        "quota-and-none-is-lacking": ({}, {"limits": Limits(quota=3, quota_at=9e9)}),
        "min-nodes": ({"count": 2, "min_nodes": 1}, {"boots_unclaimed": ("large",)}),
    },
)
def test_what_takes_no_room_of_the_next_holds_up_nothing_d15(
    more: dict[str, Any], flags: dict[str, Any]
) -> None:
    """One of another size that comes, and that min_nodes can do without, is no matter either."""
    made = pool(**more)
    made.flags |= flags
    assert replaced(idle(made)) == [("i-r1", Reason.OTHER_IMAGE)]


@cases(
    ("flags", "reason"),
    {
        "rests": ({"limits": Limits(resting={"small": 9e9})}, Reason.SIZE_RESTS),
        "throttled": ({"limits": Limits(throttled_until=9e9)}, Reason.THROTTLED),
        "paused": ({"pool_marks": {PAUSE: Mark("ann", 0.0)}}, Reason.PAUSED),
    },
)
def test_while_none_could_be_booted_none_is_replaced_d15(
    flags: dict[str, Any], reason: Reason
) -> None:
    made = pool()
    made.flags |= flags
    assert (replaced(idle(made)), waits(made)) == ([], reason)


FULL = Limits(quota=3, quota_at=9e9)
"""The account has no room for a fourth node, and that is not tried again soon."""


@cases(
    ("wanted", "flags", "reason"),
    {
        "quota-spare": ({"spare": 4}, {"limits": FULL}, Reason.AT_QUOTA),
        "quota": ({"spare": 0, "min_nodes": 4}, {"limits": FULL}, Reason.AT_QUOTA),
        "slots": ({"spare": 4}, {"slots": 3}, Reason.NO_FREE_SLOT),
        "price": ({"spare": 0, "min_nodes": 3, "max_total_price": 0.2}, {}, Reason.AT_MAX_PRICE),
    },
)
def test_while_the_place_of_the_one_before_is_empty_none_is_replaced_d15(
    wanted: dict[str, Any], flags: dict[str, Any], reason: Reason
) -> None:
    made = pool(**wanted)
    made.flags |= flags
    assert (replaced(idle(made)), waits(made)) == ([], reason)


@cases(("spare", "goes"), {"for-min-nodes": (1, False), "not": (2, True)})
def test_none_goes_whose_place_min_nodes_would_fill_with_one_too_dear_d15(
    spare: int, goes: bool
) -> None:
    """A spare node of a size has its next in that size; min_nodes boots no preemptible one."""
    made = pool(2, min_nodes=2, max_total_price=0.1)
    spot = replace(SMALL, price=0.05, preemptible=True, spare_nodes=spare)
    made.with_settings(sizes=(spot, replace(LARGE, price=0.1)))
    expected = ([("i-r1", Reason.OTHER_IMAGE)], None) if goes else ([], Reason.AT_MAX_PRICE)
    assert (replaced(idle(made)), waits(made)) == expected


def test_a_place_that_the_quota_refuses_is_waited_for_by_all_sizes_d15() -> None:
    made = pool()
    small, large = replace(SMALL, spare_nodes=3), replace(LARGE, spare_nodes=1)
    made.with_settings(sizes=(small, large))
    made.flags["limits"] = FULL
    assert (replaced(idle(made)), waits(made)) == ([], Reason.AT_QUOTA)


def test_a_place_that_any_size_may_fill_is_waited_for_by_all_d15() -> None:
    """min_nodes is filled with the cheapest size, of which the account has no room for one more."""
    made = pool(2, min_nodes=3, spare=0)
    made.with_settings(sizes=(replace(SMALL, name="other", price=0.01), SMALL))
    made.flags["limits"] = Limits(resting={"other": 9e9, "small": 9e9})
    assert (replaced(idle(made)), waits(made)) == ([], Reason.SIZE_RESTS)


@cases(
    ("min_nodes", "flags", "keeps"),
    {
        "one-comes": (3, {"boots_unclaimed": ("large",)}, 0),
        "and-none-more-is-needed": (2, {"boots_unclaimed": ("large",)}, 0),
        "one-is-booted-now": (3, {}, 1),
    },
)
def test_while_min_nodes_counts_on_one_of_another_size_none_is_replaced_d15(
    min_nodes: int, flags: dict[str, Any], keeps: int
) -> None:
    """It may never come: then each turn would leave one node fewer."""
    made = pool(2, min_nodes=min_nodes)
    made.with_settings(sizes=(replace(SMALL, spare_nodes=2), replace(LARGE, spare_nodes=keeps)))
    made.flags |= flags
    assert (replaced(idle(made)), waits(made)) == ([], Reason.REFILL_AWAITED)


def test_each_size_has_a_turn_of_its_own_d15() -> None:
    made = pool(1)
    made.with_settings(sizes=(replace(SMALL, spare_nodes=1), replace(LARGE, spare_nodes=1)))
    made.add_record("r2")
    tags = Tags(POOL, "r2", incarnation_of("r2"), "large")
    made.add_node("r2", tags=tags, size=LARGE.instance_type, image=OLD)
    assert sorted(replaced(idle(made))) == [
        ("i-r1", Reason.OTHER_IMAGE),
        ("i-r2", Reason.OTHER_IMAGE),
    ]


def test_the_cap_on_shutdowns_holds_for_replacements_too_d15_d9() -> None:
    made = pool(max_shutdowns_per_cycle=1)
    made.flags["destroyed_lately"] = 1
    idle(made)
    assert replaced(made) == []
    assert made.of_node("i-r1").reason is Reason.SHUTDOWN_CAP


# In vain.


@cases(
    ("claimed", "listed"),
    {
        "image": ({"image": NEW}, {"image": OLD}),
        "type": ({"instance_type": "t.small"}, {"image": NEW, "size": "t.other"}),
    },
)
def test_a_replacement_that_is_as_outdated_stops_the_rotation_of_its_size_d15(
    claimed: dict[str, str], listed: dict[str, str]
) -> None:
    made = pool()
    claimed_as(made, "r3", **claimed)
    made.change_node("i-r3", **listed)
    idle(made)
    assert (replaced(made), waits(made)) == ([], Reason.ROTATION_STALLED)
    found = rotation(made)
    assert found is not None
    assert found.at == "i-r3"


def test_one_that_was_booted_for_an_earlier_image_stops_nothing_d15() -> None:
    made = pool()
    claimed_as(made, "r3", image=OLD)
    assert replaced(idle(made)) == [("i-r1", Reason.OTHER_IMAGE)]


# An operator, and the last look.


def test_a_paused_rotation_replaces_nothing_and_what_goes_goes_on_o6() -> None:
    made = pool()
    made.flags["pool_marks"] = {ROTATE_PAUSE: Mark("ann", 0.0, "bad image")}
    idle(made)
    assert (replaced(made), waits(made)) == ([], Reason.ROTATION_PAUSED)
    made.flags["pool_marks"] = {}
    assert replaced(idle(made, 2)) == [("i-r1", Reason.OTHER_IMAGE)]


@cases(
    ("change", "kept"),
    {
        "nothing-changed": (lambda made: None, None),
        "paused": (
            lambda made: made.flags.update(pool_marks={ROTATE_PAUSE: Mark("ann", 0.0)}),
            Reason.ROTATION_PAUSED,
        ),
        "image-is-back": (lambda made: wants(made, OLD), Reason.NO_LONGER_WANTED),
        "busy": (lambda made: made.ping("r1", WorkerState.BUSY), Reason.NO_LONGER_WANTED),
        "wanted": (lambda made: made.flags.update(demand=(JOB,) * 4), Reason.NO_LONGER_WANTED),
        "held": (lambda made: made.flags.update(holds=frozenset({"i-r1"})), Reason.HELD),
    },
)
def test_right_before_the_destroy_it_is_asked_again_d15_d2(
    change: Callable[[World], Any], kept: Reason | None
) -> None:
    made = idle(pool())
    order = made.shutdown_order("i-r1")
    change(made)
    made.flags["node_flights"] = {"i-r1": Flight(ROTATING, made.now)}
    made.plan()
    snapshot = replace(made.snapshot(), history=made.last.history)
    found = ShutdownEvidence(made.record("r1"))
    verdict = confirm_shutdown(order, found, snapshot, made.settings, wanted=False)
    assert (verdict.kind, verdict.reason) == (
        (Kind.SHUTDOWN, Reason.OTHER_IMAGE) if kept is None else (Kind.KEEP, kept)
    )


def test_stopped_nodes_are_not_replaced_but_end_as_such_d15() -> None:
    made = pool(1)
    made.change_node("i-r1", state=CloudState.STOPPED)
    idle(made)
    assert replaced(made) == [("i-r1", Reason.NODE_STOPPED)]
