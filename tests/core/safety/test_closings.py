"""A breaker stays open as long as its cause holds, whatever a start, a clock or a reload does (B3).

What tells that a node is ill is measured anew then; only its own new ping tells that it is well.
"""

from __future__ import annotations

from dataclasses import replace

import pytest

from nodemanager.core.model.breaker import Breaker, Cause
from nodemanager.core.model.world import CloudState
from nodemanager.core.safety import breaker as breakers
from tests.cases import cases
from tests.core.build import World, cleaned, node
from tests.core.nodes import BUSY, pool_of, say

HOURS = 3600.0
SILENT = frozenset(f"r{number}" for number in range(6))


def pinging(made: World, silent: frozenset[str] | set[str] = frozenset(), rounds: int = 1) -> bool:
    """Whether it is open for mass silence after so many rounds in which the others ping."""
    for _ in range(rounds):
        made.advance(60.0)
        for one in list(made.records):
            if one.uuid not in silent and one.holds_anything:
                made.ping(one.uuid, BUSY)
        made.round()
    return made.breaker.part(Cause.MASS_SILENCE) is not None


def six_of_ten_silent(**settings: float) -> World:
    made = pool_of(10, **settings)
    assert pinging(made, SILENT, rounds=70)
    return made


def restarted(made: World) -> None:
    """A new process, which has the former run's breaker."""
    kept = made.breaker
    made.restart()
    made.breaker = kept


def test_a_start_closes_no_mass_silence_and_pings_do() -> None:
    made = six_of_ten_silent()
    restarted(made)
    assert pinging(made, SILENT, rounds=5)
    assert pinging(made, {"r0", "r1"})
    assert not pinging(made, {"r0"})


def test_after_a_start_one_listing_tells_of_no_ping() -> None:
    """A stamp may be older than it seems, if the clock was set back before it."""
    made = six_of_ten_silent()
    for uuid in SILENT:
        made.ping(uuid, BUSY)
    restarted(made)
    made.round()
    assert made.breaker.is_open
    assert not pinging(made)


@pytest.mark.parametrize("step", [2 * HOURS, -2 * HOURS])
def test_a_jump_of_both_clocks_closes_no_mass_silence_t1(step: float) -> None:
    """Boot grace starts again by it, and a word of before is no fresh one."""
    made = pool_of(10)
    down = {f"r{number}" for number in range(6)}
    say(made, BUSY, down)
    assert made.breaker.is_open
    made.store_step += step
    made.wall_step += step
    for _ in range(5):
        say(made, BUSY, down)
        assert made.breaker.is_open
    say(made, BUSY, set())
    assert not made.breaker.is_open


@pytest.mark.parametrize("step", [90.0, 2 * HOURS, -90.0, -2 * HOURS])
def test_a_ping_from_before_a_jump_of_the_stores_clock_closes_no_mass_silence_t1(
    step: float,
) -> None:
    """It is older than it seems: all fall silent after it (seed 992000768)."""
    made = six_of_ten_silent()
    for uuid in SILENT:
        made.ping(uuid, BUSY)
    made.advance(0.6 * made.settings.node_stale_after)
    made.store_step += step
    for _ in range(20):
        assert pinging(made, SILENT)
    assert not pinging(made)


@pytest.mark.parametrize("step", [2 * HOURS, -2 * HOURS])
def test_a_jump_opens_no_mass_silence_again_that_an_operator_closed_t1_d9(step: float) -> None:
    """The nodes are in their boot grace again, and as ill as when the operator looked."""
    made = pool_of(10)
    down = {f"r{number}" for number in range(6)}
    say(made, BUSY, down)
    made.breaker = breakers.reset(made.breaker, made.now)
    made.store_step += step
    made.wall_step += step
    for _ in range(3):
        say(made, BUSY, down)
        assert not made.breaker.is_open


def acquitted(made: World) -> None:
    """An operator looks, and closes it."""
    made.breaker = breakers.reset(made.breaker, made.now)


@pytest.mark.parametrize("looks_first", [True, False], ids=["before", "after"])
def test_a_start_opens_no_mass_silence_again_that_an_operator_closed_r4(looks_first: bool) -> None:
    """Silence counts anew from our start: no run has found those nodes ill (seed 999001911)."""
    made = six_of_ten_silent()
    if looks_first:
        acquitted(made)
    restarted(made)
    made.plan()
    assert looks_first or pinging(made, SILENT)
    if not looks_first:
        acquitted(made)
    for _ in range(130):
        assert not pinging(made, SILENT)


def test_those_an_operator_looked_at_open_it_again_once_they_were_well_b3() -> None:
    made = six_of_ten_silent()
    restarted(made)
    assert pinging(made, SILENT)
    acquitted(made)
    assert not pinging(made, rounds=3)
    assert not made.breaker.acquitted
    assert pinging(made, SILENT, rounds=70)


def test_those_an_operator_looked_at_are_forgotten_once_they_are_gone_b3() -> None:
    made = six_of_ten_silent()
    acquitted(made)
    restarted(made)
    made.plan()
    assert made.breaker.acquitted
    made.nodes = made.nodes[5:]
    assert not pinging(made, SILENT)
    assert made.breaker.acquitted == {"i-r5"}


def test_freed_nodes_that_are_listed_again_close_it_only_with_their_records() -> None:
    made = pool_of(10)
    nodes = list(made.nodes)
    made.nodes = nodes[2:]
    assert not pinging(made, SILENT, rounds=50)
    assert pinging(made, SILENT, rounds=20)
    records = list(made.records)
    made.records = [
        cleaned(one.uuid, at=made.store_now) if one.uuid in SILENT else one for one in records
    ]
    made.nodes = nodes
    assert pinging(made, rounds=2)
    made.records = records
    assert pinging(made)
    assert not pinging(made)


def test_a_node_that_was_confirmed_as_stopped_and_runs_again_must_ping_first() -> None:
    made = pool_of(10)
    stopped = [f"i-r{number}" for number in range(6)]
    for one in stopped:
        made.change_node(one, state=CloudState.STOPPED)
    made.settle()
    assert made.breaker.is_open
    some = stopped[:3]
    made.answer({one: node(id=one, state=CloudState.STOPPED) for one in some})
    for one in some:
        made.change_node(one, state=CloudState.RUNNING)
    assert pinging(made, SILENT)
    made.answer({one: node(id=one, state=CloudState.STOPPED) for one in stopped[3:]})
    assert pinging(made, SILENT)
    assert not pinging(made)


def test_a_node_that_the_cloud_shows_running_is_confirmed_no_more() -> None:
    made = pool_of(10)
    ids = frozenset(f"i-r{number}" for number in range(6))
    open_ = breakers.opened(Breaker(), Cause.MASS_SILENCE, ids, made.now, {})
    for state, confirmed in ((CloudState.STOPPED, ids), (CloudState.RUNNING, frozenset())):
        answers = {one: node(id=one, state=state) for one in ids}
        open_ = breakers.after_answers(
            open_, answers, asked_at=made.now, at=made.now, settings=made.settings
        )
        assert open_.confirmed == confirmed


def test_a_longer_window_closes_no_mass_silence_s6() -> None:
    made = pool_of(10)
    pinging(made, rounds=3)
    assert pinging(made, SILENT, rounds=70)
    made.reload(node_stale_after=48 * HOURS)
    assert pinging(made, SILENT, rounds=3)
    assert not pinging(made, rounds=2)


def test_a_node_that_is_being_stopped_is_not_well_however_it_pings() -> None:
    made = pool_of(10)
    pinging(made, rounds=2)
    assert pinging(made, SILENT, rounds=70)
    for number in range(2):
        made.change_node(f"i-r{number}", state=CloudState.STOPPING)
    assert pinging(made)
    made.change_node("i-r1", state=CloudState.RUNNING)
    assert not pinging(made)


def test_a_twins_pings_tell_of_no_health_p1a() -> None:
    """A create made two nodes; the one that pinged first is out of sight."""
    made = pool_of(10)
    pinging(made, rounds=2)
    assert pinging(made, SILENT, rounds=70)
    for number in range(2):
        made.change(f"r{number}", instance_id=f"i-twin{number}")
    assert pinging(made, rounds=3)
    made.change("r1", instance_id="i-r1")
    assert not pinging(made)


def test_pings_from_before_the_stores_own_silence_tell_of_no_health() -> None:
    """While the probe fails no silence is counted (D8), and no node is well for that."""
    made = pool_of(10)
    pinging(made, rounds=2)
    assert pinging(made, SILENT, rounds=70)
    assert pinging(made, SILENT - {"r0"})
    for _ in range(70):
        made.advance(60.0)
        made.poll_records(answers=False)
        made.poll_cloud()
        made.plan()
    for number in range(1, 5):
        made.ping(f"r{number}", BUSY)
    made.round()
    assert made.breaker.is_open
    made.ping("r0", BUSY)
    made.round()
    assert not made.breaker.is_open


@cases(("pool", "open_"), {"not": ("other", False), "are": ("main", True)})
def test_it_is_about_nodes_that_are_ours(pool: str, open_: bool) -> None:
    made = six_of_ten_silent()
    for number in range(6):
        made.change_node(f"i-r{number}", tags=replace(made.nodes[number].tags, pool=pool))
    assert pinging(made, SILENT) is open_


def test_what_two_runs_opened_it_for_is_one_cause_r4() -> None:
    """The journal could be read only after this run had opened it, too."""
    first, second = frozenset("abc"), frozenset("cde")
    former = breakers.opened(Breaker(), Cause.MASS_SILENCE, first, 1.0, {})
    former = replace(former, confirmed=frozenset("a"), denied={"b": 2.0})
    own = breakers.opened(Breaker(), Cause.MASS_SILENCE, second, 9.0, {"silent": 3})
    part = breakers.joined(former, own).part(Cause.MASS_SILENCE)
    assert part is not None
    assert part.ids == first | second
    assert (part.confirmed, part.denied, part.opened_at) == (frozenset("a"), {"b": 2.0}, 9.0)


def test_a_node_that_was_confirmed_as_gone_and_is_listed_is_confirmed_no_more() -> None:
    made = pool_of(5)
    nodes, made.nodes = made.nodes, []
    made.round()
    assert made.breaker.cause is Cause.CLOUD_COLLAPSED
    lost = made.breaker.ids
    made.breaker = replace(made.breaker, confirmed=frozenset(("i-r0", "i-r1")))
    made.nodes = nodes[:1]
    made.advance(60.0)
    made.round()
    part = made.breaker.part(Cause.CLOUD_COLLAPSED)
    assert part is not None
    assert (part.ids, part.confirmed) == (lost, frozenset({"i-r1"}))
