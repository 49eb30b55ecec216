"""The processes of `make proof NAME=openstack` end with it, however it ends."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.live.harness import environment
from tests.openstack.processes import Broken, Processes
from tests.waiting import runs, until

HOLDER = """
import sys, time
from pathlib import Path
from tests.openstack.processes import Processes
processes = Processes(Path(sys.argv[1]))
processes.start("sleeper", ["sleep", "1000"])
print(processes.group("sleeper"), flush=True)
time.sleep(1000)
"""


def test_the_end_takes_a_process_and_all_it_started(tmp_path: Path) -> None:
    processes = Processes(tmp_path / "logs")
    processes.start("parent", ["sh", "-c", "sleep 1000 & echo $!; trap '' TERM; wait; wait"])
    until("its child", lambda: processes.log("parent").read_text())
    child = int(processes.log("parent").read_text())
    parent = processes.group("parent")
    os.killpg(parent, signal.SIGSTOP)
    processes.end()
    assert not runs(parent)
    until("no child", lambda: not runs(child))
    with pytest.raises(Broken, match="everything ends"):
        processes.start("late", ["sleep", "1"])


def test_a_process_that_fails_is_told_with_its_last_words(tmp_path: Path) -> None:
    processes = Processes(tmp_path / "logs")
    with pytest.raises(Broken, match=r"setup ended with 3; it said last:\nno such table"):
        processes.once("setup", ["sh", "-c", "echo no such table; exit 3"])


def test_a_kill_of_ours_leaves_no_process(tmp_path: Path) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(tmp_path / "logs")],
        stdout=subprocess.PIPE,
        text=True,
        env=environment(),
    ) as holder:
        assert holder.stdout is not None
        sleeper = int(holder.stdout.readline())
        # Who dies before setpriv has told the kernel leaves it.
        comm = Path(f"/proc/{sleeper}/comm")
        until("it sleeps", lambda: comm.read_text().strip() == "sleep")
        holder.kill()
    until("no sleeper", lambda: not runs(sleeper))
