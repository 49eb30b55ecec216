"""Hurts two managers of one pool, again and again: python -m tests.live.chaos_two --kills 200.

Both are real, and so are their PostgreSQL, the registry and the nodes. One is killed, or stopped
past its lease and continued, or the database is gone for one of them or for both. Meanwhile the
ledger of slots must hold at each reading, and after every ten rounds it must balance.
"""

from __future__ import annotations

import random
import signal
import sys
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tests.contract.stores import Postgres
from tests.live.chaos import (
    LOOK_EVERY_S,
    NEVER,
    QUIET_S,
    SECTIONS,
    SETTLE_EVERY,
    SLOTS,
    HastyCluster,
    Readings,
    Unbalanced,
    main,
)
from tests.live.harness import Daemon
from tests.live.line import Line
from tests.waiting import busy, until

LEASE_S = 3.0
NAMES = ("one", "two")
SOCKET = ".s.PGSQL.5432"
TAKES_OVER_S = 30.0


@dataclass
class Manager:
    """One of the two: its own state directory, and its own line to the database."""

    name: str
    state: Path
    line: Line
    daemon: Daemon | None = None

    @property
    def runs(self) -> bool:
        return self.daemon is not None and self.daemon.running


@dataclass
class TwoManagers:
    """So many rounds of what may befall two managers."""

    home: Path
    seed: int
    kills: int = 0
    counts: Counter[str] = field(default_factory=Counter)

    def __post_init__(self) -> None:
        self.random = random.Random(self.seed)
        self._server = Postgres()
        database = self._server.new_database().partition("?")[0]
        self.cluster = HastyCluster(
            self.home,
            SECTIONS,
            {
                "Registry": {"database": f"{database}?host={self._server.folder}"},
                "Lease": {"store": "database", "duration": LEASE_S},
                "Cloud Credentials": {"directory": self.home / "state" / "local-cloud"},
            },
        )
        self._database = database
        self._least = 0
        self._readings = Readings(self.cluster)
        self.managers = [self._manager(name) for name in NAMES]

    @property
    def readings(self) -> int:
        return self._readings.count

    def _manager(self, name: str) -> Manager:
        state = self.home / f"state-{name}"
        state.mkdir(mode=0o700)
        # The path of a Unix socket is short.
        line = Line(self._server.folder / SOCKET, self._server.folder / name)
        return Manager(name, state, line)

    def play(self, kills: int, tick: Callable[[], None] = lambda: None) -> None:
        """All of it; raises Unbalanced."""
        try:
            self.cluster.serve_registry()
            self._settle()
            for number in range(1, kills + 1):
                self._round()
                self.kills = number
                tick()
                if number % SETTLE_EVERY == 0 or number == kills:
                    self._settle()
        except (AssertionError, pytest.fail.Exception) as error:
            told = "\n".join(one.daemon.told() for one in self.managers if one.daemon is not None)
            raise Unbalanced(
                f"seed {self.seed}, after {self.kills} rounds, in {self.home}: {error}\n{told}"
            ) from error
        finally:
            self.cluster.close()
            for one in self.managers:
                one.line.close()
            self._server.stop()

    # One round: other work, one fault, and what becomes of it.

    def _round(self) -> None:
        self.cluster.everyone(self.random.choice(("idle", "idle", "busy")))
        self._want(self.random.choice((0, *range(1, SLOTS), SLOTS, SLOTS)))
        self._watch(self.random.uniform(0.0, 1.5))
        act = self.random.choices(
            (
                self._kill_active,
                self._kill_standby,
                self._stop_active,
                self._without_database,
                self._kill_a_node,
            ),
            weights=(4, 1, 4, 5, 2),
        )[0]
        act()
        self._said_nothing_bad()

    def _kill_active(self) -> None:
        self.counts["the active one killed"] += 1
        active, other = self._roles()
        assert active.daemon is not None
        active.daemon.kill()
        self._takes_over(other)
        self._start(active)

    def _kill_standby(self) -> None:
        self.counts["the standby killed"] += 1
        _, other = self._roles()
        assert other.daemon is not None
        other.daemon.kill()
        self._watch(self.random.uniform(0.0, LEASE_S))
        self._start(other)

    def _stop_active(self) -> None:
        """SIGSTOP past its lease; what it does then, it does in another's time."""
        self.counts["the active one stopped past its lease"] += 1
        active, _ = self._roles()
        assert active.daemon is not None
        active.daemon.signal(signal.SIGSTOP)
        try:
            self._watch(LEASE_S * self.random.uniform(1.0, 2.5))
        finally:
            active.daemon.signal(signal.SIGCONT)
        self._watch(self.random.uniform(0.0, LEASE_S))

    def _without_database(self) -> None:
        active, other = self._roles()
        them: Sequence[Manager] = self.random.choice(([active], [active], [other], [active, other]))
        what = self.random.choice(("cut", "silence"))
        whose = "both" if len(them) == 2 else "the active one" if them[0] is active else "the other"
        self.counts[f"{what} of the database's line to {whose}"] += 1
        for one in them:
            getattr(one.line, what)()
        self._watch(LEASE_S * self.random.uniform(0.3, 3.0))
        for one in them:
            one.line.mend()

    def _kill_a_node(self) -> None:
        running = sorted(self.cluster.running())
        if running:
            self.counts["nodes killed"] += 1
            try:
                self.cluster.kill_node(self.random.choice(running))
            except (KeyError, ProcessLookupError):
                return  # The manager was faster.

    # The managers.

    def _start(self, one: Manager) -> None:
        config = self._configured(one)
        log = self.home / f"{one.name}-{len(self.cluster.daemons)}.log"
        one.daemon = Daemon(config, one.state, log=log, module=self.cluster.module)
        self.cluster.daemons.append(one.daemon)

    def _configured(self, one: Manager) -> Path:
        changes = {
            "Daemon": {"min_nodes": self._least},
            "Registry": {"database": f"{self._database}?host={one.line.folder}"},
        }
        return self.cluster.configure(changes, f"{one.name}.cfg")

    def _want(self, least: int) -> None:
        """Have both keep so many nodes."""
        self._least = least
        for one in self.managers:
            self._configured(one)
            if one.daemon is not None and one.daemon.running and one.daemon.lines("daemon.started"):
                one.daemon.reload()

    def _roles(self) -> tuple[Manager, Manager]:
        """Who acts, and the other one, once both run and one of them says that it acts."""
        found: list[Manager] = until(
            "a manager that acts", self._acting, TAKES_OVER_S, told=self._told
        )
        (other,) = (one for one in self.managers if one is not found[0])
        return found[0], other

    def _acting(self) -> list[Manager]:
        self._look()
        for one in self.managers:
            if not one.runs:
                self._start(one)
        acting = [one for one in self.managers if self._acts(one)]
        return acting if len(acting) == 1 else []

    def _acts(self, one: Manager) -> bool:
        """Whether the newest that it said of its lease is that it has it."""
        assert one.daemon is not None
        said = [
            line
            for event in ("lease.acquired", "lease.lost", "lease.standby")
            for line in one.daemon.lines(event)
        ]
        newest = max(said, key=lambda line: line.number, default=None)
        return newest is not None and newest["event"] == "lease.acquired"

    def _takes_over(self, other: Manager) -> None:
        def acts() -> bool:
            self._look()
            return self._acts(other)

        until("a takeover", acts, TAKES_OVER_S, told=self._told)

    def _told(self) -> str:
        return "\n".join(one.daemon.told() for one in self.managers if one.daemon is not None)

    # What must be true.

    def _look(self) -> None:
        self._readings.look(self._acting_for)

    def _acting_for(self) -> float:
        """For how many seconds one of them has acted without a break; 0 while none surely has."""
        acting = [one.daemon for one in self.managers if one.runs and self._acts(one)]
        if len(acting) != 1 or acting[0] is None:
            return 0.0
        taken = acting[0].lines("lease.acquired")[-1]
        return Readings.seconds_since_a_cycle(acting[0], after=taken)

    def _watch(self, seconds: float) -> None:
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            self._look()
            # What is to be seen may happen at any time of these seconds.
            time.sleep(LOOK_EVERY_S)

    def _settle(self) -> None:
        """No faults: one acts, the other stands by, and every slot has a live node that pings."""
        self.cluster.everyone("busy")
        self._want(SLOTS)
        began = time.monotonic()
        while True:
            acting = self._acting()
            now = self._readings.look(self._acting_for)
            balanced = len(now.live) == SLOTS and not now.waiting and not now.overdue
            if acting and balanced and acting[0].daemon is not None:
                taken = acting[0].daemon.lines("lease.acquired")[-1]
                if acting[0].daemon.lines("cycle.done", after=taken, paired=SLOTS, booting=0):
                    break
            if time.monotonic() > began + (QUIET_S + TAKES_OVER_S) * busy():
                raise Unbalanced(f"{now} long after the last fault")
            time.sleep(LOOK_EVERY_S)
        self.counts["times settled"] += 1
        self._said_nothing_bad()

    def _said_nothing_bad(self) -> None:
        for daemon in [one.daemon for one in self.managers if one.daemon is not None]:
            for event in NEVER:
                for line in daemon.lines(event):
                    raise Unbalanced(f"a manager said: {dict(line)}")


if __name__ == "__main__":
    sys.exit(main(TwoManagers, __doc__))
