"""A state directory that can't be written or read makes the daemon read-only (SAFETY.md L5, S5)."""

from __future__ import annotations

import pytest

from tests.actors.conftest import Leaking, MakeRig
from tests.actors.rig import Rig

pytestmark = pytest.mark.slow

HOUR = 3600.0


def fill_disk(rig: Rig) -> None:
    """From now on no file of the state directory can be replaced, as on a full disk."""
    (rig.directory / "state" / "facts.json.new").mkdir(parents=True, mode=0o700)


def make_room(rig: Rig) -> None:
    (rig.directory / "state" / "facts.json.new").rmdir()


def test_a_disk_that_is_full_at_the_first_start_is_waited_for(make_rig: MakeRig) -> None:
    """N22: the journal may be elsewhere, and have room."""
    rig = make_rig(min_nodes=2)
    (rig.directory / "state").mkdir(mode=0o700)
    fill_disk(rig)
    rig.start()
    rig.turn(HOUR)
    assert rig.nodes == []
    (told,) = rig.lines("state.failed")
    assert "facts.json can't be written" in str(told["error"])
    assert told["reason"] == "read_only"

    make_room(rig)
    rig.turn(120)
    assert rig.lines("state.healed")
    assert len(rig.nodes) == 2


def test_a_first_backlog_that_cant_be_kept_frees_nothing_until_it_is(leaking: Leaking) -> None:
    """N22, S5."""
    rig, record = leaking()
    rig.start()
    fill_disk(rig)
    rig.turn(HOUR)
    assert rig.lines("record.clean") == []
    assert rig.store.rows[record.uuid].slot_number is not None
    assert rig.lines("state.failed")

    make_room(rig)
    rig.turn(120)
    assert rig.lines("record.cleaned", record=record.uuid)


def test_a_backlog_that_was_held_and_not_kept_is_held_by_the_next_run_too(
    make_rig: MakeRig,
) -> None:
    """N22, S5."""
    rig = make_rig(min_nodes=0, max_cleans_per_cycle=2)
    for slot in range(5):
        rig.store.add_leaked(slot, quiet_for=3 * HOUR)
    rig.start()
    fill_disk(rig)
    rig.turn(600)
    assert rig.lines("backlog.found")
    rig.kill()
    rig.start()
    make_room(rig)
    rig.turn(HOUR)
    assert rig.lines("record.cleaned") == []
    assert len(rig.lines("backlog.found")) == 2


@pytest.mark.parametrize("how", ["unreadable", "corrupt"])
def test_facts_that_cant_be_read_any_more_make_read_only_and_heal(
    leaking: Leaking, how: str
) -> None:
    """N22, X1: without descriptors it could not be opened, and that ended the daemon."""
    rig, record = leaking()
    facts = rig.directory / "state" / "facts.json"
    rig.start()
    kept = facts.with_name("kept")
    facts.rename(kept)
    if how == "corrupt":
        facts.write_text("{", encoding="utf-8")
    else:
        facts.symlink_to("facts.json")
    rig.turn(HOUR)
    assert rig.lines("record.clean") == []
    kept.replace(facts)
    rig.turn(120)
    assert rig.lines("state.healed")
    assert rig.lines("record.cleaned", record=record.uuid)
