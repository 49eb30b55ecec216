"""Any recording, decided again by its own settings, comes to its own verdicts."""

from __future__ import annotations

import lzma
from pathlib import Path

import pytest

from nodemanager.core.model.reasons import Reason
from nodemanager.core.replay.worth import weigh
from nodemanager.errors import CloudError
from nodemanager.journal import recording
from nodemanager.journal.reading import outline, read
from nodemanager.journal.scenarios import Scenario, ScenarioState, drive
from nodemanager.journal.sqlite import SqliteJournal
from nodemanager.journal.sweep import replay
from tests.actors.conftest import MakeRig, clock, make_rig
from tests.actors.rig import Rig
from tests.fakes import FakeCloud, FakeStore, TickingClock, fail
from tests.fakes.clock import ManualClock
from tests.journal.random_world import RandomWorld

pytestmark = pytest.mark.slow

__all__ = ["clock", "make_rig"]
HOUR = 3600.0


def recorded(path: Path, seed: int) -> RandomWorld:
    journal = SqliteJournal(path, pool="main", clock=ManualClock(), boot_id="boot")
    world = RandomWorld(seed, journal)
    for decision in world.run(60):
        journal.decided(decision)
    journal.close()
    return world


@pytest.mark.parametrize("seed", [0, 3, 19, 22])
def test_a_random_world_replays_to_its_own_verdicts_and_to_windows_far_apart(
    seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever is recorded, no scenario may fail; and what is freed sooner is freed."""
    monkeypatch.setattr(recording, "SEGMENT_DECISIONS", 17)
    path = tmp_path / "journal.db"
    world = recorded(path, seed)
    seen = outline(path)
    assert seen.decisions == len(world.plans)
    windows = (world.settings.node_stale_after, 60.0, 600.0, 1e6)
    made = replay(path, seen, [{"node_stale_after": one} for one in windows])
    assert made.differing == 0
    again, *others = (weigh(made.recorded, one, made.walls) for one in made.others)
    assert (again.moves, again.boots, again.boots_lost) == ((), 0, 0)
    for other in others:
        assert all(move.after is not None for move in other.moves if move.gain_s > 0)
        assert all(move.before is not None for move in other.moves if move.gain_s < 0)


def test_a_recorded_journal_replays_to_the_verdicts_it_has(tmp_path: Path) -> None:
    """The incident of conftest, as it was recorded on 22 November.

    A rule that changes on purpose may change its verdicts: then record it anew, and say so.
    """
    path = tmp_path / "journal.db"
    packed = Path(__file__).parent / "recorded" / "incident.db.xz"
    path.write_bytes(lzma.decompress(packed.read_bytes()))
    seen = outline(path)
    made = replay(path, seen, [{}, {"node_stale_after": 900.0, "poll_stale_after": 450.0}])
    assert (seen.decisions, made.differing) == (187, 0)
    again, sooner = (weigh(made.recorded, other, made.walls) for other in made.others)
    assert again.moves == ()
    assert [round(move.gain_s) for move in sooner.moves] == [900, 900, 900]


@pytest.mark.parametrize("seed", range(4, 6))
def test_a_lane_with_the_recorded_settings_decides_from_the_recorded_snapshots(
    seed: int, tmp_path: Path
) -> None:
    path = tmp_path / "journal.db"
    world = recorded(path, seed)
    plans = iter(world.plans)
    for _, (made,) in drive(read(path), [Scenario({}, acts=True)], ScenarioState()):
        expected = next(plans)
        assert made.records == expected.records
        assert made.breaker == expected.breaker
        assert made.boots == expected.boots


def test_another_window_of_claims_is_replayed_though_each_keeps_the_one_it_was_made_with(
    make_rig: MakeRig, tmp_path: Path, clock: TickingClock
) -> None:
    """C21, S6: the replay asks what would have been, had they been made under that window."""
    path = tmp_path / "journal.db"
    journal = SqliteJournal(path, pool="pool", clock=clock)
    rig = make_rig(
        cloud=FakeCloud(clock),
        store=FakeStore(clock),
        journal=journal,
        min_nodes=1,
        max_nodes=1,
        boot_fail_after=600,
        backlog="clean",
        claim_expiry="on",
    )
    rig.cloud.takes_client_tokens = False
    rig.cloud.always("create", fail(CloudError("timed out")))
    rig.start()
    rig.turn(1200)
    journal.close()
    recorded, longer = replay(
        path, outline(path), [{"boot_fail_after": 600.0}, {"boot_fail_after": 1800.0}]
    ).others
    assert any(end.reason is Reason.CLAIM_EXPIRED for end in recorded.ends.values())
    assert longer.ends == {}


def test_what_a_dry_run_ordered_is_taken_as_done(
    make_rig: MakeRig, tmp_path: Path, clock: TickingClock
) -> None:
    path = tmp_path / "journal.db"
    journal = SqliteJournal(path, pool="pool", clock=clock)
    rig: Rig = make_rig(
        cloud=FakeCloud(clock), store=FakeStore(clock), journal=journal, backlog="clean"
    )
    machine, record = rig.fleet.add_node(age=10 * HOUR, pinged_ago=0.0)
    rig.cloud.vanish(machine.node.id)
    rig.start(dry_run=True)
    rig.turn(3 * HOUR)
    journal.close()
    assert rig.store.rows[record.uuid].holds_slot
    seen = outline(path)
    assert not seen.acts
    made = replay(path, seen, [{"node_stale_after": HOUR}, {"node_stale_after": 2.5 * HOUR}])
    assert made.differing == 0
    (end,) = made.recorded.ends.values()
    assert end.life.record == record.uuid
    sooner, later = (weigh(made.recorded, one, made.walls) for one in made.others)
    assert sooner.slot_s == pytest.approx(HOUR, abs=1.0)
    assert later.slot_s == pytest.approx(-HOUR / 2, abs=1.0)


def test_a_restart_in_between_loses_no_life(
    make_rig: MakeRig, tmp_path: Path, clock: TickingClock
) -> None:
    path = tmp_path / "journal.db"
    journal = SqliteJournal(path, pool="pool", clock=clock)
    rig: Rig = make_rig(
        cloud=FakeCloud(clock),
        store=FakeStore(clock),
        journal=journal,
        backlog="clean",
        node_stale_after=HOUR,
    )
    machine, record = rig.fleet.add_node(age=10 * HOUR, pinged_ago=0.0)
    rig.cloud.vanish(machine.node.id)
    rig.start()
    rig.turn(HOUR / 2)
    rig.kill()
    rig.start()
    rig.turn(HOUR)
    journal.close()
    assert not rig.store.rows[record.uuid].holds_slot
    made = replay(path, outline(path), [{"node_stale_after": 900.0, "poll_stale_after": 450.0}])
    assert made.differing == 0
    (balance,) = (weigh(made.recorded, one, made.walls) for one in made.others)
    assert [move.life.record for move in balance.moves] == [record.uuid]
    assert balance.slot_s == pytest.approx(HOUR - 900, abs=1.0)
