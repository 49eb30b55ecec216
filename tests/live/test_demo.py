"""What `make run` runs, on a terminal: the shipped script, the shipped file, the real daemon."""

from __future__ import annotations

import os
import pty
import re
import select
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from nodemanager.cloud.local.__main__ import sweep
from nodemanager.cloud.local.state import StateDir
from tests.live.harness import TREE, environment
from tests.waiting import DEADLINE_S, until

pytestmark = [pytest.mark.live, pytest.mark.server("curl")]

CTRL_C = b"\x03"
ENTER = b"\n"
LINE = re.compile(
    r"(?:\^C)?\d\d:\d\d:\d\d (?P<level>WARNING |ERROR |CRITICAL |)(?P<event>\S+) +(?P<reason>\S*).*"
)


class Terminal:
    """A command on a terminal of its own, and what it shows there."""

    def __init__(self, command: list[str], cwd: Path) -> None:
        self._ours, theirs = pty.openpty()
        self.process = subprocess.Popen(
            ["setsid", "--ctty", *command],
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            cwd=cwd,
            env={**environment(), "NO_COLOR": "1"},
        )
        os.close(theirs)
        self._shown = b""

    def shown(self) -> str:
        while select.select([self._ours], [], [], 0)[0]:
            try:
                new = os.read(self._ours, 65536)
            except OSError:
                break  # Linux' word for: nobody has the other end any more.
            if not new:
                break
            self._shown += new
        return self._shown.decode("utf-8", "replace").replace("\r\n", "\n")

    def events(self, event: str) -> list[dict[str, str]]:
        """The events of that name, as a terminal shows them, each with its reason."""
        lines = (LINE.fullmatch(line) for line in self.shown().splitlines())
        return [found.groupdict() for found in lines if found and found["event"] == event]

    def press(self, keys: bytes) -> None:
        os.write(self._ours, keys)

    def close(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait(DEADLINE_S)
        os.close(self._ours)


@pytest.fixture
def state(tmp_path: Path) -> Iterator[Path]:
    yield tmp_path / "demo"
    sweep(tmp_path / "demo/local-cloud")


def test_make_run_s_script_shows_a_pair_and_ctrl_c_ends_daemon_and_nodes(
    tmp_path: Path, state: Path
):
    # Its two ports are fixed, and another demo may have them.
    shipped = (TREE / "etc/local.cfg").read_text(encoding="utf-8")
    config = tmp_path / "local.cfg"
    config.write_text(shipped.replace("= 8989", "= 0").replace("127.0.0.1:8990", "127.0.0.1:0"))
    script = [sys.executable, str(TREE / "etc/demo/run.py"), "start"]
    terminal = Terminal([*script, "--state", str(state), "--config", str(config)], tmp_path)
    try:
        until("a pair", lambda: terminal.events("node.paired"), told=terminal.shown)
        assert not terminal.events("config.warning")
        assert "WARNING" not in terminal.shown()
        nodes = [entry.process() for entry in StateDir(state / "local-cloud").all()]
        assert any(node is not None and node.alive for node in nodes)
        terminal.press(CTRL_C)

        until("its end", lambda: terminal.process.poll() is not None, told=terminal.shown)

        assert terminal.process.returncode == 0
        (stopped,) = terminal.events("daemon.stopped")
        assert stopped["reason"] == "SIGTERM"
        assert not any(node is not None and node.alive for node in nodes)
    finally:
        terminal.close()


@pytest.mark.server("postgresql")
def test_run_twos_script_kills_who_acts_at_enter_and_the_other_takes_over(
    tmp_path: Path, state: Path
):
    script = [sys.executable, str(TREE / "etc/demo/two.py"), "start"]
    terminal = Terminal([*script, "--state", str(state)], tmp_path)

    def said(event: str) -> list[str]:
        """Who said so, in order."""
        return re.findall(rf"^\s*(one|two) \| .* event={event}\b", terminal.shown(), re.M)

    try:
        until("pairs", lambda: len(said("node.paired")) >= 4, told=terminal.shown)
        until("a standby", lambda: said("lease.standby"), told=terminal.shown)
        (first,) = said("lease.acquired")
        terminal.press(ENTER)
        until("a takeover", lambda: len(said("lease.acquired")) == 2, told=terminal.shown)
        second = said("lease.acquired")[1]
        assert {first, second} == {"one", "two"}
        until("pairs anew", lambda: said("node.paired")[-1] == second, told=terminal.shown)
        until("a standby anew", lambda: said("lease.standby")[-1] == first, told=terminal.shown)
        assert not said("node.gone")
        database = (state / "database").resolve()
        terminal.press(CTRL_C)

        until("its end", lambda: terminal.process.poll() is not None, told=terminal.shown)

        assert terminal.process.returncode == 0
        assert not database.exists()
        left = [entry.process() for entry in StateDir(state / "local-cloud").all()]
        assert not any(node is not None and node.alive for node in left)
    finally:
        terminal.close()
        subprocess.run([*script[:2], "end", "--state", str(state)], check=True, timeout=60)


@pytest.mark.slurm
@pytest.mark.server("slurm", "munge")
def test_run_slurms_script_boots_a_node_for_a_job_and_ctrl_c_ends_slurm_too(
    tmp_path: Path, state: Path
):
    script = [sys.executable, str(TREE / "etc/demo/slurm.py"), "start"]
    terminal = Terminal([*script, "--state", str(state), "--port", "0"], tmp_path)
    slurm = {**environment(), "SLURM_CONF": str(state / "slurm/slurm.conf")}

    def told(*command: str) -> str:
        return subprocess.run(command, env=slurm, capture_output=True, text=True, timeout=20).stdout

    try:
        until("a daemon", lambda: terminal.events("daemon.started"), told=terminal.shown)
        assert f"SLURM_CONF={state}/slurm/slurm.conf" in terminal.shown()
        job = told("sbatch", "--parsable", "--output=/dev/null", "--wrap", "exec sleep 600").strip()
        until(
            "a running job",
            lambda: "JobState=RUNNING" in told("scontrol", "show", "job", job),
            60,
            told=terminal.shown,
        )
        assert terminal.events("node.created")
        assert " ERROR " not in terminal.shown()
        terminal.press(CTRL_C)

        until("its end", lambda: terminal.process.poll() is not None, told=terminal.shown)

        assert terminal.process.returncode == 0
        assert not [path for path in Path("/proc").glob("[0-9]*") if _names(path, state)]
    finally:
        terminal.close()


def _names(process: Path, state: Path) -> bool:
    """Whether a process is one of that demo, by its arguments or its environment."""
    try:
        told = (process / "cmdline").read_bytes() + (process / "environ").read_bytes()
    except OSError:
        return False
    return f"{state}/".encode() in told
