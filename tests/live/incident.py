"""Records an incident: python -m tests.live.incident DIRECTORY, four minutes.

The daemon, the registry and the nodes are real processes, the cloud is the local one, with faults
(faulty.py). Nodes are killed while they are busy, one is cut off together with its place in the
cloud's list and comes back, the cloud's API goes down, and then it lists too few.

DIRECTORY gets journal.db.xz, which holds no secret, the daemon's log, and truth.txt: what was done
to the cluster, and when. doc/incident.rst tells the story of one such run.
"""

from __future__ import annotations

import argparse
import json
import lzma
import os
import signal
import sqlite3
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from rich.console import Console

from nodemanager.journal.codec import to_text, without_secrets
from tests.live.cluster import DirectedCluster, Sections
from tests.live.faulty import DRIVER, Faults
from tests.live.harness import Daemon
from tests.waiting import until

NODES = 20
SLOTS = 22
SECTIONS: Sections = {
    "Daemon": {
        "pool": "incident",
        "min_nodes": NODES,
        "max_nodes": NODES,
        "poll_time": 2,
        "max_poll_time": 5,
        "poll_stale_after": 10,
        "node_stale_after": 60,
        "boot_fail_after": 40,
    },
    "Registry": {"slots": SLOTS},
    "Cloud": {"driver_class": DRIVER},
    "Cloud Create": {"boot_delay": 3, "ping_interval": 3},
    "Cleaning": {"settle": 5},
}
START_S = 90.0
"""For the first nodes to boot and pair, also where other things run."""
END_S = 225.0
LAST_S = 120.0
"""From the last fault on: the window, the settling, a boot."""


@dataclass
class Story:
    """What is done to the cluster, by the second, and what was done."""

    cluster: DirectedCluster
    daemon: Daemon
    faults: Faults
    say: Callable[[str], None]
    begun: float = field(default_factory=time.monotonic)
    told: list[str] = field(default_factory=list)

    def play(self) -> None:
        victims = list(self.cluster.tags().items())
        hosts = {u: str(r["hostname"]) for u, r in self.cluster.registry.rows().items()}
        a, b, cut, c, d, e = (node_id for node_id, _ in victims[:6])
        self.hosts = {node_id: hosts[uuid] for node_id, uuid in victims}

        self.at(5, lambda: self.kill(a))
        self.at(15, lambda: self.kill(b))
        self.at(25, lambda: self.cut_off(cut))
        self.at(35, lambda: self.kill(c))
        self.at(38, lambda: self.kill(d))
        self.at(60, lambda: self.outage(True))
        self.at(72, lambda: self.back(cut))
        self.at(78, lambda: self.outage(False))
        self.at(95, lambda: self.short(8))
        self.at(104, lambda: self.short(None))
        self.at(120, lambda: self.kill(e))

    def wait_until(self, second: float) -> None:
        time.sleep(max(0.0, self.begun + second - time.monotonic()))

    def at(self, second: float, act: Callable[[], str]) -> None:
        self.wait_until(second)
        told = act()
        stamp = datetime.now(UTC).strftime("%H:%M:%S")
        self.told.append(f"{stamp}  +{second:3.0f} s  {told}")
        self.say(self.told[-1])

    def kill(self, node_id: str) -> str:
        self.cluster.kill_node(node_id)
        return f"{self.hosts[node_id]} ({node_id[:10]}) is killed while it works"

    def cut_off(self, node_id: str) -> str:
        self.faults.set(lost=[node_id])
        os.killpg(self.cluster.pids()[node_id], signal.SIGSTOP)
        return f"{self.hosts[node_id]} ({node_id[:10]}) freezes, and the cloud lists it no more"

    def back(self, node_id: str) -> str:
        os.killpg(self.cluster.pids()[node_id], signal.SIGCONT)
        self.faults.set(lost=[])
        return f"{self.hosts[node_id]} ({node_id[:10]}) is back, as if nothing had been"

    def outage(self, begins: bool) -> str:
        self.faults.set(outage=begins)
        return f"the cloud's API {'answers 503' if begins else 'works again'}"

    def short(self, shown: int | None) -> str:
        self.faults.set(shown=shown)
        return "the cloud lists " + ("all nodes again" if shown is None else f"{shown} nodes only")


def record(home: Path, say: Callable[[str], None]) -> Story:
    """Play it in `home`; returns when every slot that was lost serves a node again."""
    cluster = DirectedCluster(home, SECTIONS)
    try:
        cluster.everyone("busy")
        cluster.serve_registry()
        daemon = cluster.start()
        say(f"{NODES} nodes boot; the log is {daemon.log}")
        daemon.wait_for("cycle.done", within=START_S, paired=NODES, busy=NODES)
        story = Story(cluster, daemon, Faults(cluster.state / "local-cloud"), say)
        story.play()
        say("every slot comes back")
        daemon.wait_for("record.cleaned", within=LAST_S, count=5)
        until(
            f"{NODES} busy nodes",
            lambda: (daemon.lines("cycle.done") or [{}])[-1].get("busy") == str(NODES),
            LAST_S,
            told=daemon.told,
        )
        # So that a replay sees what a window half as long again would have freed.
        story.wait_until(END_S)
        daemon.terminate()
        return story
    finally:
        cluster.close()


def shareable(journal: Path, copy: Path) -> None:
    """A copy of a journal for everyone's eyes: without the ping secrets of freed records."""
    copy.unlink(missing_ok=True)
    source, target = sqlite3.connect(journal), sqlite3.connect(copy)
    try:
        source.backup(target)
        for row, body in target.execute("SELECT intent, body FROM pre_images").fetchall():
            target.execute(
                "UPDATE pre_images SET body = ? WHERE intent = ?",
                (to_text(without_secrets(json.loads(body))), row),
            )
        target.commit()
        target.execute("PRAGMA journal_mode = DELETE")
        # Or the old bodies would still be in its free pages.
        target.execute("VACUUM")
    finally:
        source.close()
        target.close()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("directory", type=Path, help="for the journal, the log and the truth")
    asked = parser.parse_args()
    out: Path = asked.directory
    out.mkdir(parents=True, exist_ok=True)
    console = Console(stderr=True, highlight=False)
    with tempfile.TemporaryDirectory(prefix="nodemanager-incident-") as home:
        story = record(Path(home) / "cluster", console.print)
        bare = Path(home) / "journal.db"
        shareable(story.cluster.state / "journal.db", bare)
        (out / "journal.db.xz").write_bytes(lzma.compress(bare.read_bytes(), preset=9))
        (out / "incident.log").write_bytes(story.daemon.log.read_bytes())
    (out / "truth.txt").write_text("\n".join(story.told) + "\n", encoding="utf-8")
    console.print(f"recorded: {out / 'journal.db.xz'}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
