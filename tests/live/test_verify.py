"""`verify` beside a daemon: a pool that settles, breaks, heals, hangs, dies, and an empty one.

The tests of the first cluster build on each other, in this order.
"""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
import requests

from tests.live.cluster import MANAGEMENT_TOKEN, LocalCluster
from tests.live.faulty import DRIVER, Faults
from tests.live.harness import Daemon, environment
from tests.live.terminal import Terminal
from tests.waiting import until

pytestmark = [pytest.mark.live, pytest.mark.server("curl")]

QUICK = ("--wait", "60", "--interval", "0.3")


class Verified:
    """A pool of two nodes on a cloud with faults, and the command."""

    def __init__(self, home: Path, **daemon: object) -> None:
        options = {"min_nodes": 2, "max_nodes": 4, "node_stale_after": 600, **daemon}
        self.cluster = LocalCluster(
            home,
            {
                "Daemon": options,
                "Cloud": {"driver_class": DRIVER},
                "Cloud Create": {"boot_delay": 5},
                "Registry": {"slots": 8},
            },
        )
        self.faults = Faults(self.cluster.state / "local-cloud")
        self._daemon: Daemon | None = None

    @property
    def daemon(self) -> Daemon:
        assert self._daemon is not None
        return self._daemon

    def start(self) -> None:
        self._daemon = self.cluster.start()
        self._daemon.wait_for("server.started", name="management")

    def words(self, *words: str) -> list[str]:
        config = str(self.cluster.config)
        return [sys.executable, "-m", "nodemanager", *words, "--config", config]

    def environment(self, **more: str) -> dict[str, str]:
        return environment(STATE_DIRECTORY=str(self.cluster.state), **more)

    def run(self, *words: str) -> subprocess.CompletedProcess[str]:
        return self.cluster.types(*words)

    def json(self, *words: str) -> dict[str, Any]:
        """What `verify --json` prints; its exit code is in it, too."""
        ended = self.run("verify", "--json", *words)
        told: dict[str, Any] = json.loads(ended.stdout)
        assert ended.returncode == told["exit_code"]
        return told

    def answer(self) -> dict[str, Any]:
        """What the daemon answers; quicker than the command."""
        url = f"{self.daemon.url_of('management')}/api/verify"
        token = {"Authorization": f"Bearer {MANAGEMENT_TOKEN}"}
        answer: dict[str, Any] = requests.get(url, headers=token, timeout=10).json()
        return answer

    def close(self) -> None:
        self.cluster.close()


def reasons(told: dict[str, Any]) -> list[tuple[str, str | None, str]]:
    return [(one["outlook"], one["id"], one["reason"]) for one in told["snapshot"]["open"]]


@pytest.fixture(scope="module")
def pool(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Verified]:
    with closing(Verified(tmp_path_factory.mktemp("verified") / "cluster")) as made:
        yield made


def test_without_a_daemon_it_fails_at_once_and_says_how_to_start_it(pool: Verified) -> None:
    began = time.monotonic()
    ended = pool.run("verify")
    assert (ended.returncode, ended.stdout) == (1, "")
    assert f"start it: nodemanager run --config {pool.cluster.config}" in ended.stderr
    told = pool.json()
    assert (told["exit_code"], told["attempts"], told["snapshot"]) == (1, 1, None)
    assert time.monotonic() - began < 30


def test_a_pool_that_starts_is_waited_for_and_then_at_rest(pool: Verified) -> None:
    pool.start()
    ended = pool.run("verify", *QUICK)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert "settling, 0 stuck" in ended.stderr
    assert ended.stdout.splitlines()[0].startswith("settled   pool live  apply  plan ")
    assert "nodes     2 up, 0 settling, 0 stuck\n" in ended.stdout
    assert "slots     2 held of 8, 0 leaked\n" in ended.stdout
    assert "\x1b" not in ended.stdout + ended.stderr

    told = pool.json("--wait", "0")
    assert (told["verified"], told["attempts"], told["error"]) == (True, 1, None)
    assert told["snapshot"]["nodes"]["up"] == told["snapshot"]["nodes"]["listed"] == 2
    assert told["snapshot"]["open"] == []
    assert told["snapshot"]["age_s"] < 60


def test_no_snapshot_is_settled_between_the_end_of_a_node_and_its_replacement(
    pool: Verified,
) -> None:
    victim = min(pool.cluster.running())
    pool.cluster.kill_node(victim)
    seen: list[dict[str, Any]] = []

    def replaced() -> bool:
        seen.append(pool.answer())
        # The slot's window runs for ten minutes more: that is a rule, and nothing to wait for.
        return bool(seen[-1]["outlook"] == "settled" and seen[-1]["slots"]["held"] == 3)

    until("the replacement", replaced, told=pool.daemon.told)
    assert {one["nodes"]["up"] for one in seen if one["outlook"] == "settled"} == {2}
    assert {"settling", "settled"} == {one["outlook"] for one in seen}
    assert pool.json(*QUICK)["exit_code"] == 0


def test_a_terminal_shows_the_progress_in_its_place(pool: Verified) -> None:
    pool.cluster.change({"Daemon": {"min_nodes": 3}})
    reloaded = pool.run("reload")
    assert reloaded.returncode == 0, reloaded.stderr
    assert pool.answer()["outlook"] == "settling", "the newest decision may be older than the file"
    pool.daemon.wait_for("node.setup_started", after=pool.daemon.lines("daemon.reloaded")[-1])
    told = pool.environment(TERM="xterm-256color", COLUMNS="", LINES="")
    terminal = Terminal(pool.words("verify", *QUICK), cwd=pool.cluster.home, env=told)
    try:
        terminal.shows("settling, 0 stuck")
        terminal.shows("3 up, 0 settling, 0 stuck")
        assert terminal.ended() == 0
    finally:
        terminal.close()
    assert "Traceback" not in terminal.all


def test_a_cloud_that_does_not_answer_is_waited_for_until_the_deadline(pool: Verified) -> None:
    pool.faults.set(outage=True)
    until("old polls", lambda: pool.json("--wait", "0")["exit_code"] == 4)
    began = time.monotonic()
    told = pool.json("--wait", "3", "--interval", "0.5")
    assert time.monotonic() - began < 30
    assert told["exit_code"] == 4
    # The last answer is cut off at the deadline, and the program says so a moment later.
    assert told["waited_s"] < 4
    assert ("settling", None, "poll_stale") in reasons(told)


def test_a_daemon_that_dies_meanwhile_fails_it_and_the_last_snapshot_is_shown(
    pool: Verified,
) -> None:
    waiting = subprocess.Popen(
        pool.words("verify", *QUICK),
        env=pool.environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert waiting.stderr is not None
        assert "pool poll_stale" in waiting.stderr.readline()
        pool.daemon.kill()
        out, errors = waiting.communicate(timeout=60)
    finally:
        waiting.kill()
        waiting.wait()
    assert waiting.returncode == 1
    # Killed amid an answer, or between two.
    assert "no daemon answers" in errors or "ConnectionResetError" in errors
    assert "poll_stale" in out


def test_a_daemon_that_hangs_fails_it_in_time(pool: Verified) -> None:
    pool.faults.set(outage=False)
    pool.start()
    pool.daemon.signal(signal.SIGSTOP)
    try:
        began = time.monotonic()
        told = pool.json("--wait", "2")
        assert time.monotonic() - began < 30
    finally:
        pool.daemon.signal(signal.SIGCONT)
    assert (told["exit_code"], told["snapshot"]) == (1, None)
    assert "no answer within 10 s" in told["error"]
