"""A night: four nodes are killed, a boot is refused, and a job fits nothing.

The ten questions of whoever is called then: one command each, with the answer in its first line.
Of a list that is the first row below its headings.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from tests.live.cluster import LocalCluster
from tests.live.harness import environment
from tests.live.terminal import Terminal
from tests.waiting import until

pytestmark = [pytest.mark.live, pytest.mark.server("curl")]

NODES, SLOTS, LOST = 4, 6, 4
HEADINGS = ("last ", "slot ", "job ")


class Night:
    """The pool at its worst, and the commands that are typed then."""

    def __init__(self, home: Path) -> None:
        self.queue = home / "queue"
        home.mkdir(parents=True, exist_ok=True)
        self.asks({"id": "first", "cores": 1, "count": 1})
        self.cluster = LocalCluster(
            home,
            {
                "Daemon": {
                    "min_nodes": NODES,
                    "max_nodes": 8,
                    "node_stale_after": 600,
                    "wishlist_command": f"/bin/cat {self.queue}",
                },
                "Registry": {"slots": SLOTS},
                "Size small": {"cores": 1, "ram": 1000},
                "Size large": {"cores": 4, "ram": 4000},
            },
        )

    def asks(self, *jobs: dict[str, object]) -> None:
        """From the next poll on these jobs wait."""
        new = self.queue.with_suffix(".new")
        new.write_text("".join(f"{json.dumps(one)}\n" for one in jobs), encoding="utf-8")
        new.replace(self.queue)

    def falls(self) -> None:
        """All that goes wrong, until the daemon has seen it."""
        self.daemon = self.cluster.start()
        self.daemon.wait_for("node.paired", count=NODES)
        (had,) = self.job("first", lambda one: one["state"] == "served")["came"]
        self.first = had["host"]
        self.asks()
        self.job("first", lambda one: one["left_at"] is not None)
        for node in self.cluster.running():
            self.cluster.kill_node(node)
        self.daemon.wait_for("node.lost", count=LOST)
        self.asks(
            {"id": "wide", "cores": 1, "count": 6},
            {"id": "huge", "cores": 64, "count": 1},
        )
        self.daemon.wait_for("node.boot_refused", reason="no_free_slot")
        self.daemon.wait_for("job.unsatisfiable", job="huge")

    def words(self, *words: str) -> list[str]:
        return [sys.executable, "-m", "nodemanager", *words, "--config", str(self.cluster.config)]

    def told(self) -> dict[str, str]:
        state = str(self.cluster.state)
        return environment(STATE_DIRECTORY=state, USER="ann", LOGNAME="ann", TERM="xterm")

    def types(self, *words: str) -> list[str]:
        """The lines of the answer."""
        done = self.cluster.types(*words, USER="ann", LOGNAME="ann", TERM="xterm")
        assert done.returncode == 0, done.stderr
        return done.stdout.splitlines()

    def first_line(self, *words: str) -> str:
        first, *rest = self.types(*words)
        return rest[0] if first.startswith(HEADINGS) else first

    def job(self, id: str, said: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
        """The job, once that is said of it."""

        def found() -> dict[str, Any]:
            one: dict[str, Any] = json.loads("\n".join(self.types("jobs", id, "--json")))
            return one if said(one) else {}

        return until(f"what is said of job {id}", found, told=self.daemon.told)


@pytest.fixture(scope="module")
def night(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Night]:
    made = Night(tmp_path_factory.mktemp("night") / "cluster")
    with closing(made.cluster):
        made.falls()
        yield made


def hosts(night: Night) -> set[str]:
    return {str(line["host"]) for line in night.daemon.lines("node.lost")}


def test_which_nodes_died_and_what_they_did(night: Night) -> None:
    line = night.first_line("events")
    assert "node.lost" in line
    assert all(f"{host}:" in line for host in hosts(night))


def test_who_holds_the_slots(night: Night) -> None:
    line = night.first_line("slots", "--sort", "-quiet")
    assert line.split()[1] in hosts(night)
    assert "no_node" in line.split(), "its window still runs: it is not leaked"


def test_when_the_next_slot_is_free(night: Night) -> None:
    line = night.first_line("slots", "--sort", "free_in")
    assert line.split()[5].startswith("9m")


def test_why_it_is_not_free_yet_and_when_its_node_died(night: Night) -> None:
    host = min(hosts(night))
    line = night.first_line("explain", host)
    assert line.startswith(host)
    assert "within_window" in line
    assert "lost at" in line
    assert "quiet" in line


def test_why_no_node_of_a_size_is_booted(night: Night) -> None:
    assert "no_free_slot" in night.first_line("why", "small")


def test_why_a_job_gets_no_node(night: Night) -> None:
    assert "impossible: no_fitting_size" in night.first_line("explain", "job", "huge")
    assert "waiting: no_free_slot" in night.first_line("explain", "wide")


def test_which_node_a_job_had_that_is_gone(night: Night) -> None:
    line = night.first_line("explain", "job", "first")
    assert "left the queue" in line
    assert night.first in line


def test_what_changed_in_ten_minutes(night: Night) -> None:
    line = night.first_line("events", "--since", "10m")
    assert "node.lost" in line
    one = min(hosts(night))
    assert "node.lost" in night.first_line("events", one, "--since", "10m")


def test_who_did_what_and_how_to_stop_safely(night: Night) -> None:
    assert "the pool is paused" in night.first_line("pause", "--reason", "look first")
    line = night.first_line("log", "--event", "operator")
    assert "event=operator.pause" in line
    assert "by=ann" in line.replace('"', "")


def test_last_night_is_a_few_lines_on_a_terminal(night: Night) -> None:
    line = night.first_line("events", "--since", "yesterday", "--until", "now")
    assert "node.lost" in line
    terminal = Terminal(night.words("log"), cwd=night.cluster.home, env=night.told())
    assert terminal.ended() == 0
    lines = terminal.all.splitlines()
    kept = [line for line in lines if "node.keep" in line]
    assert any("busy or idle" in line and "times " in line for line in kept)
    assert len(lines) < len(night.types("log"))


def test_what_within_window_means_which_rule_and_which_option(night: Night) -> None:
    line = night.first_line("explain", "within_window")
    assert "C3" in line
    assert "node_stale_after" in line
