"""A day of a pool in a journal, and what it costs to replay it.

The day is polled every minute and decided about after each poll, as the daemon does, and written by
the journal's own recording. Nodes die without a word, some fall silent and come back, and what the
plan calls for is done: a record that is freed is claimed by the next node.
"""

from __future__ import annotations

import argparse
import os
import random
import resource
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from rich.console import Console
from rich.table import Table

from benchmarks import pools
from nodemanager.core.model.reasons import Event
from nodemanager.core.model.world import (
    Claim,
    CloudNode,
    FreedLife,
    Listing,
    Record,
    StoreTime,
    Tags,
    WorkerState,
)
from nodemanager.core.observe.facts import CloudPollBegun, CloudSeen, Fact, LivesFreed, RecordsSeen
from nodemanager.core.observe.snapshot import Snapshot
from nodemanager.core.plan.plan import Plan, plan
from nodemanager.core.replay.fold import Decision, Start, State, after_decision, after_fact
from nodemanager.core.replay.whatif import as_cleaned
from nodemanager.journal.event import LoggedEvent
from nodemanager.journal.reading import outline
from nodemanager.journal.sqlite import SqliteJournal
from nodemanager.journal.sweep import replay
from nodemanager.lib.clock import SystemClock
from nodemanager.lib.memory import collecting
from tests.fakes.clock import ManualClock

POLL_S = 60.0
WINDOW_S = 7200.0
DEATHS_A_DAY, NAPS_A_DAY = 120, 30
NAP_S = (600.0, 5400.0)


class Day:
    """A pool of `count` nodes, told to a journal as the daemon tells it."""

    def __init__(self, path: Path, count: int, *, seed: int = 1) -> None:
        self.dice = random.Random(seed)
        self.clock = ManualClock()
        self.journal = SqliteJournal(
            path, pool=pools.POOL, clock=self.clock, boot_id="bench", max_size=1 << 40
        )
        self.settings = replace(
            pools.settings_for(count), node_stale_after=WINDOW_S, hold_backlog=False
        )
        self.slots = count + 20
        poll = pools.Pool(count, stale=0).poll(0)
        self.records = {one.uuid: one for one in poll.records.items}
        self.nodes = {one.id: one for one in poll.cloud.items}
        self.naps: dict[str, float] = {}
        self.lives = count
        self.state = State()
        self.decisions = 0
        self.freed = 0
        start = Start(pools.POOL, self.settings, self.now, self.wall, self.state, "bench")
        self.journal.begin(start)

    @property
    def now(self) -> float:
        return self.clock.boottime()

    @property
    def wall(self) -> float:
        return self.clock.wall()

    def live(self, hours: float = 24.0) -> None:
        chance = POLL_S / 86400.0
        for _ in range(int(hours * 3600 / POLL_S)):
            self._poll_records()
            self._decide()
            self.clock.advance(1.0)
            self._poll_cloud()
            self._decide()
            self.clock.advance(POLL_S - 1.0)
            for expected, happens in ((DEATHS_A_DAY, self._die), (NAPS_A_DAY, self._nap)):
                if self.dice.random() < expected * chance:
                    happens()
            self._ping()
        self.journal.close()

    # The pool's own doings.

    def _awake(self) -> list[CloudNode]:
        return [one for one in self.nodes.values() if one.id not in self.naps]

    def _die(self) -> None:
        del self.nodes[self.dice.choice(self._awake()).id]

    def _nap(self) -> None:
        """Neither pinging nor listed for a while: half of a partition, half of a short list."""
        node = self.dice.choice(self._awake())
        self.naps[node.id] = self.now + self.dice.uniform(*NAP_S)

    def _ping(self) -> None:
        self.naps = {one: until for one, until in self.naps.items() if until > self.now}
        for node in self._awake():
            uuid = node.tags.record
            record = self.records[uuid or ""]
            if record.incarnation != node.tags.incarnation:
                continue
            at = self.wall - self.dice.random() * POLL_S
            version = str(int(record.version) + 1)
            first = at if record.first_ping_at is None else record.first_ping_at
            self.records[record.uuid] = replace(
                record,
                version=version,
                first_ping_at=first,
                last_ping_at=at,
                modified_at=at,
                instance_id=node.id,
                worker_state=WorkerState.BUSY,
            )

    # The daemon's.

    def _fold(self, fact: Fact) -> None:
        self.journal.note(fact)
        self.state = after_fact(self.state, fact, self.settings)

    def _poll_records(self) -> None:
        began = self.now
        self.clock.advance(0.1)
        listing = Listing(tuple(self.records.values()), began, self.now)
        stamp = StoreTime(self.wall, self.now, 0.01)
        self._fold(RecordsSeen(listing, "bench", stamp, self.slots, self.now))

    def _poll_cloud(self) -> None:
        self._fold(CloudPollBegun(self.now))
        began = self.now
        self.clock.advance(0.1)
        nodes = tuple(one for one in self.nodes.values() if one.id not in self.naps)
        self._fold(CloudSeen(Listing(nodes, began, self.now), "bench"))

    def _decide(self) -> None:
        self.clock.advance(0.01)
        state = self.state
        snapshot = Snapshot(
            plan_id=f"bench-{self.decisions}",
            now=self.now,
            wall=self.wall,
            history=state.history,
            breaker=state.breaker,
            slots=state.slots,
        )
        made = plan(snapshot, self.settings, new_records=state.new_records, before=state.plan)
        self.state = after_decision(state, made, snapshot.now, self.settings)
        self.journal.decided(Decision(snapshot, made, state.new_records, 0.01))
        self.decisions += 1
        self._carry_out(made)

    def _carry_out(self, made: Plan) -> None:
        for order in made.cleans:
            record = self.records[order.uuid]
            if record.version != order.version:
                continue
            self._fold(LivesFreed((_life(record, self.now, order.reason.value),), self.now))
            cleaned = replace(as_cleaned(record, self.wall), version=f"{int(record.version) + 1}")
            self.freed += 1
            # By this a reader tells it from a dry run's.
            self.journal.tell(LoggedEvent(self.wall, Event.RECORD_CLEANED.value))
            self._reuse(cleaned)

    def _reuse(self, record: Record) -> None:
        self.lives += 1
        incarnation = pools.incarnation_of(self.lives)
        claim = Claim(pools.POOL, "manager-1", 1, self.wall, f"node-{self.lives}", incarnation)
        slot = int(record.uuid.rpartition("-")[2]) + 1
        self.records[record.uuid] = replace(
            record,
            version=f"{int(record.version) + 1}",
            modified_at=self.wall,
            claim=claim,
            slot_number=slot,
            hostname=f"compute{slot}",
        )
        node_id = pools.instance_of(self.lives)
        self.nodes[node_id] = CloudNode(
            id=node_id,
            name=claim.node_name,
            state=next(iter(self.nodes.values())).state,
            size=pools.SIZE.instance_type,
            created_at=self.wall,
            tags=Tags(pools.POOL, record.uuid, incarnation),
        )


def _life(record: Record, at: float, why: str) -> FreedLife:
    return FreedLife(
        record.uuid,
        record.incarnation,
        at,
        node_id=record.instance_id,
        slot=record.slot_number,
        hostname=record.hostname,
        why=why,
    )


@dataclass(frozen=True)
class Cost:
    """What it took to replay a day: seconds of the clock, and of all processors together."""

    decisions: int
    megabytes: float
    values: int
    wall_s: float
    cpu_s: float


def recorded(path: Path, count: int, hours: float = 24.0) -> Day:
    """A day of `count` nodes, in a new journal at `path`."""
    day = Day(path, count)
    day.live(hours)
    return day


def cost(path: Path, values: Sequence[Mapping[str, float]], jobs: int | None = None) -> Cost:
    """Replay the journal at `path` under each of `values`."""
    began, spent = time.monotonic(), _cpu()
    seen = outline(path)
    made = replay(path, seen, values, jobs=jobs)
    assert made.differing == 0
    return Cost(
        seen.decisions,
        path.stat().st_size / 1e6,
        len(values),
        time.monotonic() - began,
        _cpu() - spent,
    )


def _cpu() -> float:
    """CPU seconds of this process and of those that it ended."""
    ended = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.process_time() + ended.ru_utime + ended.ru_stime


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.day", description=__doc__)
    parser.add_argument("--nodes", type=int, default=1000)
    parser.add_argument("--hours", type=float, default=24.0)
    given = parser.parse_args()
    console = Console()
    table = Table(title=f"{given.hours:g} hours of {given.nodes:,} nodes, replayed")
    headings = ("decisions", "journal MB", "settings", "processes", "s", "CPU s", "us a node")
    for heading in headings:
        table.add_column(heading, justify="right")
    with tempfile.TemporaryDirectory(prefix="nodemanager-bench-") as home:
        path = Path(home, "journal.db")
        console.log("recording")
        with collecting(SystemClock()):
            recorded(path, given.nodes, given.hours)
        for values, jobs in (((), 1), (({"node_stale_after": 1800.0},), None)):
            console.log(f"replaying by {1 + len(values)} lot(s) of settings")
            spent = cost(path, values, jobs)
            each = spent.cpu_s * 1e6 / (spent.decisions * given.nodes * (1 + len(values)))
            table.add_row(
                f"{spent.decisions:,}",
                f"{spent.megabytes:.1f}",
                str(1 + len(values)),
                str(jobs or len(os.sched_getaffinity(0))),
                f"{spent.wall_s:.1f}",
                f"{spent.cpu_s:.1f}",
                f"{each:.1f}",
            )
    console.print(table)
    return 0


if __name__ == "__main__":
    sys.exit(main())
