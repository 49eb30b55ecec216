"""A registry restored from a backup: the same id, and fewer heartbeats (L5, N26)."""

from __future__ import annotations

import sqlite3
from pathlib import Path

from nodemanager.actors.daemon.remembered import RememberedIdentity
from nodemanager.app.state import StateDirectory
from tests.registry.conftest import make_store


def beats(path: Path, *, times: int = 1) -> tuple[str, int]:
    """The store's id, and its count after so many heartbeats of a manager."""
    store = make_store(path)
    try:
        for _ in range(times):
            told = store.store_time()
        assert store.store_time(writes=False).beats == told.beats
        assert told.beats is not None
        return store.store_id(), told.beats
    finally:
        store.close()


def test_a_database_from_a_backup_counts_fewer_heartbeats_and_is_noticed_l5(
    tmp_path: Path,
) -> None:
    """L5, N26: by a manager, and by its next run, however far the count comes meanwhile."""
    live, backup = tmp_path / "live.db", tmp_path / "backup.db"
    identity = RememberedIdentity(StateDirectory(tmp_path / "state"), writes=True)
    store_id, first = beats(live, times=3)
    assert first == 3
    with sqlite3.connect(live) as source, sqlite3.connect(backup) as copy:
        source.backup(copy)
    assert identity.check_age(*beats(live, times=5)) is None
    found = beats(backup)
    assert found == (store_id, 4)
    told = identity.check_age(*found)
    assert told is not None
    assert "from 8 to 4" in told
    state = StateDirectory(tmp_path / "state")
    assert RememberedIdentity(state, writes=True).check_age(*beats(backup, times=20)) is not None
    state.remember("restored", None)
    assert identity.check_age(*beats(backup)) is None


def test_a_standby_that_lacks_one_heartbeat_is_noticed_though_the_next_one_makes_it_up_l5(
    tmp_path: Path,
) -> None:
    live, standby = tmp_path / "live.db", tmp_path / "standby.db"
    identity = RememberedIdentity(StateDirectory(tmp_path / "state"), writes=True)
    assert identity.check_age(*beats(live, times=3)) is None
    with sqlite3.connect(live) as source, sqlite3.connect(standby) as copy:
        source.backup(copy)
    assert identity.check_age(*beats(live)) is None
    told = identity.check_age(*beats(standby))
    assert told is not None
    assert "from 4 to 4" in told


def test_a_dry_run_reads_the_same_count_again_and_again_l5(tmp_path: Path) -> None:
    path = tmp_path / "live.db"
    dry = RememberedIdentity(StateDirectory(tmp_path / "state"), writes=False)
    RememberedIdentity(StateDirectory(tmp_path / "state"), writes=True).check_age(*beats(path))
    store = make_store(path)
    try:
        for _ in range(3):
            told = store.store_time(writes=False)
            assert dry.check_age(store.store_id(), told.beats or 0) is None
    finally:
        store.close()


def test_another_store_is_held_against_no_count_of_the_former_l5(tmp_path: Path) -> None:
    """L5: its id tells it; once an operator wants it, its own count begins."""
    identity = RememberedIdentity(StateDirectory(tmp_path / "state"), writes=True)
    assert identity.check_age(*beats(tmp_path / "one.db", times=9)) is None
    assert identity.check_age(*beats(tmp_path / "other.db")) is None


def test_an_answer_that_another_manager_overtook_is_no_backup_l5(tmp_path: Path) -> None:
    """L5: a lease is taken over, or a dry run runs beside, and their answers come in any order."""
    path = tmp_path / "live.db"
    state = StateDirectory(tmp_path / "state")
    ours, dry = (RememberedIdentity(state, writes=one) for one in (True, False))
    slow = beats(path, times=5)
    theirs = RememberedIdentity(StateDirectory(tmp_path / "state"), writes=True)
    assert theirs.check_age(*beats(path)) is None
    assert ours.check_age(*slow) is None
    assert dry.check_age(*slow) is None
    # What they had kept is not lost by that.
    told = ours.check_age(*slow)
    assert told is not None
    assert "from 6 to 5" in told
