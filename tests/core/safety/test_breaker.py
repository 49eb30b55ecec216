"""The breaker: what opens it (L3, D9), what it stops (B2), what closes it (B3)."""

from __future__ import annotations

from dataclasses import replace

import pytest

from nodemanager.core.model.breaker import COLLAPSES, Breaker, Cause
from nodemanager.core.model.reasons import Reason
from nodemanager.core.model.world import CloudNode, CloudState, Job
from nodemanager.core.observe import history as histories
from nodemanager.core.safety import breaker as breakers
from tests.cases import cases
from tests.core.build import World, node, world
from tests.core.nodes import pool_of as healthy


def pool_of(count: int, **settings: object) -> World:
    """`count` nodes that pinged just now, their records, and one plan."""
    made = healthy(count, **settings)
    assert not made.breaker.is_open
    return made


def lose(made: World, *numbers: int) -> None:
    gone = {f"i-r{number}" for number in numbers}
    made.nodes = [one for one in made.nodes if one.id not in gone]


def later(made: World, seconds: float = 60.0) -> None:
    made.advance(seconds)
    for one in list(made.records):
        made.ping(one.uuid)
    made.round()


# L3.


@cases(("lost", "opens"), {"at-the-fraction": (3, False), "just-past": (4, True)})
@pytest.mark.parametrize("cause", [Cause.CLOUD_COLLAPSED, Cause.RECORDS_COLLAPSED])
def test_a_listing_that_lacks_over_collapse_fraction_opens_it_l3(
    cause: Cause, lost: int, opens: bool
) -> None:
    made = pool_of(10)
    if cause is Cause.CLOUD_COLLAPSED:
        lose(made, *range(lost))
    else:
        made.records = made.records[lost:]
    later(made)
    assert made.breaker.is_open is opens
    assert made.breaker.cause is (cause if opens else None)


@cases(("known", "opens"), {"four": (4, False), "five": (5, True)})
def test_a_small_set_does_not_collapse_l3(known: int, opens: bool) -> None:
    made = pool_of(known)
    made.nodes.clear()
    later(made)
    assert made.breaker.is_open is opens


def test_a_set_that_was_not_the_largest_is_once_others_ended_l3() -> None:
    """Two leave unexplained; newer nodes outnumber them and end; then a third leaves."""
    made = pool_of(7)
    lose(made, 0, 1)
    made.add_record("r7")
    made.add_node("r7")
    made.add_record("r8")
    made.add_node("r8")
    later(made)
    assert not made.breaker.is_open
    for uuid in ("r5", "r6", "r7", "r8"):
        made.change_node(f"i-{uuid}", state=CloudState.TERMINATED)
    later(made)
    assert not made.breaker.is_open
    lose(made, 2)
    later(made)
    assert made.breaker.cause is Cause.CLOUD_COLLAPSED


@pytest.mark.parametrize("known", [1, 4])
def test_a_record_listing_that_lacks_all_is_not_believed_however_few_they_were_l3(
    known: int,
) -> None:
    made = pool_of(known, min_nodes=known)
    records, made.records = made.records, []
    made.nodes.clear()
    later(made)
    assert made.breaker.cause is Cause.RECORDS_COLLAPSED
    assert made.booted == []
    made.records = records
    later(made)
    assert not made.breaker.is_open


def test_nodes_lost_a_few_at_a_time_are_held_against_the_largest_set_of_ten_minutes_l3() -> None:
    made = pool_of(10)
    lose(made, 0, 1)
    later(made)
    assert not made.breaker.is_open
    lose(made, 2, 3)
    later(made)
    assert made.breaker.cause is Cause.CLOUD_COLLAPSED


def test_the_largest_set_is_forgotten_after_ten_minutes_l3() -> None:
    made = pool_of(10)
    for lost in range(4):
        lose(made, lost)
        later(made, 400.0)
    assert not made.breaker.is_open


def test_an_empty_listing_after_a_long_outage_is_not_believed_l3() -> None:
    made = pool_of(10)
    made.advance(3600.0)
    made.nodes.clear()
    later(made)
    assert made.breaker.cause is Cause.CLOUD_COLLAPSED


def test_nodes_that_we_destroyed_are_not_lost_l3() -> None:
    made = pool_of(10)
    made.history = histories.explained(made.history, [f"i-r{number}" for number in range(6)])
    later(made)
    lose(made, *range(6))
    later(made)
    assert not made.breaker.is_open


def destroy(made: World, *numbers: int, refused: bool = False) -> None:
    """We send these nodes a destroy, or the cloud refuses it."""
    for number in numbers:
        made.history = histories.destroy_sent(
            made.history, f"i-r{number}", made.now, refused=refused
        )


@cases(
    ("listed", "missing"),
    {
        "dropped-at-once": ((), (60.0,)),
        "listed-for-a-while": ((60.0, 60.0, 60.0), (60.0,)),
        "listed-for-longer-than-sets-are-known": ((800.0,), (60.0,)),
        "dropped-in-a-long-outage": ((), (3600.0, 60.0)),
    },
)
def test_a_node_is_not_lost_from_when_its_destroy_was_sent_l3(
    listed: tuple[float, ...], missing: tuple[float, ...]
) -> None:
    """Nobody knows yet that these two of five are gone (L3)."""
    made = pool_of(5)
    destroy(made, 0, 1)
    for every in listed:
        later(made, every)
    lose(made, 0, 1)
    for every in missing:
        later(made, every)
        assert not made.breaker.is_open


def test_a_destroyed_node_that_a_late_listing_shows_once_more_is_not_lost_l3() -> None:
    made = pool_of(5)
    before = list(made.nodes)
    destroy(made, 0, 1)
    lose(made, 0, 1)
    later(made)
    after, made.nodes = made.nodes, before
    later(made)
    made.nodes = after
    later(made)
    assert not made.breaker.is_open


def test_a_destroyed_node_listed_for_long_and_never_confirmed_gone_is_not_lost_l3() -> None:
    """Its destroy stands no more soon after, but no listing since it was sent counts (L3)."""
    made = pool_of(5)
    destroy(made, 0, 1)
    for _ in range(13):
        later(made, 60.0)
    lose(made, 0, 1)
    for _ in range(5):
        later(made, 60.0)
    assert made.history.known_nodes.destroyed == {}
    assert not made.breaker.is_open


def test_a_destroy_explains_no_other_nodes_loss_l3() -> None:
    """Of the other eight, three are more than 0.3 (L3)."""
    made = pool_of(10)
    destroy(made, 0, 1)
    lose(made, 0, 1, 2, 3, 4)
    later(made)
    assert made.breaker.cause is Cause.CLOUD_COLLAPSED
    assert made.breaker.ids == {"i-r2", "i-r3", "i-r4"}
    lose(made, 5)
    destroy(made, 6)
    lose(made, 6)
    later(made)
    assert made.breaker.ids == {"i-r2", "i-r3", "i-r4", "i-r5"}


def test_a_refused_destroy_explains_nothing_l3() -> None:
    made = pool_of(5)
    destroy(made, 0, 1)
    destroy(made, 0, 1, refused=True)
    lose(made, 0, 1)
    later(made)
    assert made.breaker.cause is Cause.CLOUD_COLLAPSED


def test_a_node_that_outlives_its_destroy_can_be_lost_again_l3() -> None:
    made = pool_of(5)
    destroy(made, 0, 1)
    later(made, made.settings.action_timeout + 1.0)
    lose(made, 0, 1)
    later(made)
    assert made.breaker.cause is Cause.CLOUD_COLLAPSED


def test_a_breaker_that_is_open_only_for_what_we_destroyed_closes_l3_b3() -> None:
    """As it was before a restart that told us of the destroys."""
    made = pool_of(5)
    lose(made, 0, 1)
    later(made)
    assert made.breaker.ids == {"i-r0", "i-r1"}
    destroy(made, 0)
    later(made)
    assert made.breaker.ids == {"i-r1"}
    destroy(made, 1)
    later(made)
    assert not made.breaker.is_open


def test_nodes_listed_as_terminated_are_not_lost_even_when_they_leave_the_list_l3() -> None:
    made = pool_of(10)
    for number in range(6):
        made.change_node(f"i-r{number}", state=CloudState.TERMINATED)
    later(made)
    lose(made, *range(6))
    later(made)
    assert not made.breaker.is_open


@pytest.mark.parametrize("pool", ["other", None], ids=["another-pools", "nobodys"])
def test_others_nodes_in_the_listing_may_leave_l3_l3a_t3(pool: str | None) -> None:
    """Untagged machines that `[Cloud List]` matches belong to nobody's record (L3a, N8)."""
    made = pool_of(5)
    for number in range(10):
        made.add_node(id=f"foreign{number}", pool=pool)
    later(made)
    made.nodes = made.nodes[:5]
    later(made)
    assert not made.breaker.is_open


def test_untagged_nodes_that_our_records_name_may_not_leave_l3a() -> None:
    """Nodes of before our time bear no tag, and are known by the id that they ping with (L3a)."""
    made = pool_of(0)
    for number in range(6):
        made.add_record(f"r{number}", claimed=False)
        made.add_node(id=f"i-r{number}", pool=None)
    later(made)
    later(made)
    made.nodes.clear()
    later(made)
    assert made.breaker.cause is Cause.CLOUD_COLLAPSED


@pytest.mark.parametrize("pool", ["other", None], ids=["another-pools", "nobodys"])
def test_others_records_may_leave_l3a(pool: str | None) -> None:
    """Ours are all there; beside another pool's, records that name none are nobody's (N8, T3)."""
    made = pool_of(6)
    for number in range(10):
        made.add_record(f"b{number}", pool=pool, claimed=False)
    made.add_record("b", pool="other", claimed=False)
    later(made)
    made.records = made.records[:6]
    later(made)
    assert not made.breaker.is_open


def test_records_that_another_pool_takes_over_are_not_lost_l3a() -> None:
    """A record that is listed is not lacking, whatever pool it names by now (L3a)."""
    made = pool_of(6)
    made.records = [replace(one, pool="other", claim=None) for one in made.records]
    made.nodes.clear()
    made.breaker = Breaker()
    made.poll_records()
    assert not made.breaker.is_open


# B2.


@cases(
    ("cause", "boots"),
    {
        "cloud": (Cause.CLOUD_COLLAPSED, False),
        "records": (Cause.RECORDS_COLLAPSED, False),
        "silence": (Cause.MASS_SILENCE, True),
    },
)
def test_open_nothing_is_freed_or_destroyed_and_a_collapse_stops_booting_b2(
    cause: Cause, boots: bool
) -> None:
    made = world(max_nodes=9)
    made.add_record("dead", quiet=9000.0)
    made.add_record("sick")
    made.add_node("sick", state=CloudState.STOPPED)
    made.settle()
    assert (made.cleaned, made.destroyed) == (["dead"], ["i-sick"])
    ids = frozenset({"x1", "x2"})
    made.breaker = breakers.opened(made.breaker, cause, ids, made.now, {"lost": 2})
    made.plan(demand=(Job("j"),))
    assert (made.cleaned, made.destroyed) == ([], [])
    assert made.of_record("dead").reason is Reason.BREAKER_OPEN
    assert made.of_node("i-sick").reason is Reason.BREAKER_OPEN
    assert bool(made.booted) is boots
    assert bool(made.wants.refused) is not boots


# B3.


@cases(("back", "closes"), {"below": (6, False), "at-the-fraction": (7, True)})
@pytest.mark.parametrize("which", ["cloud", "records"])
def test_closes_when_seven_in_ten_of_the_lost_are_listed_again_b3(
    back: int, closes: bool, which: str
) -> None:
    made = pool_of(10)
    nodes, records = list(made.nodes), list(made.records)
    if which == "cloud":
        made.nodes = []
    else:
        made.records = []
    later(made)
    assert made.breaker.is_open
    made.nodes = nodes[:back] if which == "cloud" else nodes
    made.records = records[:back] if which == "records" else records
    later(made)
    assert made.breaker.is_open is not closes


def terminated(ids: object) -> dict[str, CloudNode | None]:
    return {one: node(id=one, state=CloudState.TERMINATED) for one in ids}  # type: ignore[attr-defined]


def test_closes_when_each_lost_node_is_confirmed_gone_by_id_and_stays_closed_b3() -> None:
    made = pool_of(10)
    lose(made, 0, 1, 2, 3)
    later(made)
    asked = made.last.ask
    assert asked == ("i-r0", "i-r1", "i-r2", "i-r3")
    made.answer(terminated(asked[:3]))
    assert made.breaker.is_open
    made.answer(terminated(asked[3:]))
    assert not made.breaker.is_open
    later(made)
    assert not made.breaker.is_open


@cases(
    "answer",
    {"running": CloudState.RUNNING, "stopped": CloudState.STOPPED, "unknown": CloudState.UNKNOWN},
)
def test_a_lost_node_that_the_cloud_knows_by_id_keeps_it_open_b3(answer: CloudState) -> None:
    made = pool_of(5)
    made.nodes = []
    later(made)
    made.answer({f"i-r{number}": node(id=f"i-r{number}", state=answer) for number in range(5)})
    assert made.breaker.is_open
    assert not made.breaker.confirmed


@cases(
    "answers",
    {
        "not-before-visible-after": (
            (300.0, 0.0, True),
            (300.5, 0.0, True),
            (330.0, 0.0, True),
            (330.5, 0.0, False),
        ),
        "as-old-as-its-question": (
            (310.0, 15.0, True),
            (345.0, 0.0, True),
            (400.0, 50.0, True),
            (400.0, 0.0, False),
        ),
        "apart-from-the-earlier-answer-to-the-later-question": (
            (322.0, 12.0, True),
            (342.0, 0.0, True),
            (352.0, 0.0, False),
        ),
    },
)
def test_no_such_node_is_gone_only_past_visible_after_and_asked_twice_d3_b3(
    answers: tuple[tuple[float, float, bool], ...],
) -> None:
    """Each is given so long after it opened, was asked for so long before, and leaves it open."""
    made = pool_of(5)
    made.nodes = []
    later(made)
    opened_at = made.breaker.opened_at
    for at, late, stays_open in answers:
        made.now = opened_at + at
        made.answer({f"i-r{number}": None for number in range(5)}, late=late)
        assert made.breaker.is_open is stays_open


def test_no_such_node_is_believed_at_once_where_reads_are_consistent_d3_b3() -> None:
    made = pool_of(5, visible_after=0.0)
    made.nodes = []
    later(made)
    made.answer({f"i-r{number}": None for number in range(5)})
    assert not made.breaker.is_open


@pytest.mark.parametrize("cloud", [True, False], ids=["nodes", "records"])
def test_what_comes_back_after_a_reset_may_be_lost_anew_b3(cloud: bool) -> None:
    """A reset excuses what is gone; what is listed again is excused no more (B3, N19)."""
    made = pool_of(6)
    records, nodes = list(made.records), list(made.nodes)

    def lose_them() -> None:
        made.nodes = [] if cloud else nodes
        made.records = records if cloud else []
        later(made)

    lose_them()
    made.breaker = breakers.reset(made.breaker, made.now)
    later(made)
    assert not made.breaker.is_open
    made.nodes, made.records = nodes, records
    later(made)
    assert made.breaker.gone == frozenset()
    lose_them()
    assert made.breaker.cause is (Cause.CLOUD_COLLAPSED if cloud else Cause.RECORDS_COLLAPSED)


def test_what_is_lost_while_it_is_open_belongs_to_the_loss_b3() -> None:
    made = pool_of(10)
    nodes = list(made.nodes)
    made.nodes = nodes[4:]
    later(made)
    made.nodes = nodes[8:]
    later(made)
    made.nodes = nodes[:4] + nodes[8:]
    later(made)
    assert made.breaker.is_open
    assert len(made.breaker.ids) == 8


def test_one_cause_that_closes_leaves_the_other_open_b3() -> None:
    made = pool_of(10)
    nodes, records = list(made.nodes), list(made.records)
    made.nodes = nodes[:5]
    later(made)
    made.records = records[:5]
    later(made)
    assert {part.cause for part in made.breaker.parts} == COLLAPSES - {Cause.SCHEDULER_COLLAPSED}
    made.records = records
    for _ in range(15):
        later(made)
    assert made.breaker.cause is Cause.CLOUD_COLLAPSED
    made.nodes = nodes
    later(made)
    assert not made.breaker.is_open


def test_each_change_has_a_generation_so_that_older_orders_are_void_c11() -> None:
    made = pool_of(5)
    before = made.breaker.generation
    nodes, made.nodes = made.nodes, []
    later(made)
    assert made.breaker.generation == before + 1
    made.nodes = nodes
    later(made)
    assert made.breaker.generation == before + 2


def test_absence_seen_in_a_suspect_listing_counts_for_nothing_l3() -> None:
    made = pool_of(10)
    nodes = list(made.nodes)
    made.add_record("dead", quiet=20_000.0)
    made.nodes = nodes[3:]
    for one in made.records[:3]:
        made.records.remove(one)
        made.add_record(one.uuid, slot=one.slot_number, quiet=20_000.0)
    made.nodes = nodes[:5]
    for _ in range(3):
        made.advance(60.0)
        made.round()
    assert made.breaker.is_open
    made.nodes = nodes[:9]
    made.advance(60.0)
    made.round()
    assert not made.breaker.is_open
    assert made.of_record("dead").reason is Reason.NOT_SETTLED


def test_a_closed_breaker_has_no_parts_and_closing_voids_all_b3() -> None:
    breaker = breakers.opened(Breaker(), Cause.MASS_SILENCE, frozenset("ab"), 1.0, {})
    breaker = breakers.opened(breaker, Cause.CLOUD_COLLAPSED, frozenset("cd"), 2.0, {})
    assert [part.cause for part in breaker.parts] == [Cause.CLOUD_COLLAPSED, Cause.MASS_SILENCE]
    closed = breakers.closed(breaker)
    assert (closed.parts, closed.generation) == ((), 3)
    assert replace(closed, generation=0) == Breaker()


def test_booting_stays_stopped_when_another_cause_comes_after_a_collapse_b2() -> None:
    """Any cause may be the newest; one collapse among them stops booting."""
    made = pool_of(10, min_nodes=10)
    lose(made, *range(6))
    later(made)
    assert made.breaker.cause is Cause.CLOUD_COLLAPSED
    made.breaker = breakers.opened(made.breaker, Cause.WRITES_FAIL, frozenset(), made.now, {})
    assert made.breaker.stops_booting
    later(made)
    assert made.booted == []
