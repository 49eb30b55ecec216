"""Kills the daemon at random points, again and again: python -m tests.live.chaos --kills 200.

Everything is real: the daemon, the registry and the nodes are processes, the database is a file.
One seed makes the same choices again; what the machine makes of them differs from run to run.
Ends with 1, the seed and the directory of the run when the slot ledger did not balance.
"""

from __future__ import annotations

import argparse
import random
import secrets
import shutil
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Protocol

import pytest
import requests
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from tests.live import hasty, ledger
from tests.live.cluster import DirectedCluster
from tests.live.harness import Daemon, Line
from tests.live.hasty import CREATE_MARGIN_S
from tests.live.ledger import Ledger, Processes, Windows
from tests.waiting import busy

SLOTS = 4
WINDOW_S = 6.0
SETTLE_S = 1.5
BOOT_FAIL_S = 5.0
POLL_S = 0.3
MAX_POLL_S = 1.0
SECTIONS = {
    "Daemon": {
        "poll_time": POLL_S,
        "max_poll_time": MAX_POLL_S,
        "poll_stale_after": 3,
        "node_stale_after": WINDOW_S,
        "boot_fail_after": BOOT_FAIL_S,
        "max_nodes": SLOTS,
    },
    "Registry": {"slots": SLOTS},
    "Cleaning": {"settle": SETTLE_S, "action_timeout": 5},
    "Cloud Create": {"boot_delay": 0.2, "ping_interval": 0.5},
}
WINDOWS = Windows(stale_s=WINDOW_S, claim_s=BOOT_FAIL_S + CREATE_MARGIN_S)
ROUNDS_S = SETTLE_S + 4 * MAX_POLL_S
"""What the Liveness bound adds to a window, for at most SLOTS records."""
MACHINE_S = 6.0
"""For processes to start; longer on a machine that is busy with other things."""
QUIET_S = max(WINDOWS.stale_s, WINDOWS.claim_s) + ROUNDS_S + BOOT_FAIL_S + MACHINE_S
"""Within this of the last fault every slot is used by a live node, or free."""

ANY = ("daemon.started", "cycle.done")
GROWS = ("node.setup_started", "record.claimed", "node.created", "node.paired")
SHRINKS = ("node.shutdown_started", "node.gone", "record.clean", "record.cleaned")
AMID_WORK = 0.5
WRITES = (1, 1, 2, 2, 3, 4)
"""Which of its writes is the last: a claim and a create for each node, or a destroy and a clean."""
EVENT_WAIT_S = 3.0
"""For so long a kill waits for its event; it then comes without."""
NEVER = ("invariant.broken", "record.false_clean", "actor.died", "server.failed")
SETTLE_EVERY = 10
LOOK_EVERY_S = 0.1


class Unbalanced(AssertionError):
    """The slot ledger does not balance, or the daemon said that it broke its promise."""


class HastyCluster(DirectedCluster):
    """A cluster whose daemons give a lost create up early."""

    module = "tests.live.hasty"


@dataclass
class Readings:
    """Reads the ledger, and says what is wrong with it."""

    cluster: DirectedCluster
    count: int = 0

    def look(self, decided_for: Callable[[], float]) -> Ledger:
        """One reading. A slot is overdue only where the daemon had the time for it: it is asked
        for how many seconds it has been able to decide."""
        try:
            read = ledger.read(Processes(self.cluster), WINDOWS, SLOTS)
        except requests.RequestException as error:
            raise Unbalanced(f"the registry did not answer: {error}") from error
        self.count += 1
        if read.broken:
            raise Unbalanced("; ".join(read.broken))
        if read.held > SLOTS:
            raise Unbalanced(f"{read}, but there are {SLOTS}")
        ran = decided_for() if read.overdue else 0.0
        for uuid, late in read.overdue.items():
            if min(late, ran) > ROUNDS_S + MACHINE_S * busy():
                raise Unbalanced(f"{uuid} holds a slot for {late:.1f} s too long, run {ran:.1f} s")
        return read

    @staticmethod
    def seconds_since_a_cycle(daemon: Daemon, after: Line | None = None) -> float:
        """Since when the daemon can decide: its first cycle; starting takes its own time."""
        cycles = daemon.lines("cycle.done", after=after)
        if not cycles:
            return 0.0
        return time.time() - datetime.fromisoformat(cycles[0]["ts"]).timestamp()


@dataclass
class Run:
    """So many kills of the daemon of one cluster."""

    home: Path
    seed: int
    kills: int = 0
    counts: Counter[str] = field(default_factory=Counter)

    def __post_init__(self) -> None:
        self.random = random.Random(self.seed)
        self.cluster = HastyCluster(self.home, SECTIONS)
        self._readings = Readings(self.cluster)
        self.daemon: Daemon | None = None

    @property
    def readings(self) -> int:
        return self._readings.count

    def play(self, kills: int, tick: Callable[[], None] = lambda: None) -> None:
        """All of it; raises Unbalanced."""
        try:
            self.cluster.serve_registry()
            for number in range(1, kills + 1):
                self._round()
                self.kills = number
                tick()
                if number % SETTLE_EVERY == 0 or number == kills:
                    self._settle()
        except (AssertionError, pytest.fail.Exception) as error:
            told = "" if self.daemon is None else f"\n{self.daemon.told()}"
            raise Unbalanced(
                f"seed {self.seed}, after {self.kills} kills, in {self.home}: {error}{told}"
            ) from error
        finally:
            self.cluster.close()

    # One round: start, let it run, hurt it, kill it, look.

    def _round(self) -> None:
        live = len(self.cluster.running())
        # A claim of an earlier run may hold a place until it expires.
        taken = max(live, len(self.cluster.claimed()))
        least = self.random.choice((0, 0, *range(1, SLOTS), SLOTS, SLOTS))
        state = self.random.choice(("idle", "idle", "busy"))
        self.cluster.everyone(state)
        # Half of the kills where there is work land right before or after one of its writes.
        where = None
        work = taken < least or (live > least and state == "idle")
        if work and self.random.random() < AMID_WORK:
            where = f"{self.random.choice(WRITES)}.{self.random.choice(hasty.MOMENTS)}"
        self._start(least, where)
        self._hurt()
        events = ANY
        if taken < least:
            events = GROWS
        elif live > least and state == "idle":
            events = SHRINKS
        if where is None:
            self._run_until_kill(self.random.choice(events))
        else:
            self._run_until_it_dies()
        assert self.daemon is not None
        self.daemon.kill()
        self._said_nothing_bad()
        self._look()

    def _hurt(self) -> None:
        act = self.random.choices(
            (self._nothing, self._kill_a_node, self._restart_registry, self._pause),
            weights=(12, 4, 2, 2),
        )[0]
        act()

    def _run_until_it_dies(self) -> None:
        assert self.daemon is not None
        deadline = time.monotonic() + EVENT_WAIT_S
        while self.daemon.running:
            if time.monotonic() > deadline:
                self.counts["too few writes"] += 1
                return
            time.sleep(0.02)
        assert self.daemon.ended() == -signal.SIGKILL, "it ended by itself"
        self.counts["amid a write"] += 1

    def _run_until_kill(self, event: str) -> None:
        assert self.daemon is not None
        if self.random.random() < 0.3:
            self.counts["after a delay"] += 1
            self._watch(self.random.uniform(0.05, 1.5))
            return
        delay = self.random.choice((0.0, self.random.uniform(0.0, 0.1)))
        deadline = time.monotonic() + EVENT_WAIT_S
        while not self.daemon.lines(event):
            if time.monotonic() > deadline:
                self.counts[f"no {event}"] += 1
                return
            time.sleep(0.005)
        self.counts[f"after {event}"] += 1
        # The kill falls at a moment drawn by chance.
        time.sleep(delay)

    def _nothing(self) -> None:
        pass

    def _kill_a_node(self) -> None:
        running = sorted(self.cluster.running())
        if running:
            self.counts["nodes killed"] += 1
            try:
                self.cluster.kill_node(self.random.choice(running))
            except (KeyError, ProcessLookupError):
                return  # The daemon was faster.

    def _restart_registry(self) -> None:
        """kill -9 while the daemon and its nodes use it."""
        self.counts["registry restarts"] += 1
        assert self.cluster.registry_process is not None
        self.cluster.registry_process.kill()
        self.cluster.serve_registry()

    def _pause(self) -> None:
        self.counts["pauses"] += 1
        assert self.daemon is not None
        self._watch(self.random.uniform(0.2, 1.0))
        if not self.daemon.running:
            return  # Its write came first.
        self.daemon.signal(signal.SIGSTOP)
        # Stopped for so long; nothing happens meanwhile that could be waited for.
        time.sleep(self.random.uniform(0.1, 0.8))
        self.daemon.signal(signal.SIGCONT)

    def _start(self, least: int, dies_at: str | None = None) -> None:
        self.cluster.change({"Daemon": {"min_nodes": least}})
        self.daemon = self.cluster.start(told={hasty.DIES: dies_at} if dies_at else None)

    # What must be true.

    def _watch(self, seconds: float) -> None:
        deadline = time.monotonic() + seconds
        while (left := deadline - time.monotonic()) > 0:
            time.sleep(min(left, LOOK_EVERY_S))
            self._look()

    def _look(self) -> Ledger:
        daemon = self.daemon
        assert daemon is not None
        return self._readings.look(lambda: Readings.seconds_since_a_cycle(daemon))

    def _settle(self) -> None:
        """No faults: in the end every slot is used by a live node that pings, within the bound."""
        self.cluster.everyone("busy")
        self._start(least=SLOTS)
        assert self.daemon is not None
        began = time.monotonic()
        while True:
            now = self._look()
            balanced = len(now.live) == SLOTS and not now.waiting and not now.overdue
            if balanced and self.daemon.lines("cycle.done", paired=SLOTS, booting=0):
                break
            if time.monotonic() > began + QUIET_S * busy():
                raise Unbalanced(f"{now} long after the last fault")
            time.sleep(LOOK_EVERY_S)
        self.counts["times settled"] += 1
        self._said_nothing_bad()
        self.daemon.kill()
        self._look()

    def _said_nothing_bad(self) -> None:
        assert self.daemon is not None
        for event in NEVER:
            for line in self.daemon.lines(event):
                raise Unbalanced(f"the daemon said: {dict(line)}")
        for event in (*GROWS, *SHRINKS):
            self.counts[f"seen {event}"] += len(self.daemon.lines(event))


class Playable(Protocol):
    """What `main` plays: so many kills, or rounds of other faults."""

    kills: int
    counts: Counter[str]

    @property
    def readings(self) -> int: ...

    def play(self, kills: int, tick: Callable[[], None]) -> None: ...


def main(make: Callable[[Path, int], Playable], told: str | None) -> int:
    parser = argparse.ArgumentParser(description=told)
    parser.add_argument("--kills", type=int, default=200, help="how many (200)")
    parser.add_argument("--seed", type=int, default=None, help="of its choices (a new one)")
    asked = parser.parse_args()
    seed = secrets.randbelow(1 << 32) if asked.seed is None else asked.seed
    console = Console()
    console.print(f"seed {seed}")
    home = Path(tempfile.mkdtemp(prefix="nodemanager-chaos-"))
    run = make(home / "cluster", seed)
    began = time.monotonic()
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
    )
    try:
        with Progress(*columns, console=console) as progress:
            task = progress.add_task("kills", total=asked.kills)
            run.play(asked.kills, lambda: progress.advance(task))
    except Unbalanced as error:
        console.print(str(error), highlight=False, markup=False)
        return 1
    shutil.rmtree(home, ignore_errors=True)
    took = time.monotonic() - began
    console.print(f"{run.kills} kills in {took:.0f} s, {run.readings} readings, all balanced")
    for what, count in sorted(run.counts.items()):
        console.print(f"  {count:6} {what}")
    return 0


if __name__ == "__main__":
    sys.exit(main(Run, __doc__))
