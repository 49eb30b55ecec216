"""Caps on destroying, and waves that open the breaker (D9, B3)."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from nodemanager.core.model.annotations import Mark
from nodemanager.core.model.breaker import Cause
from nodemanager.core.model.changed import changed
from nodemanager.core.model.reasons import Reason
from nodemanager.core.model.settings import Settings
from nodemanager.core.model.world import CloudState, WorkerState
from nodemanager.core.observe.history import History, Turned
from nodemanager.core.observe.nodes_since import turned_bad
from nodemanager.core.observe.snapshot import Flight
from tests.cases import cases
from tests.core.build import World, claim, incarnation_of, node
from tests.core.nodes import pool_of, say

pytestmark = pytest.mark.slow


@cases(("bad", "opens"), {"at-the-fraction": (3, False), "past": (4, True)})
def test_more_than_collapse_fraction_turned_down_destroys_none_and_opens_d9(
    bad: int, opens: bool
) -> None:
    made = pool_of(10)
    say(made, WorkerState.BUSY, {f"r{number}" for number in range(bad)})
    assert (made.breaker.cause is Cause.MASS_SILENCE) is opens
    assert len(made.destroyed) == (0 if opens else bad)


def test_fewer_than_five_nodes_are_no_mass_d9() -> None:
    made = pool_of(4)
    say(made, WorkerState.BUSY, {"r0", "r1", "r2", "r3"})
    assert len(made.destroyed) == 4


@pytest.mark.parametrize("were_heard", [True, False])
def test_nodes_whose_store_forgot_that_they_were_heard_are_a_wave_all_the_same_d9(
    were_heard: bool,
) -> None:
    """A store that was restored shows them as claims that never came up."""
    made = pool_of(10)
    for record in list(made.records):
        made.change(record.uuid, claim=claim(record.uuid, at=made.ago(3600.0)))
    if were_heard:
        made.round()
    for record in list(made.records):
        made.change(record.uuid, first_ping_at=None, last_ping_at=None)
    if not were_heard:
        made.history = changed(made.history, heard={})
    made.round(40)
    assert (made.breaker.cause is Cause.MASS_SILENCE) is were_heard
    assert bool(made.destroyed) is not were_heard


def test_a_held_node_that_is_silent_is_of_the_wave_and_is_left_alone_d9() -> None:
    """What an operator holds tells of the others all the same."""
    made = pool_of(10)
    made.flags["holds"] = frozenset({"i-r0", "i-r1"})
    say(made, WorkerState.BUSY, {f"r{number}" for number in range(4)})
    assert made.breaker.cause is Cause.MASS_SILENCE
    assert made.destroyed == []
    assert made.of_node("i-r0").reason is Reason.HELD


def test_a_node_that_was_down_before_an_operator_killed_it_is_of_the_wave_d9_o2() -> None:
    made = pool_of(5)
    made.flags["kills"] = {"i-r0": Mark("ops", made.now, incarnation=incarnation_of("r0"))}
    say(made, WorkerState.BUSY, {"r0"})
    assert made.destroyed == ["i-r0"]
    assert made.of_node("i-r0").reason is Reason.KILLED
    made.flags["node_flights"] = {"i-r0": Flight("shutdown:bad", made.now)}
    say(made, WorkerState.BUSY, {"r0", "r1"})
    assert made.breaker.cause is Cause.MASS_SILENCE
    assert made.destroyed == []


@cases(
    ("meanwhile", "polls", "opens"),
    {
        "down-all-the-time": (WorkerState.DOWN, 2, True),
        "well-for-a-window": (WorkerState.BUSY, 22, False),
    },
)
@pytest.mark.parametrize("step", [7200.0, -7200.0])
def test_a_node_in_its_boot_grace_again_by_a_jump_is_of_the_wave_until_it_is_well_d9_t1(
    step: float, meanwhile: WorkerState, polls: int, opens: bool
) -> None:
    """Two of four turned down, too few for a wave; by the jump the second is not down for long.

    A fifth comes, so that two of five turned within one window.
    """
    made = pool_of(4, max_shutdowns_per_cycle=1, node_stale_after=600.0)
    say(made, WorkerState.BUSY, {"r0", "r1"})
    assert made.destroyed == ["i-r0"]
    made.store_step += step
    made.wall_step += step
    for _ in range(polls):
        # The first may have been said before the jump.
        say(made, meanwhile, {"r0"})
    made.drop_node("i-r0")
    made.add_record("r4")
    made.add_node("r4", age=0.0)
    destroyed: list[str] = []
    for _ in range(100):
        say(made, WorkerState.BUSY, {"r0", "r1"})
        destroyed += made.destroyed
    assert (made.breaker.cause is Cause.MASS_SILENCE) is opens
    assert set(destroyed) == (set() if opens else {"i-r1"})


@pytest.mark.parametrize("step", [7200.0, -7200.0])
def test_who_says_down_in_its_boot_grace_again_by_a_jump_is_of_the_wave_d9_t1(step: float) -> None:
    """One of eight turned down right before the jump, and two right after it (seed 999002053)."""
    made = pool_of(8, node_stale_after=600.0, boot_fail_after=900.0)
    for _ in range(40):
        say(made, WorkerState.BUSY, set())
    say(made, WorkerState.BUSY, {"r0"})
    assert made.destroyed == ["i-r0"]
    made.drop_node("i-r0")
    made.store_step += step
    made.wall_step += step
    # Long before their grace is over again.
    for _ in range(20):
        say(made, WorkerState.BUSY, {"r0", "r1", "r2"})
        assert made.destroyed == []
    assert made.breaker.cause is Cause.MASS_SILENCE


def test_a_silent_node_that_comes_back_and_says_down_turns_with_those_who_say_so_then_d9() -> None:
    """It had been silent for longer than a window, and nobody destroyed it (seed 1005051485)."""
    made = pool_of(6, node_stale_after=600.0)
    made.flags["holds"] = frozenset({"i-r0"})
    for _ in range(40):
        made.advance(30.0)
        for number in range(1, 6):
            made.ping(f"r{number}", WorkerState.BUSY)
        made.round()
    assert made.breaker.cause is None
    made.flags["holds"] = frozenset()
    say(made, WorkerState.BUSY, {"r0", "r1"})
    assert made.destroyed == []
    assert made.breaker.cause is Cause.MASS_SILENCE


def test_who_says_down_in_its_first_boot_grace_is_booting_d9() -> None:
    made = pool_of(4, boot_fail_after=900.0)
    for number in range(4, 8):
        made.add_record(f"r{number}")
        made.add_node(f"r{number}", age=0.0)
    for _ in range(20):
        say(made, WorkerState.BUSY, {"r4", "r5", "r6", "r7"})
        assert not made.breaker.is_open


def test_at_most_max_shutdowns_per_cycle_are_destroyed_and_the_oldest_first_d9() -> None:
    made = pool_of(40)
    say(made, WorkerState.BUSY, {f"r{number}" for number in range(9)})
    assert len(made.destroyed) == 5
    capped = [f"i-r{n}" for n in range(9) if made.of_node(f"i-r{n}").reason is Reason.SHUTDOWN_CAP]
    assert len(capped) == 4


def test_shutdowns_under_way_use_up_the_cap_d9() -> None:
    made = pool_of(40)
    made.flags["node_flights"] = {f"i-r{n}": Flight("shutdown:bad", made.now) for n in range(3)}
    say(made, WorkerState.BUSY, {f"r{number}" for number in range(9)})
    assert len(made.destroyed) == 2


def test_idle_beyond_demand_has_no_cap_d9() -> None:
    made = pool_of(40)
    for _ in range(3):
        say(made, WorkerState.IDLE, set())
    assert len(made.destroyed) == 40


def test_a_wave_of_silence_is_seen_before_its_first_victim_d9() -> None:
    made = pool_of(10)
    victims: list[str] = []
    for _ in range(90):
        made.advance(100.0)
        for number in range(6):
            made.ping(f"r{number}", WorkerState.BUSY)
        made.round()
        victims += made.destroyed
    assert made.breaker.cause is Cause.MASS_SILENCE
    assert victims == []


def test_a_slow_wave_counts_the_nodes_destroyed_before_d9() -> None:
    """Two turn down a minute and are destroyed: in flight, then gone, they still count."""
    made = pool_of(20)
    down: set[str] = set()
    destroyed: set[str] = set()
    for step in range(10):
        for node_id in list(destroyed)[: 2 * (step - 1)]:
            made.drop_node(node_id)
        made.flags["node_flights"] = {one: Flight("shutdown:bad", made.now) for one in destroyed}
        down |= {f"r{2 * step}", f"r{2 * step + 1}"}
        say(made, WorkerState.BUSY, down)
        destroyed |= set(made.destroyed)
    assert made.breaker.part(Cause.MASS_SILENCE) is not None
    assert len(destroyed) <= 6


def test_nodes_that_are_unpaired_all_at_once_are_a_wave_d9_d7() -> None:
    made = pool_of(10)
    made.records = [
        replace(
            one,
            claim=None,
            instance_id=None,
            first_ping_at=None,
            last_ping_at=None,
            slot_number=None,
            hostname=None,
            ip_address=None,
            version="v9",
        )
        for one in made.records
    ]
    victims: list[str] = []
    for _ in range(40):
        made.advance(60.0)
        made.round()
        victims += made.destroyed
    assert made.breaker.cause is Cause.MASS_SILENCE
    assert victims == []


def test_untagged_nodes_do_not_dilute_a_wave_d9_d11() -> None:
    made = pool_of(5)
    for number in range(30):
        made.add_node(id=f"u{number}", pool=None)
    say(made, WorkerState.BUSY, {"r0", "r1"})
    assert made.breaker.cause is Cause.MASS_SILENCE


@cases(("still", "open_"), {"too-many": (2, True), "few": (1, False)})
def test_mass_silence_closes_when_few_are_still_bad_b3(still: int, open_: bool) -> None:
    made = pool_of(10)
    say(made, WorkerState.BUSY, {f"r{number}" for number in range(5)})
    assert made.breaker.is_open
    say(made, WorkerState.BUSY, {f"r{number}" for number in range(still)})
    assert made.breaker.is_open is open_


def test_mass_silence_closes_when_each_is_confirmed_stopped_and_opens_no_more_for_them_b3() -> None:
    made = pool_of(10)
    for number in range(6):
        made.change_node(f"i-r{number}", state=CloudState.STOPPED)
    made.settle()
    assert made.breaker.cause is Cause.MASS_SILENCE
    assert made.destroyed == []
    assert set(made.last.ask) == {f"i-r{number}" for number in range(6)}
    made.answer({one: node(id=one, state=CloudState.STOPPED) for one in made.last.ask})
    made.round()
    assert not made.breaker.is_open
    assert len(made.destroyed) == 5
    made.advance(60.0)
    made.round()
    assert not made.breaker.is_open


@cases(
    ("listed", "open_"),
    {
        "ended": ((CloudState.TERMINATED,), False),
        "both": ((CloudState.TERMINATED, CloudState.RUNNING), True),
        "both-turned-round": ((CloudState.RUNNING, CloudState.TERMINATED), True),
    },
)
def test_a_node_that_is_listed_as_ended_and_as_running_has_not_ended_b3_l4(
    listed: tuple[CloudState, ...], open_: bool
) -> None:
    made = pool_of(20)
    say(made, WorkerState.BUSY, {f"r{number}" for number in range(7)})
    say(made, WorkerState.BUSY, {"r0", "r1", "r2"})
    assert made.breaker.cause is Cause.MASS_SILENCE
    ill, *others = made.nodes
    assert ill.id == "i-r0"
    made.nodes = [*others, *(replace(ill, state=state) for state in listed)]
    say(made, WorkerState.BUSY, {"r0", "r1", "r2"})
    assert made.breaker.is_open is open_


def test_recovered_nodes_do_not_close_it_while_others_fell_silent_since_b3() -> None:
    made = pool_of(20)
    first, second = {f"r{n}" for n in range(7)}, {f"r{n}" for n in range(7, 14)}
    say(made, WorkerState.BUSY, first)
    say(made, WorkerState.BUSY, first | second)
    say(made, WorkerState.BUSY, second)
    assert made.breaker.cause is Cause.MASS_SILENCE
    assert made.destroyed == []


@cases(("still", "open_"), {"too-many": (3, True), "few": (2, False)})
def test_who_turned_bad_while_it_was_open_is_of_the_same_wave_however_long_ago_b3(
    still: int, open_: bool
) -> None:
    made = pool_of(10)
    first = {f"r{n}" for n in range(4)}
    say(made, WorkerState.BUSY, first)
    made.advance(60.0)
    say(made, WorkerState.BUSY, first | {"r7", "r8", "r9"})
    for _ in range(100):
        made.advance(60.0)
        say(made, WorkerState.BUSY, first | {"r7", "r8", "r9"})
    say(made, WorkerState.BUSY, {f"r{9 - n}" for n in range(still)})
    assert made.breaker.is_open is open_
    assert len(made.destroyed) == (0 if open_ else still)


def test_who_falls_silent_while_it_is_open_keeps_it_open_however_long_ago_b3_d9() -> None:
    """The window is over for all of them when those that opened it are well again."""
    made = pool_of(20)
    first, second = {f"r{n}" for n in range(7)}, {f"r{n}" for n in range(7, 14)}
    say(made, WorkerState.BUSY, first)
    for _ in range(100):
        made.advance(100.0)
        say(made, WorkerState.BUSY, first | second)
    say(made, WorkerState.BUSY, second)
    assert made.breaker.cause is Cause.MASS_SILENCE
    assert made.destroyed == []
    say(made, WorkerState.BUSY, {"r7", "r8"})
    assert not made.breaker.is_open
    assert set(made.destroyed) == {"i-r7", "i-r8"}


def test_a_silent_node_that_no_listing_shows_turns_bad_anew_until_one_shows_it_d9() -> None:
    """The listing that shows it shows others that fell silent with it: they are one wave."""
    settings = Settings(pool="main", node_stale_after=300.0)
    hidden = frozenset({"i-1"})
    history = turned_bad(History(), {"i-1": 50.0}, 100.0, settings, unlisted=hidden)
    history = turned_bad(history, {"i-1": 50.0}, 500.0, settings, unlisted=hidden)
    history = turned_bad(history, {"i-1": 50.0, "i-2": 505.0}, 510.0, settings)
    assert history.turned == {"i-1": Turned(500.0, 50.0), "i-2": Turned(510.0, 505.0)}


@cases(("second", "opens"), {"in-one-window": (6000.0, True), "in-two": (9000.0, False)})
def test_who_turned_bad_in_a_collapsed_listing_is_counted_among_all_once_they_are_listed_d9_l3(
    second: float, opens: bool
) -> None:
    """A zone can't be reached for hours, and of the two nodes beside it both fall silent."""
    made = pool_of(6)
    hidden = made.nodes[:4]
    for one in hidden:
        made.drop_node(one.id)
    falls = {"r4": 0.0, "r5": second}
    began = made.now
    while made.now < began + 25_000.0:
        made.advance(60.0)
        for uuid, falls_at in falls.items():
            if made.now - began < falls_at:
                made.ping(uuid, WorkerState.BUSY)
        made.round()
        assert made.breaker.part(Cause.CLOUD_COLLAPSED) is not None
    made.nodes = [*hidden, *made.nodes]
    for number in range(4):
        made.ping(f"r{number}", WorkerState.BUSY)
    made.round()
    assert made.breaker.part(Cause.CLOUD_COLLAPSED) is None
    assert (made.breaker.cause is Cause.MASS_SILENCE) is opens
    assert made.destroyed == ([] if opens else ["i-r4", "i-r5"])


@cases(("second", "opens"), {"in-one-window": (0.0, True), "in-two": (10_000.0, False)})
def test_who_was_destroyed_is_of_the_wave_of_who_is_counted_after_a_collapse_d9_l3(
    second: float, opens: bool
) -> None:
    """A zone can't be reached for hours right after one node was destroyed, and of the two that
    are left another turns out to have fallen silent together with it."""
    made = pool_of(6)
    say(made, WorkerState.BUSY, {"r0"})
    assert made.destroyed == ["i-r0"]
    made.records = [one for one in made.records if one.uuid != "r0"]
    _, *hidden = made.nodes[:4]
    made.nodes = made.nodes[4:]
    began = made.now
    while made.now < began + 25_000.0:
        made.advance(60.0)
        made.ping("r4", WorkerState.BUSY)
        if made.now - began < second:
            made.ping("r5", WorkerState.BUSY)
        made.round()
        assert made.breaker.part(Cause.CLOUD_COLLAPSED) is not None
    made.nodes += hidden
    for number in range(1, 4):
        made.ping(f"r{number}", WorkerState.BUSY)
    made.round()
    assert (made.breaker.cause is Cause.MASS_SILENCE) is opens
    assert made.destroyed == ([] if opens else ["i-r5"])


def test_a_node_on_its_way_out_that_is_out_of_sight_for_a_while_is_of_the_wave_d9() -> None:
    """Its destroy was accepted and never happens. Three others fall silent within its window.

    One of them is hidden, until more than two windows after the first was found. Two hidden ones of
    eleven are no collapse, during which nobody is forgotten; three ill ones are no wave.
    """
    made = pool_of(11)
    sights = {"i-r0": (7300.0, 23_000.0), "i-r1": (5500.0, 24_000.0)}
    falls = {"r0": 0.0, "r1": 5400.0, "r2": 5400.0, "r3": 5400.0}
    nodes = list(made.nodes)
    began, destroyed = made.now, []
    while made.now < began + 24_100.0:
        made.advance(100.0)
        now = made.now - began
        hidden = {one for one, (gone, back) in sights.items() if gone <= now < back}
        made.nodes = [one for one in nodes if one.id not in hidden]
        for record in list(made.records):
            if now < falls.get(record.uuid, math.inf):
                made.ping(record.uuid, WorkerState.BUSY)
        made.flags["node_flights"] = {one: Flight("shutdown:bad", made.now) for one in destroyed}
        made.round()
        destroyed += made.destroyed
    assert destroyed == ["i-r0", "i-r2", "i-r3"]
    assert made.breaker.cause is Cause.MASS_SILENCE


@cases(
    ("down_at", "silent_at", "opens"),
    {
        "within-a-window-of-its-turning": (4000.0, 0.0, True),
        "within-a-window-of-now": (11_000.0, 0.0, True),
        "within-neither": (0.0, 8000.0, False),
    },
)
def test_a_node_that_was_out_of_sight_is_of_the_wave_in_which_it_fell_silent_d9(
    down_at: float, silent_at: float, opens: bool
) -> None:
    """It counts as silent from half its window on, 3600 s, and a listing shows it long after."""
    made = pool_of(5)
    made.flags["holds"] = frozenset({"i-r0"})
    hidden = made.nodes[4]
    made.drop_node("i-r4")
    began = made.now
    while made.now < began + silent_at + 12_000.0:
        made.advance(60.0)
        for number in range(5):
            if number < 4 or made.now < began + silent_at:
                down = number == 0 and made.now >= began + down_at
                made.ping(f"r{number}", WorkerState.DOWN if down else WorkerState.BUSY)
        made.round()
    assert not made.breaker.is_open
    made.nodes.append(hidden)
    made.round()
    assert (made.breaker.cause is Cause.MASS_SILENCE) is opens
    assert made.destroyed == ([] if opens else ["i-r4"])


@cases(
    ("known_to_end", "opens"),
    {"out-of-sight": (set[str](), True), "ended": ({"i-r4", "i-r5", "i-r6"}, False)},
)
def test_who_is_out_of_sight_may_be_one_of_five_and_hides_no_wave_d9(
    known_to_end: set[str], opens: bool
) -> None:
    """At a start three of seven are not listed, and two of the others fall ill.

    The three were heard just now. If all of them counted, two would be too few for a wave.
    """
    made = pool_of(7)
    for node_id in ("i-r4", "i-r5", "i-r6"):
        if node_id in known_to_end:
            made.change_node(node_id, state=CloudState.TERMINATED)
        else:
            made.drop_node(node_id)
    made.restart()
    say(made, WorkerState.BUSY, set())
    say(made, WorkerState.BUSY, {"r0", "r1"})
    assert (made.breaker.cause is Cause.MASS_SILENCE) is opens
    assert made.destroyed == ([] if opens else ["i-r0", "i-r1"])


@cases(
    ("launched_at", "opens"),
    {
        "just-before-the-window-ends": (570.0, True),
        "or-so-by-a-clock-that-is-off": (650.0, True),
        "surely-after": (670.0, False),
    },
)
def test_a_fifth_that_may_have_been_there_makes_it_a_wave_however_many_come_later_d9(
    launched_at: float, opens: bool
) -> None:
    """Two of four fall silent while no listing shows them, and are listed again beside eight.

    Whether a fifth was launched before the window's end is not known where the clocks differ (A3).
    """
    made = pool_of(4, node_stale_after=600.0)
    hidden, began, others = made.nodes[:2], made.now, {"r2", "r3"}
    made.nodes = made.nodes[2:]
    for passed_s, name in ((launched_at, "r4"), (800.0, "r5"), (800.0, "r6"), (800.0, "r7")):
        while made.now < began + passed_s:
            made.advance(10.0)
            for other in others:
                made.ping(other, WorkerState.BUSY)
            made.round()
        made.add_record(name)
        made.add_node(name, age=0.0)
        others.add(name)
    made.nodes += hidden
    made.round()
    assert (made.breaker.cause is Cause.MASS_SILENCE) is opens
    assert made.destroyed == ([] if opens else ["i-r0", "i-r1"])


@cases("pool", {"untagged": None, "of-another-pool": "other"})
def test_a_node_that_becomes_ours_is_of_the_wave_in_which_it_fell_silent_d9_d11(
    pool: str | None,
) -> None:
    made = pool_of(5)
    made.flags["holds"] = frozenset({"i-r0"})
    tags = made.nodes[4].tags
    made.change_node("i-r4", tags=replace(tags, pool=pool))
    began = made.now
    while made.now < began + 12_000.0:
        made.advance(60.0)
        for number in range(4):
            down = number == 0 and made.now >= began + 4000.0
            made.ping(f"r{number}", WorkerState.DOWN if down else WorkerState.BUSY)
        made.round()
    assert not made.breaker.is_open
    made.change_node("i-r4", tags=tags)
    made.round()
    assert made.breaker.cause is Cause.MASS_SILENCE
    assert made.destroyed == []


def _falling_silent(made: World, silent_at: dict[str, float], seconds: float) -> list[str]:
    """Let the nodes ping for so long, each until it falls silent; the nodes destroyed meanwhile.

    Each of those is replaced at once.
    """
    began, destroyed = made.now, []
    while made.now < began + seconds:
        made.advance(60.0)
        for one in list(made.records):
            if made.now - began < silent_at.get(one.uuid, seconds):
                made.ping(one.uuid, WorkerState.BUSY)
        made.round()
        for node_id in made.destroyed:
            destroyed.append(node_id)
            made.drop_node(node_id)
            made.records = [one for one in made.records if f"i-{one.uuid}" != node_id]
            made.add_record(f"new-{node_id}", slot=100 + len(destroyed))
            made.add_node(f"new-{node_id}", age=0.0)
    return destroyed


def test_silence_counts_from_half_its_window_on_whatever_the_node_said_before_it_d9() -> None:
    """So the wave is seen before its first victim, not when the last word of each grows old."""
    made = pool_of(6)
    assert _falling_silent(made, {"r0": 0.0, "r1": 1800.0}, 10_000.0) == []
    assert made.breaker.cause is Cause.MASS_SILENCE


@cases(("second", "opens"), {"in-one-window": (5400.0, True), "in-two": (9000.0, False)})
def test_who_stands_in_a_destroyed_nodes_place_was_not_of_those_among_whom_it_turned_d9(
    second: float, opens: bool
) -> None:
    """Two of six fell silent within a window, and the first was replaced before the second counts.

    Of the seven that were there in the end only six could have fallen silent in it.
    """
    made = pool_of(6)
    destroyed = _falling_silent(made, {"r0": 0.0, "r1": second}, 20_000.0)
    assert (made.breaker.cause is Cause.MASS_SILENCE) is opens
    assert destroyed == (["i-r0"] if opens else ["i-r0", "i-r1"])


@cases(("second", "opens"), {"in-one-window": (5400.0, True), "in-two": (9000.0, False)})
def test_who_was_destroyed_at_once_is_of_the_wave_of_who_fell_silent_within_its_window_d9(
    second: float, opens: bool
) -> None:
    """The first said that it was down, and the silence of the second is found only later."""
    made = pool_of(6)
    say(made, WorkerState.BUSY, {"r0"})
    assert made.destroyed == ["i-r0"]
    made.drop_node("i-r0")
    destroyed = _falling_silent(made, {"r1": second}, 20_000.0)
    assert (made.breaker.cause is Cause.MASS_SILENCE) is opens
    assert destroyed == ([] if opens else ["i-r1"])


@cases(("later", "opens"), {"in-one-window": (300.0, True), "in-two": (700.0, False)})
def test_who_says_down_in_its_boot_grace_turned_when_it_began_to_say_so_d9(
    later: float, opens: bool
) -> None:
    """It is found so once its grace is over, and that is a window after the first turned down."""
    made = pool_of(5, node_stale_after=600.0, boot_fail_after=900.0)
    made.add_record("r5")
    made.add_node("r5", age=0.0)
    say(made, WorkerState.BUSY, {"r0"})
    assert made.destroyed == ["i-r0"]
    made.drop_node("i-r0")
    began, destroyed = made.now, []
    while made.breaker.cause is None and not destroyed:
        say(made, WorkerState.BUSY, {"r5"} if made.now - began > later else set())
        destroyed = made.destroyed
    assert (made.breaker.cause is Cause.MASS_SILENCE) is opens
    assert destroyed == ([] if opens else ["i-r5"])


def test_a_pool_that_grew_within_the_window_is_counted_as_it_is_d9() -> None:
    made = pool_of(6)
    destroyed = _falling_silent(made, {"r0": 0.0}, 7000.0)
    for number in range(6, 12):
        made.add_record(f"r{number}")
        made.add_node(f"r{number}", age=60.0)
    destroyed = _falling_silent(made, {"r0": 0.0, "r1": 0.0}, 20_000.0)
    assert not made.breaker.is_open
    assert set(destroyed) == {"i-r0", "i-r1"}


def test_who_fell_silent_before_a_restart_fell_silent_by_the_stamp_of_its_last_ping_d9() -> None:
    """Who was made a window after that ping was not one of those among whom it fell silent."""
    made = pool_of(6)
    hidden = made.nodes[4:]
    for one in hidden:
        made.drop_node(one.id)
    silent = {"r4": 0.0, "r5": 0.0}
    assert _falling_silent(made, silent, 3000.0) == []
    made.restart()
    assert _falling_silent(made, silent, 5000.0) == []
    made.add_record("r6", slot=7)
    made.add_node("r6", age=60.0)
    assert _falling_silent(made, silent, 3000.0) == []
    made.nodes += hidden
    made.round()
    assert made.breaker.cause is Cause.MASS_SILENCE
    assert made.destroyed == []


def test_nodes_that_lose_their_records_one_by_one_are_a_wave_before_the_first_is_due_d9() -> None:
    """One record after the other gets another life, three minutes apart: the first node is due
    long before the last. All that count half the time tell the wave."""
    made = pool_of(6, min_nodes=0)
    lost: set[str] = set()
    destroyed: set[str] = set()
    for minute in range(52):
        uuid = f"r{minute // 3}"
        if minute % 3 == 0 and minute < 12:
            lost.add(uuid)
            new = claim(uuid, at=made.store_now, life=2)
            unpinged = {"instance_id": None, "first_ping_at": None, "last_ping_at": None}
            made.change(uuid, claim=new, modified_at=made.store_now, **unpinged)
        made.advance(60.0)
        for one in list(made.records):
            if one.uuid not in lost:
                made.ping(one.uuid, WorkerState.BUSY)
        made.round()
        destroyed.update(made.destroyed)
    assert destroyed == set()
    assert made.breaker.part(Cause.MASS_SILENCE) is not None
