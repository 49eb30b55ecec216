"""`wishlist_command` as a real process: what it prints, and every way it can fail."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

import pytest

from nodemanager.core.model.reasons import Reason
from nodemanager.core.model.world import Job
from nodemanager.errors import SchedulerError
from nodemanager.lib import program
from nodemanager.lib.program import ENVIRONMENT
from nodemanager.schedulers.wishlist import WishlistCommand
from tests.cases import cases
from tests.waiting import runs, until


def says(*lines: str, code: int = 0, timeout: float = 20.0) -> WishlistCommand:
    text = "".join(f"{line}\n" for line in lines)
    return shell(f"cat <<'END'\n{text}END\nexit {code}", timeout=timeout)


def shell(script: str, *, timeout: float = 20.0) -> WishlistCommand:
    return WishlistCommand(("sh", "-c", script), timeout)


def test_one_object_a_line_is_one_job() -> None:
    command = says(
        '{"id": "1", "cores": 4, "ram_mb": 8000, "scratch_mb": 10, "count": 3}',
        "",
        '{"id": 2, "preemptible": true, "instance_type": "m5.large"}',
        '{"id": 3, "features": ["ssd", "rack1"], "gres": "gpu:t4:2"}',
    )
    assert command.queue() == (
        Job("1", cores=4, ram_mb=8000, scratch_mb=10, count=3),
        Job("2", preemptible=True, instance_type="m5.large"),
        Job("3", features=(("rack1", "ssd"),), gres=(("gpu", 2), ("gpu:t4", 2))),
    )


def test_nothing_printed_is_an_empty_queue() -> None:
    assert says().queue() == ()


def test_more_than_a_pipe_holds_is_read_whole() -> None:
    command = shell("""i=0; while [ $i -lt 4000 ]; do echo '{"id": "job-with-a-long-name"}';
        echo noise noise noise >&2; i=$((i+1)); done""")
    assert len(command.queue()) == 4000


@cases(
    ("line", "problem"),
    {
        "not-json": ("{", "line 1"),
        "a-list": ("[1]", "not a JSON object"),
        "no-id": ('{"cores": 1}', "no 'id'"),
        "an-error-of-the-program": ('{"error": "no answer"}', "no 'id'"),
        "no-text": ('{"id": null}', "id = None"),
        "endless-id": (f'{{"id": "{"x" * 300}"}}', "id = 'xxx"),
        "5000-digits": ('{"id": "1", "count": 1' + "0" * 5000 + "}", "line 1"),
    },
)
def test_bad_output_is_a_failed_poll_and_no_empty_queue(line: str, problem: str) -> None:
    with pytest.raises(SchedulerError, match=problem):
        says(line).queue()


@cases(
    ("fields", "problem"),
    {
        "unknown-key": ('"core": 1', "unknown key 'core'"),
        "no-list": ('"features": "ssd"', "features = 'ssd'"),
        "no-resource": ('"gres": "2"', "no resource"),
        "negative": ('"cores": -1', "cores = -1"),
        "text": ('"cores": "4"', "cores = '4'"),
        "not-a-number": ('"cores": NaN', "cores = nan"),
        "infinite": ('"ram_mb": 1e999', "ram_mb = inf is over"),
        "part-of-a-node": ('"count": 1.5', "count = 1.5"),
        "truth": ('"count": true', "count = True"),
        "number": ('"preemptible": 1', "preemptible = 1"),
        "no-name": ('"instance_type": 5', "instance_type = 5"),
        "400-digits": ('"ram_mb": 1' + "0" * 400, "ram_mb = 1000"),
        "count": ('"count": 1' + "0" * 400, "is over 1000000"),
        "too-many": ('"count": 1000001', "count = 1000001 is over"),
    },
)
def test_a_bad_field_concerns_its_job_alone_which_is_told_by_its_id(
    fields: str, problem: str
) -> None:
    before, bad, after = says('{"id": "1"}', f'{{"id": "x", {fields}}}', '{"id": "3"}').queue()
    assert (before, after) == (Job("1"), Job("3"))
    assert bad.id == "x"
    assert bad.unserved is not None
    assert bad.unserved.reason is Reason.JOB_UNREADABLE
    assert "line 2" in bad.unserved.detail
    assert problem in bad.unserved.detail
    assert len(bad.unserved.detail) < 300


def test_numbers_may_be_written_as_other_programs_write_them() -> None:
    (job,) = says(
        '{"id": 1, "ram_mb": 8192.0, "scratch_mb": 1e4, "cores": 0.5, "count": 2.0}'
    ).queue()
    assert job == Job("1", cores=1, ram_mb=8192, scratch_mb=10_000, count=2)
    assert all(type(one) is int for one in (job.cores, job.ram_mb, job.scratch_mb, job.count))


@pytest.mark.parametrize("opening", ["[", '{"a":'])
def test_output_that_is_nested_without_an_end_is_a_failed_poll(opening: str) -> None:
    """X8: it ended the daemon."""
    command = shell(f"yes '{opening}' | head -n 200000 | tr -d '\\n'")
    with pytest.raises(SchedulerError, match="line 1: is nested too deep") as caught:
        command.queue()
    assert len(str(caught.value)) < 300


def test_no_error_quotes_endless_output() -> None:
    """X8."""
    for line in ('{"id": "1", "preemptible": "%s"}', '{"id": "1", "%s": 1}'):
        (job,) = says(line % ("x" * 100_000)).queue()
        assert job.unserved is not None
        assert len(job.unserved.detail) < 300


def test_the_command_gets_what_finds_programs_and_none_of_our_secrets(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """X16."""
    for name in ("AWS_SECRET_ACCESS_KEY", "NOTIFY_SOCKET", "CREDENTIALS_DIRECTORY", "PGPASSWORD"):
        monkeypatch.setenv(name, "secret")
    monkeypatch.setenv("SLURM_CONF", "/etc/slurm.conf")
    monkeypatch.setenv("LC_ALL", "C.UTF-8")
    (job,) = shell("""printf '{"id": "%s"}' "$(env | cut -d= -f1 | sort | tr '\n' ' ')" """).queue()
    names = set(job.id.split())
    assert {"PATH", "SLURM_CONF", "LC_ALL"} <= names
    ours = {"PWD", "SHLVL", "OLDPWD", "_", "LC_ALL", "SLURM_CONF", program.MARK}
    assert names - ours <= ENVIRONMENT | {
        name for name in os.environ if name.startswith(("LC_", "SLURM_"))
    }


def test_what_waits_from_poll_to_poll_is_the_same_object() -> None:
    command = shell("exit 1")
    first, second, unread = b'{"id": "1"}', b'{"id": "2", "cores": 4}', b'{"id": "3", "cores": -1}'
    one, other, problem = command.read(b"\n".join((first, second, unread)))
    with pytest.raises(SchedulerError, match="line 2"):
        command.read(b"\n".join((second, b"oops")))
    again, new, moved = command.read(b"\n".join((second, b'{"id": "1", "cores": 2}', b"", unread)))
    assert again is other
    assert new == Job("1", cores=2) != one
    assert problem.unserved is not None
    assert moved.unserved is not None
    assert ("line 3" in problem.unserved.detail, "line 4" in moved.unserved.detail) == (True, True)


def test_output_with_a_bad_line_among_good_ones_is_not_used_in_part() -> None:
    with pytest.raises(SchedulerError, match="line 2"):
        says('{"id": "1"}', "oops", '{"id": "3"}').queue()


def test_a_failing_command_is_quoted_by_its_last_line() -> None:
    with pytest.raises(SchedulerError, match=r"exited 3: squeue: can't connect"):
        shell('echo \'{"id": "1"}\'; echo "squeue: can\'t connect" >&2; exit 3').queue()


def test_a_command_that_is_not_there_is_named() -> None:
    with pytest.raises(SchedulerError, match="no-such-program"):
        WishlistCommand(("/no-such-program",), 5.0).queue()


@pytest.mark.slow
def test_a_command_that_takes_too_long_is_ended_with_all_it_started(tmp_path: Path) -> None:
    pid_file = tmp_path / "pid"
    began = time.monotonic()
    with pytest.raises(SchedulerError, match=r"took over 0\.5 s"):
        shell(f"sleep 600 & echo $! > {pid_file}; wait", timeout=0.5).queue()
    assert time.monotonic() - began < 10
    assert_ends(pid_file)


@pytest.mark.slow
def test_a_child_that_keeps_the_pipe_open_does_not_keep_us(tmp_path: Path) -> None:
    pid_file = tmp_path / "pid"
    with pytest.raises(SchedulerError, match=r"took over 0\.5 s"):
        shell(f"sleep 600 & echo $! > {pid_file}; exit 0", timeout=0.5).queue()
    assert_ends(pid_file)


@pytest.mark.slow
@pytest.mark.parametrize("end", ["wait", "exit 0"])
def test_a_child_with_a_session_of_its_own_is_ended_too(tmp_path: Path, end: str) -> None:
    pid_file = tmp_path / "pid"
    forks = f"setsid sh -c 'echo $$ > {pid_file}; exec sleep 600' >&- 2>&- &"
    waits = f"while [ ! -s {pid_file} ]; do sleep 0.05; done"
    try:
        shell(f"{forks} {waits}; {end}", timeout=3.0).queue()
    except SchedulerError:
        assert end == "wait"
    assert_ends(pid_file)


def test_endless_output_is_cut_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(program, "MAX_OUTPUT", 100_000)
    with pytest.raises(SchedulerError, match="over 100000 bytes"):
        shell("yes", timeout=30.0).queue()


def test_the_words_reach_the_command_without_a_shell(tmp_path: Path) -> None:
    marker = tmp_path / "made-by-a-shell"
    script = "import sys, json; print(json.dumps({'id': sys.argv[1]}))"
    command = WishlistCommand((sys.executable, "-c", script, f"$(touch {marker})"), 20.0)
    assert command.queue()[0].id == f"$(touch {marker})"
    assert not marker.exists()


def assert_ends(pid_file: Path) -> None:
    pid = int(pid_file.read_text(encoding="ascii"))
    until(f"the end of process {pid}", lambda: not runs(pid))
