"""`wishlist_command` as a real process: what it prints, and every way it can fail."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

import pytest

from nodemanager.core.model import Job
from nodemanager.schedulers import wishlist
from nodemanager.schedulers.wishlist import WishlistCommand, WishlistError


def says(*lines: str, code: int = 0, timeout: float = 20.0) -> WishlistCommand:
    program = "import sys\n" + "".join(f"print({line!r})\n" for line in lines)
    return WishlistCommand((sys.executable, "-c", f"{program}sys.exit({code})"), timeout)


def shell(script: str, *, timeout: float = 20.0) -> WishlistCommand:
    return WishlistCommand(("sh", "-c", script), timeout)


def test_one_object_a_line_is_one_job() -> None:
    command = says(
        '{"id": "1", "cores": 4, "ram_mb": 8000, "scratch_mb": 10, "count": 3}',
        "",
        '{"id": 2, "preemptible": true, "instance_type": "m5.large"}',
    )
    assert command() == (
        Job("1", cores=4, ram_mb=8000, scratch_mb=10, count=3),
        Job("2", preemptible=True, instance_type="m5.large"),
    )


def test_nothing_printed_is_an_empty_queue() -> None:
    assert says()() == ()


def test_more_than_a_pipe_holds_is_read_whole() -> None:
    command = shell("""i=0; while [ $i -lt 4000 ]; do echo '{"id": "job-with-a-long-name"}';
        echo noise noise noise >&2; i=$((i+1)); done""")
    assert len(command()) == 4000


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        pytest.param("{", "line 1", id="not-json"),
        pytest.param("[1]", "not a JSON object", id="a-list"),
        pytest.param('{"cores": 1}', "no 'id'", id="no-id"),
        pytest.param('{"id": "1", "core": 1}', "unknown key 'core'", id="unknown-key"),
        pytest.param('{"id": "1", "cores": -1}', "cores = -1", id="negative"),
        pytest.param('{"id": "1", "cores": 1.5}', "cores = 1.5", id="fraction"),
        pytest.param('{"id": "1", "count": true}', "count = True", id="truth"),
        pytest.param('{"id": "1", "preemptible": 1}', "preemptible = 1", id="number"),
        pytest.param('{"id": "1", "instance_type": 5}', "instance_type = 5", id="no-name"),
    ],
)
def test_bad_output_is_a_failed_poll_and_no_empty_queue(line: str, problem: str) -> None:
    with pytest.raises(WishlistError, match=problem):
        says(line)()


def test_output_with_a_bad_line_among_good_ones_is_not_used_in_part() -> None:
    with pytest.raises(WishlistError, match="line 2"):
        says('{"id": "1"}', "oops", '{"id": "3"}')()


def test_a_failing_command_is_quoted_by_its_last_line() -> None:
    with pytest.raises(WishlistError, match=r"exited 3: squeue: can't connect"):
        shell('echo \'{"id": "1"}\'; echo "squeue: can\'t connect" >&2; exit 3')()


def test_a_command_that_is_not_there_is_named() -> None:
    with pytest.raises(WishlistError, match="no-such-program"):
        WishlistCommand(("/no-such-program",), 5.0)()


def test_a_command_that_takes_too_long_is_ended_with_all_it_started(tmp_path: Path) -> None:
    pid_file = tmp_path / "pid"
    began = time.monotonic()
    with pytest.raises(WishlistError, match=r"took over 0\.5 s"):
        shell(f"sleep 600 & echo $! > {pid_file}; wait", timeout=0.5)()
    assert time.monotonic() - began < 10
    assert_ends(int(pid_file.read_text(encoding="ascii")))


def test_a_child_that_keeps_the_pipe_open_does_not_keep_us(tmp_path: Path) -> None:
    pid_file = tmp_path / "pid"
    with pytest.raises(WishlistError, match=r"took over 0\.5 s"):
        shell(f"sleep 600 & echo $! > {pid_file}; exit 0", timeout=0.5)()
    assert_ends(int(pid_file.read_text(encoding="ascii")))


def test_endless_output_is_cut_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wishlist, "MAX_OUTPUT", 100_000)
    with pytest.raises(WishlistError, match="over 100000 bytes"):
        shell("yes", timeout=30.0)()


def test_the_words_reach_the_command_without_a_shell(tmp_path: Path) -> None:
    marker = tmp_path / "made-by-a-shell"
    script = "import sys, json; print(json.dumps({'id': sys.argv[1]}))"
    command = WishlistCommand((sys.executable, "-c", script, f"$(touch {marker})"), 20.0)
    assert command()[0].id == f"$(touch {marker})"
    assert not marker.exists()


def assert_ends(pid: int) -> None:
    """The process is gone, or a zombie that its own parent has to reap, within some seconds."""
    deadline = time.monotonic() + 10
    while time.monotonic() < deadline:
        try:
            os.kill(pid, 0)
            state = (
                Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rsplit(")", 1)[1].split()[0]
            )
        except (ProcessLookupError, FileNotFoundError):
            return
        if state == "Z":
            return
        time.sleep(0.01)
    raise AssertionError(f"process {pid} lives on")
