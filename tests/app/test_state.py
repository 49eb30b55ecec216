"""The state directory: one daemon a pool, and facts that outlive it; real processes and files."""

from __future__ import annotations

import json
import os
import signal
import stat
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from nodemanager.actors.daemon.remembered import RememberedBacklog, RememberedIdentity
from nodemanager.app.state import LeaseTaken, StateDirectory
from nodemanager.errors import StartError
from tests.cases import cases
from tests.fakes.clock import ManualClock

HOLDS_THE_LEASE = """
import subprocess, sys
from nodemanager.actors.daemon.remembered import RememberedIdentity
from nodemanager.app.state import LeaseTaken, StateDirectory
lease = StateDirectory(sys.argv[1]).lock()
child = subprocess.Popen(["sleep", "60"], close_fds=False, stdout=subprocess.DEVNULL)
print(child.pid, flush=True)
sys.stdin.read()
"""


@pytest.fixture
def state(tmp_path: Path) -> StateDirectory:
    return StateDirectory(tmp_path / "pool")


@pytest.fixture
def holder(state: StateDirectory) -> Iterator[tuple[subprocess.Popen[str], int]]:
    """Another process that holds the lease, and the pid of a child that it started since."""
    process = subprocess.Popen(
        [sys.executable, "-c", HOLDS_THE_LEASE, str(state.path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    child = int(process.stdout.readline())
    yield process, child
    process.kill()
    os.kill(child, signal.SIGKILL)
    process.communicate()


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_it_and_all_in_it_are_the_owners_alone(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        state = StateDirectory(tmp_path / "deep" / "pool")
        state.remember("store", "x")
        state.token("management")
        with_lock = state.lock()
    finally:
        os.umask(before)
    assert mode(state.path) == 0o700
    assert {path.name: mode(path) for path in state.path.iterdir()} == {
        "facts.json": 0o600,
        "management.token": 0o600,
        "lock": 0o600,
    }
    with_lock.release()


@pytest.mark.parametrize("bits", [0o770, 0o702], ids=["group", "world"])
def test_a_directory_that_others_may_write_is_refused_with_the_command(
    bits: int, tmp_path: Path
) -> None:
    tmp_path.chmod(bits)
    with pytest.raises(StartError) as refused:
        StateDirectory(tmp_path)
    assert f"chmod 0700 {tmp_path}" in str(refused.value)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a directory away")
def test_another_users_directory_is_refused_with_what_to_do(tmp_path: Path) -> None:
    os.chown(tmp_path, 65534, -1)
    with pytest.raises(StartError) as refused:
        StateDirectory(tmp_path)
    assert "belongs to user 65534" in str(refused.value)
    assert "chown" in str(refused.value)


def test_a_file_in_its_place_is_refused(tmp_path: Path) -> None:
    (tmp_path / "pool").touch()
    with pytest.raises(StartError) as refused:
        StateDirectory(tmp_path / "pool")
    assert "is not a directory" in str(refused.value)


def test_a_second_daemon_is_told_which_process_holds_the_pool(
    state: StateDirectory, holder: tuple[subprocess.Popen[str], int]
) -> None:
    with pytest.raises(StartError) as refused:
        state.lock()
    assert f"pid {holder[0].pid} since 20" in str(refused.value)


def test_a_killed_daemon_holds_nothing_though_its_children_live(
    state: StateDirectory, holder: tuple[subprocess.Popen[str], int]
) -> None:
    process, child = holder
    process.kill()
    process.wait(10)
    os.kill(child, 0)
    lease = state.lock()
    assert lease.held
    lease.release()


def test_a_released_lease_can_be_had_again_and_says_since_when(tmp_path: Path) -> None:
    state = StateDirectory(tmp_path / "pool", clock=ManualClock(wall=0.0))
    lease = state.lock()
    assert (
        state.path / "lock"
    ).read_text() == f"pid {os.getpid()} since 1970-01-01T00:00:00.000Z\n"
    lease.release()
    lease.release()
    assert not lease.held
    assert (state.path / "lock").read_text() == ""
    state.lock().release()


def test_a_lock_file_that_was_removed_is_no_lease_any_more(state: StateDirectory) -> None:
    lease = state.lock()
    (state.path / "lock").unlink()
    assert not lease.held
    lease.release()


def test_a_lock_file_that_was_removed_is_put_back(state: StateDirectory) -> None:
    """L6, N23."""
    lease = state.lock()
    (state.path / "lock").unlink()
    lease.regain(ManualClock())
    assert lease.held
    with pytest.raises(StartError, match=f"pid {os.getpid()} since"):
        state.lock()
    lease.release()
    state.lock().release()


@pytest.mark.parametrize("ended", [True, False], ids=["that-ended", "that-runs"])
def test_a_lease_that_another_has_taken_since_is_never_regained(
    state: StateDirectory, ended: bool
) -> None:
    """L6, N23: what we know by heart may not be so any more."""
    lease = state.lock()
    (state.path / "lock").unlink()
    other = state.lock()
    if ended:
        other.release()
    for _ in range(2):
        with pytest.raises(LeaseTaken, match="another daemon has made"):
            lease.regain(ManualClock())
    assert not lease.held


def test_a_lease_is_regained_once_its_directory_is_there_again(state: StateDirectory) -> None:
    """N23."""
    lease = state.lock()
    elsewhere = state.path.with_name("elsewhere")
    state.path.rename(elsewhere)
    with pytest.raises(StartError, match="No such file"):
        lease.regain(ManualClock())
    elsewhere.rename(state.path)
    assert lease.held
    lease.regain(ManualClock())
    assert lease.held


def test_a_fact_is_known_to_the_next_process(state: StateDirectory) -> None:
    state.remember("store", "id-1")
    state.remember("count", 3)
    again = StateDirectory(state.path)
    assert (again.recall("store"), again.recall("count"), again.recall("x")) == ("id-1", 3, None)
    again.remember("store", None)
    assert state.recall("store") is None
    assert state.recall("count") == 3


def test_the_first_store_seen_is_the_one_that_counts(state: StateDirectory) -> None:
    identity = RememberedIdentity(state, writes=True)
    assert identity.check("store", "id-1") is None
    assert identity.check("store", "id-1") is None
    different = identity.check("store", "id-2")
    assert different is not None
    assert "known before (id-1) but id-2" in different
    again = RememberedIdentity(StateDirectory(state.path), writes=True)
    assert again.check("store", "id-2") == different
    assert identity.check("account", "id-2") is None


def test_what_a_crash_left_half_written_is_not_read(state: StateDirectory) -> None:
    state.remember("store", "id-1")
    (state.path / "facts.json.new").write_text('{"format": 1, "fac')
    assert state.recall("store") == "id-1"
    state.remember("store", "id-2")
    assert state.recall("store") == "id-2"
    assert not (state.path / "facts.json.new").exists()


@cases(
    "content",
    {
        "empty": b"",
        "cut": b'{"format": 1, "fac',
        "other-json": b"[]",
        "other-shape": b'{"format": 1, "facts": []}',
        "binary": b"\xff\xfe\x00",
    },
)
def test_a_corrupt_file_is_reported_and_never_replaced(
    content: bytes, state: StateDirectory
) -> None:
    file = state.path / "facts.json"
    file.write_bytes(content)
    for use in (
        lambda: state.recall("store"),
        lambda: state.remember("store", "x"),
        lambda: RememberedIdentity(state, writes=True).check("store", "x"),
    ):
        with pytest.raises(StartError) as refused:
            use()
        assert f"{file} can't be read" in str(refused.value)
        assert "restore it" in str(refused.value)
    assert file.read_bytes() == content


def test_a_newer_programs_file_is_refused(state: StateDirectory) -> None:
    (state.path / "facts.json").write_text(json.dumps({"format": 2, "facts": {}}))
    with pytest.raises(StartError) as refused:
        state.recall("store")
    assert "newer program" in str(refused.value)


def test_a_token_is_made_once_and_differs_by_name(state: StateDirectory) -> None:
    made = state.token("management")
    assert len(made) >= 43
    assert StateDirectory(state.path).token("management") == made
    assert state.token("registry") != made


@pytest.mark.parametrize("content", ["", " \n", "two words\n"], ids=["empty", "blank", "words"])
def test_a_token_file_without_a_token_is_reported_and_left(
    content: str, state: StateDirectory
) -> None:
    file = state.path / "management.token"
    file.write_text(content)
    with pytest.raises(StartError) as refused:
        state.token("management")
    assert str(file) in str(refused.value)
    assert file.read_text() == content


def test_a_link_in_place_of_a_file_is_not_followed(state: StateDirectory, tmp_path: Path) -> None:
    (tmp_path / "elsewhere").write_text("theirs")
    for name in ("lock", "management.token"):
        (state.path / name).symlink_to(tmp_path / "elsewhere")
    with pytest.raises(StartError):
        state.lock()
    with pytest.raises(StartError):
        state.token("management")
    assert (tmp_path / "elsewhere").read_text() == "theirs"


@pytest.mark.parametrize("name", ["../x", "", "A", "a/b"])
def test_a_name_can_not_lead_out_of_the_directory(name: str, state: StateDirectory) -> None:
    with pytest.raises(ValueError, match="name"):
        state.token(name)


def test_threads_that_remember_at_once_lose_nothing(state: StateDirectory) -> None:
    threads = [
        threading.Thread(target=state.remember, args=(f"fact-{number}", number))
        for number in range(16)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert [state.recall(f"fact-{number}") for number in range(16)] == list(range(16))


# What is remembered (L5, S5).


def test_the_first_store_seen_is_the_known_one_and_another_is_told(state: StateDirectory) -> None:
    identity = RememberedIdentity(state, writes=True)
    assert identity.check("store", "one") is None
    assert identity.check("store", "one") is None
    problem = RememberedIdentity(state, writes=True).check("store", "two")
    assert problem is not None
    assert "one" in problem
    assert "two" in problem
    assert str(state.path) in problem


def test_a_dry_run_compares_and_remembers_nothing(state: StateDirectory) -> None:
    dry = RememberedIdentity(state, writes=False)
    assert dry.check("store", "one") is None
    assert dry.check("store", "two") is None
    assert state.recall("store") is None
    state.remember("store", "one")
    assert dry.check("store", "two") is not None


def test_a_backlog_is_remembered_over_a_restart_also_when_it_is_empty(
    state: StateDirectory,
) -> None:
    assert RememberedBacklog(state).load() == (True, frozenset())
    RememberedBacklog(state).save(frozenset({"a@1", "b@2"}))
    assert RememberedBacklog(state).load() == (False, frozenset({"a@1", "b@2"}))
    RememberedBacklog(state).save(frozenset())
    assert RememberedBacklog(state).load() == (False, frozenset())


def test_the_count_of_heartbeats_is_not_put_back_with_the_facts(tmp_path: Path) -> None:
    """L5: facts that the managers share may be in the database that is restored."""
    own, shared = StateDirectory(tmp_path / "own"), StateDirectory(tmp_path / "shared")
    identity = RememberedIdentity(shared, writes=True, own=own)
    assert identity.check_age("s-1", 10) is None
    for file in shared.path.glob("facts.json"):
        file.unlink()
    again = RememberedIdentity(shared, writes=True, own=own)
    problem = again.check_age("s-1", 7)
    assert problem is not None
    assert "from 10 to 7" in problem
    assert shared.recall("restored") == "s-1 from 10 to 7", "every manager is told"
