"""`status` and `log` beside a running daemon: on a terminal, in a pipe, and when it is gone."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import requests

from tests.live.cluster import LocalCluster
from tests.live.harness import Daemon, environment, free_port
from tests.live.terminal import CTRL_C, Terminal

pytestmark = [pytest.mark.live, pytest.mark.server("curl")]


class Looked:
    """Two nodes, paired, and a daemon that one looks at."""

    def __init__(self, home: Path) -> None:
        self.cluster = LocalCluster(
            home,
            {
                "Daemon": {"min_nodes": 2, "max_nodes": 2, "node_stale_after": 600},
                "Manage": {"port": free_port()},
                "Registry": {"slots": 4},
            },
        )
        self.daemon: Daemon | None = None

    def start(self) -> Daemon:
        self.daemon = self.cluster.start()
        self.daemon.wait_for("node.paired", count=2)
        return self.daemon

    def words(self, *words: str) -> list[str]:
        config = str(self.cluster.config)
        return [sys.executable, "-m", "nodemanager", *words, "--config", config]

    def environment(self, **more: str) -> dict[str, str]:
        return environment(STATE_DIRECTORY=str(self.cluster.state), **more)

    def run(self, *words: str) -> subprocess.CompletedProcess[str]:
        return self.cluster.types(*words)

    def on_a_terminal(self, *words: str) -> Terminal:
        told = self.environment(TERM="xterm-256color", COLUMNS="", LINES="")
        return Terminal(self.words(*words), cwd=self.cluster.home, env=told)

    def piped(self, *words: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            self.words(*words),
            env=self.environment(),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )


@pytest.fixture(scope="module")
def looked(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Looked]:
    made = Looked(tmp_path_factory.mktemp("looked") / "cluster")
    try:
        made.start()
        yield made
    finally:
        made.cluster.close()


def test_status_in_a_pipe_is_plain_text_and_json_the_same(looked: Looked) -> None:
    told = looked.run("status")
    assert (told.returncode, told.stderr) == (0, "")
    assert re.match(r"pool live  apply  plan \S+, \ds ago", told.stdout)
    assert re.search(r"^slots +2 used of 4, 2 free, 0 leaked$", told.stdout, re.M)
    assert told.stdout.isascii()
    assert "\x1b" not in told.stdout
    shown = json.loads(looked.run("status", "--json").stdout)
    assert (shown["slots"]["used"], shown["slots"]["leaked"]["count"]) == (2, 0)
    assert shown["poll_stale_after_s"] == 4


def test_watch_refreshes_a_terminal_in_its_place_until_ctrl_c(looked: Looked) -> None:
    terminal = looked.on_a_terminal("status", "--watch", "0.5")
    try:
        for _ in range(3):
            terminal.shows("Ctrl-C ends")
        terminal.type(CTRL_C)
        assert terminal.ended() == 0
    finally:
        terminal.close()
    assert "\x1b[?1049h" in terminal.all
    # The last one stays on the screen that was there before.
    left = terminal.all.split("\x1b[?1049l")[1]
    assert "slots" in left
    assert "Traceback" not in terminal.all


def test_watch_in_a_pipe_prints_one_picture_after_the_other(looked: Looked) -> None:
    watching = looked.piped("status", "--watch", "0.3", "--json")
    try:
        assert watching.stdout is not None
        ages = [json.loads(watching.stdout.readline())["plan"]["id"] for _ in range(3)]
        assert all(ages)
        watching.send_signal(signal.SIGINT)
        _, errors = watching.communicate(timeout=30)
        assert (watching.returncode, errors) == (0, "")
    finally:
        watching.kill()
        watching.wait()


def test_follow_tells_a_nodes_end_as_it_is_decided(looked: Looked) -> None:
    victim, record = min(looked.cluster.tags().items())
    terminal = looked.on_a_terminal("log", record, "--follow")
    try:
        terminal.shows("paired")
        looked.cluster.kill_node(victim)
        terminal.shows("within_window")
        terminal.shows("window 10m 00s")
        terminal.type(CTRL_C)
        assert terminal.ended() == 0
    finally:
        terminal.close()
    assert "Traceback" not in terminal.all
    others = set(looked.cluster.tags().values()) - {record}
    assert not any(other in terminal.all for other in others)

    leaked = json.loads(looked.run("status", "--json").stdout)["slots"]["leaked"]
    assert leaked["count"] == 0, "its window runs"
    (cause,) = leaked["causes"]
    assert (cause["cause"], cause["count"]) == ("within_window", 1)
    assert 0 < cause["oldest_s"] < 600
    assert cause["free_in_s"] == pytest.approx(600 - cause["oldest_s"], abs=1.0)
    assert looked.daemon is not None
    metrics = requests.get(f"{looked.daemon.url_of('management')}/metrics", timeout=10).text
    assert 'nodemanager_slots_without_node{cause="within_window"} 1.0' in metrics


def test_watch_says_when_the_daemon_is_gone_and_goes_on_with_the_next(looked: Looked) -> None:
    assert looked.daemon is not None
    terminal = looked.on_a_terminal("status", "--watch", "0.3")
    try:
        terminal.shows("Ctrl-C ends")
        assert looked.daemon.terminate() == 0
        terminal.shows("no daemon answers")
        terminal.shows("the following is from")
        looked.daemon = looked.cluster.start()
        looked.daemon.wait_for("cycle.done")
        # Its plans are of another run.
        terminal.shows(looked.daemon.lines("cycle.done")[0]["plan"].split("-")[0])
        terminal.type(CTRL_C)
        assert terminal.ended() == 0
    finally:
        terminal.close()


def test_the_log_of_one_is_read_beside_the_daemon_and_after_it(looked: Looked) -> None:
    assert looked.daemon is not None
    (record, *_) = looked.cluster.tags().values()
    told = looked.run("log", record)
    assert told.returncode == 0
    events = re.findall(r"event=(\S+)", told.stdout)
    assert events[0] == "node.setup_started"
    assert {"node.created", "node.paired", "node.keep"} <= set(events)
    assert all(line.startswith("ts=20") for line in told.stdout.splitlines())
    assert "ping_secret" not in looked.run("log").stdout

    assert looked.daemon.terminate() == 0
    after = looked.run("log", record)
    assert after.stdout.startswith(told.stdout)

    gone = looked.run("status")
    assert gone.returncode == 1
    assert f"start it: nodemanager run --config {looked.cluster.config}" in gone.stderr
