"""The simulation labels a slow time of the store's clock whose measurement died unwritten (A3)."""

from __future__ import annotations

import pytest

from nodemanager.actors.report.journal_writer import JournalWriter
from nodemanager.core.observe import clocks
from nodemanager.core.observe.clocks import Clocks
from tests.simulation.run import Result, run
from tests.simulation.scenario import Storm
from tests.simulation.world import World

pytestmark = pytest.mark.slow

KILLED_S = 100.0
"""The manager is killed, and the clock set right, so long after the clock was set back."""


def played(*, back_s: float, writes: bool) -> tuple[Result, World]:
    """A clock is set back, a manager reads it and is killed, its nodes die, the clock is set right.

    Meanwhile its journal `writes` what it measures, or its disk is full. The nodes are some minutes
    old then.
    """
    worlds: list[World] = []

    def watch(world: World) -> None:
        (pool,) = world.pools.values()

        def set_back() -> None:
            if not writes:
                pool.journal.fail()
            world.step_store_clock(-back_s)

        def set_right() -> None:
            for node in world.cloud.living():
                world.cloud.end(node)
            assert pool.manager is not None
            pool.manager.kill()
            world.step_store_clock(back_s)
            pool.journal.heal()

        worlds.append(world)
        world.engine.after(500.0, set_back)
        world.engine.after(500.0 + KILLED_S, set_right)
        world.engine.after(501.0 + KILLED_S, lambda: world.start_again(pool))

    result = run(0, storm=Storm(("demand changes",), count=1), watch=watch)
    return result, worlds[0]


def without_the_contradictions(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(clocks, "after_stamps", lambda clock, listing, *, is_first: clock)


def test_lives_older_than_the_step_show_nothing_of_it_and_their_records_are_excepted() -> None:
    result, world = played(back_s=90.0, writes=False)
    assert list(result.broken) == ["A3"]
    assert result.violations == []
    assert not world.is_excused(which="A3"), "it is broken for some records, not for everything"


def test_a_step_that_the_journal_has_breaks_nothing() -> None:
    result, _ = played(back_s=90.0, writes=True)
    assert result.broken == {}
    assert result.violations == []


def test_stamps_that_contradict_each_other_tell_of_the_step_so_it_breaks_nothing() -> None:
    result, _ = played(back_s=900.0, writes=False)
    assert result.broken == {}
    assert result.violations == []


def test_who_does_not_heed_such_stamps_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    without_the_contradictions(monkeypatch)
    result, _ = played(back_s=900.0, writes=False)
    assert result.broken == {}
    assert "C3" in {one.rule for one in result.violations}


def test_a_manager_that_could_write_its_measurement_and_does_not_is_found_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    save, saved = JournalWriter.save_clocks, []

    def once(writer: JournalWriter, clocks: Clocks) -> None:
        if not saved:
            saved.append(clocks)
            save(writer, clocks)

    monkeypatch.setattr(JournalWriter, "save_clocks", once)
    result, _ = played(back_s=90.0, writes=True)
    assert result.broken == {}
    assert "C3" in {one.rule for one in result.violations}


def test_the_seed_that_showed_it_still_does(monkeypatch: pytest.MonkeyPatch) -> None:
    without_the_contradictions(monkeypatch)
    result = run(300006708, enough=lambda rule: rule == "C3")
    assert result.broken == {}
    assert "C3" in {one.rule for one in result.violations}
