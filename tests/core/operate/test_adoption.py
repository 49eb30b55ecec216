"""Which nodes may be adopted, with what tags, and what forbids it at the last look (D11, P1)."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from nodemanager.core.execute.adopt import confirm_adoption, order_adoption
from nodemanager.core.model.reasons import Kind, Reason
from nodemanager.core.model.world import CloudState, Tags
from nodemanager.core.operate.backlog import (
    IndexedPlan,
    Item,
    ItemAction,
    ItemState,
    adoptable,
    indexed_plan,
    node_status,
    node_version,
)
from tests.cases import cases
from tests.core.build import POOL, World, incarnation_of, node, world


def beside(*, claimed: bool = False) -> World:
    """A node made by hand that pings a record, one that pings none, and one of ours."""
    made = world(ids_unique=True)
    made.add_record("r1", quiet=10.0, claimed=claimed, first_ping_at=made.ago(500.0))
    made.add_node(id="i-r1", pool=None, age=1000.0)
    made.add_node(id="i-alone", pool=None, age=1000.0, managed=False)
    made.add_record("r2", quiet=10.0)
    made.add_node("r2", id="i-ours")
    return made


def seen_in(made: World, **flags: Any) -> IndexedPlan:
    made.flags |= flags
    made.poll()
    snapshot = made.snapshot()
    found = indexed_plan(made.plan(), snapshot)
    assert found is not None
    return found


def passed(made: World, minutes: int) -> set[str]:
    """What was destroyed in so many minutes, in which all nodes that ping do so."""
    destroyed: set[str] = set()
    for _ in range(minutes):
        made.now += 60.0
        for one in list(made.records):
            made.ping(one.uuid)
        made.poll()
        made.plan()
        destroyed |= set(made.destroyed)
    return destroyed


def item(made: World, node_id: str, record: str = "") -> Item:
    found = next(one for one in made.nodes if one.id == node_id)
    return Item(ItemAction.ADOPT, node_id, node_version(found), record)


def test_every_node_of_no_pool_is_shown_none_is_chosen_and_each_says_what_follows_d11() -> None:
    made = beside()
    shown = list(adoptable(seen_in(made), made.settings))
    assert [one.item.id for one in shown] == ["i-alone", "i-r1"]
    assert not any(one.chosen for one in shown)
    alone, paired = shown
    assert alone.item.record == ""
    assert "shut down after 1800 s (D7)" in str(alone.then)
    assert paired.item.record == "r1"
    assert "paired by its instance id" in str(paired.then)


def test_a_stopped_node_is_told_to_end_soon_once_it_is_ours_d1() -> None:
    made = beside()
    made.change_node("i-alone", state=CloudState.STOPPED)
    (alone, _) = adoptable(seen_in(made), made.settings)
    assert "shut down after 60 s" in str(alone.then)


@cases(
    ("happens", "stand", "reason"),
    {
        "unchanged": (lambda made: None, ItemState.HELD, Reason.UNTAGGED),
        "another-state": (
            lambda made: made.change_node("i-r1", state=CloudState.PENDING),
            ItemState.HELD,
            Reason.UNTAGGED,
        ),
        "gone": (lambda made: made.drop_node("i-r1"), ItemState.CHANGED, Reason.NODE_ABSENT),
        "terminated": (
            lambda made: made.change_node("i-r1", state=CloudState.TERMINATED),
            ItemState.CHANGED,
            Reason.NODE_ABSENT,
        ),
        "another-launch": (
            lambda made: made.change_node("i-r1", created_at=1.0),
            ItemState.CHANGED,
            Reason.CHANGED_SINCE_PLAN,
        ),
        "renamed": (
            lambda made: made.change_node("i-r1", name="other"),
            ItemState.CHANGED,
            Reason.CHANGED_SINCE_PLAN,
        ),
        "another-pools-by-now": (
            lambda made: made.change_node("i-r1", tags=Tags("other")),
            ItemState.CHANGED,
            Reason.OTHER_POOL,
        ),
        "ours-already": (
            lambda made: made.change_node("i-r1", tags=Tags(POOL)),
            ItemState.DONE,
            Reason.ADOPTED,
        ),
        "on-hold": (
            lambda made: made.flags.__setitem__("holds", frozenset({"i-r1"})),
            ItemState.CHANGED,
            Reason.HELD,
        ),
        "unreadable": (
            lambda made: made.change_node("i-r1", problems=("tags can't be read",)),
            ItemState.CHANGED,
            Reason.UNREADABLE,
        ),
        "its-record-names-it-no-more": (
            lambda made: made.change("r1", instance_id=None),
            ItemState.CHANGED,
            Reason.PAIR_UNPROVEN,
        ),
        "its-record-pinged-before-it-was-launched": (
            lambda made: made.change("r1", first_ping_at=made.ago(5000.0)),
            ItemState.CHANGED,
            Reason.PAIR_UNPROVEN,
        ),
    },
)
def test_a_node_stands_as_the_newest_listing_says(
    happens: Any, stand: ItemState, reason: Reason
) -> None:
    made = beside()
    wanted = item(made, "i-r1", "r1")
    happens(made)
    found = node_status(wanted, seen_in(made), POOL)
    assert (found.state, found.reason) == (stand, reason)


def test_another_record_than_its_own_is_never_put_on_a_node_p1() -> None:
    made = beside()
    found = node_status(item(made, "i-r1", "r2"), seen_in(made), POOL)
    assert found.reason is Reason.PAIR_UNPROVEN


def test_where_ids_come_again_no_pair_is_proven_p1() -> None:
    made = beside().with_settings(ids_unique=False)
    found = node_status(item(made, "i-r1", "r1"), seen_in(made), POOL)
    assert found.reason is Reason.PAIR_UNPROVEN
    assert node_status(item(made, "i-r1"), seen_in(made), POOL).state is ItemState.HELD


@cases(
    ("claimed", "record", "tags"),
    {
        "a-record-without-a-claim": (False, "r1", Tags(POOL)),
        "with-a-claim": (True, "r1", Tags(POOL, "r1", incarnation_of("r1"))),
        "no-record-named": (True, "", Tags(POOL)),
    },
)
def test_the_records_tag_goes_on_only_with_the_incarnation_that_proves_it_p1(
    claimed: bool, record: str, tags: Tags
) -> None:
    made = beside(claimed=claimed)
    seen = seen_in(made)
    order = order_adoption(item(made, "i-r1", record), seen, made.snapshot(), made.settings)
    assert order.tags == tags


@cases("claimed", {"claim": True, "none": False})
def test_an_adopted_node_stays_paired_with_its_record_and_is_not_shut_down_p1_d7(
    claimed: bool,
) -> None:
    made = beside(claimed=claimed)
    wanted = item(made, "i-r1", "r1")
    order = order_adoption(wanted, seen_in(made), made.snapshot(), made.settings)
    made.change_node("i-r1", tags=order.tags)
    assert "i-r1" not in passed(made, 60)
    assert made.last.pairs.record_of["i-r1"].uuid == "r1"


def test_a_node_without_a_record_is_shut_down_once_it_is_adopted_and_never_before_d11_d7() -> None:
    made = beside()
    assert passed(made, 60) == set()
    made.change_node("i-alone", tags=Tags(POOL), managed=True)
    assert passed(made, 40) == {"i-alone"}


@cases(
    ("changes", "flags", "reason"),
    {
        "as-it-was": ({}, {}, Reason.ADOPTED),
        "another-pools": ({"tags": Tags("other")}, {}, Reason.OTHER_POOL),
        "renamed": ({"name": "other"}, {}, Reason.CHANGED_SINCE_PLAN),
        "held-in-the-cloud": ({"held": True}, {}, Reason.HELD),
        "terminated": ({"state": CloudState.TERMINATED}, {}, Reason.NODE_ABSENT),
        "no-lease": ({}, {"lease": False}, Reason.NO_LEASE),
        "read-only": ({}, {"read_only": "another"}, Reason.READ_ONLY),
        "hold": ({}, {"holds": frozenset({"i-r1"})}, Reason.HELD),
        "late": ({}, {"now": 1e9}, Reason.ORDER_EXPIRED),
    },
)
def test_the_last_look_adopts_only_what_is_as_it_was(
    changes: dict[str, Any], flags: dict[str, Any], reason: Reason
) -> None:
    made = beside(claimed=True)
    seen = seen_in(made)
    order = order_adoption(item(made, "i-r1", "r1"), seen, made.snapshot(), made.settings)
    now = replace(seen.snapshot.history.present["i-r1"], **changes)
    verdict = confirm_adoption(order, now, seen, made.snapshot(**flags), made.settings)
    assert verdict.reason is reason
    kind = Kind.ADOPT if not changes and not flags else Kind.KEEP
    assert verdict.kind is kind


def test_a_node_that_vanished_or_whose_pair_ended_is_not_adopted() -> None:
    made = beside(claimed=True)
    seen = seen_in(made)
    wanted = item(made, "i-r1", "r1")
    order = order_adoption(wanted, seen, made.snapshot(), made.settings)
    gone = confirm_adoption(order, None, seen, made.snapshot(), made.settings)
    assert gone.reason is Reason.NODE_ABSENT
    now = seen.snapshot.history.present["i-r1"]
    made.change("r1", instance_id=None)
    later = seen_in(made)
    ended = confirm_adoption(order, now, later, made.snapshot(), made.settings)
    assert ended.reason is Reason.PAIR_UNPROVEN


def test_the_version_of_a_node_is_of_what_it_was_made_as() -> None:
    one = node("r1")
    assert node_version(one) == node_version(replace(one, state=CloudState.STOPPED))
    for changes in ({"name": "x"}, {"created_at": 5.0}, {"size": "x"}, {"tags": Tags("x")}):
        assert node_version(one) != node_version(replace(one, **changes))  # type: ignore[arg-type]
