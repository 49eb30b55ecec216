"""The cost of one round of deciding - both listings folded, one plan - in CPU seconds."""

from __future__ import annotations

import gc
import json
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass, replace

from benchmarks import pools
from nodemanager.core.model.breaker import Breaker
from nodemanager.core.model.settings import Settings
from nodemanager.core.model.world import Claim, CloudNode, Job, Record, StoreTime
from nodemanager.core.observe import history as histories
from nodemanager.core.observe.history import History
from nodemanager.core.observe.snapshot import Snapshot
from nodemanager.core.plan.plan import Plan, plan
from nodemanager.core.safety import breaker as breakers

WARM_UP = 3
"""Polls before the first that is measured: enough for absence to settle."""
OTHER_WORK, PAGE, LINE = 256 << 20, 4096, 64
"""Bytes of memory walked to fill any cache, of a page, and of a line of a cache."""


@dataclass(frozen=True)
class Round:
    """One round that was measured; `cold_s` is that of one with nothing of it in a cache.

    `gc_s` is a collection with all of it in memory, which the daemon makes now and then.
    """

    cpu_s: float
    gc_s: float
    kept: int
    cleans: int
    deferred: int
    cold_s: float = 0.0


def cpu(work: Callable[[], object], times: int) -> float:
    """CPU seconds of `work`, the median of `times` runs."""
    return statistics.median(_cpu_once(work) for _ in range(times))


def _cpu_once(work: Callable[[], object]) -> float:
    gc.collect()
    began = time.process_time()
    work()
    return time.process_time() - began


class Planner:
    """Folds polls and plans, as the daemon actor does."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._history = History()
        self._breaker = Breaker()
        self._plan: Plan | None = None
        self.snapshot: Snapshot | None = None
        """That of the newest decision."""

    def round(self, poll: pools.Poll, jobs: tuple[Job, ...] = ()) -> Plan:
        """Take one poll in and decide, while the jobs wait."""
        settings, records, cloud = self._settings, poll.records, poll.cloud
        history = histories.store_clock_read(
            self._history,
            StoreTime(pools.EPOCH - pools.BOOT + records.ended_at, records.ended_at, 0.01),
        )
        history = histories.store_answered(history, records.ended_at, settings)
        uuids = frozenset(record.uuid for record in records.items)
        breaker = breakers.after_listing(
            self._breaker, history, uuids, records.started_at, settings, cloud=False
        )
        history = histories.records_listed(history, records, settings)
        history = histories.cloud_poll_started(history)
        ids = frozenset(node.id for node in cloud.items)
        breaker = breakers.after_listing(
            breaker, history, ids, cloud.started_at, settings, cloud=True
        )
        history = histories.cloud_listed(history, cloud, settings)
        self.snapshot = Snapshot(
            plan_id="bench",
            now=poll.ended_at,
            wall=pools.EPOCH - pools.BOOT + poll.ended_at,
            history=history,
            breaker=breaker,
            demand=jobs,
            slots=2 * len(records.items),
        )
        made = plan(self.snapshot, settings, new_records=True, before=self._plan)
        self._history, self._breaker = made.history, made.breaker
        # The plan before goes here, and its end is part of a round, as in the daemon.
        self._plan = made
        return made


def rounds(count: int, *, stale: int, measured: int) -> Round:
    """The median round of a pool of `count`, every live record pinged between any two."""
    planner, pool = Planner(pools.settings_for(count)), pools.Pool(count, stale=stale)
    for number in range(WARM_UP):
        planner.round(pool.poll(number))
    taken: list[Round] = []
    colds: list[float] = []
    for number in range(WARM_UP, WARM_UP + 2 * measured):
        is_cold = number % 2 == 1
        poll = pool.poll(number)
        began = time.process_time()
        gc.collect()
        collecting = time.process_time() - began
        if is_cold:
            _forget_cached()
        began = time.process_time()
        made = planner.round(poll)
        spent = time.process_time() - began
        if is_cold:
            colds.append(spent)
        else:
            cleans, deferred = len(made.cleans), made.deferred
            kept = len(made.records) - cleans - deferred
            taken.append(Round(spent, collecting, kept, cleans, deferred))
        del made
    median = sorted(taken, key=lambda one: one.cpu_s)[len(taken) // 2]
    return replace(median, cold_s=statistics.median(colds))


def little_changed(count: int, measured: int) -> tuple[float, float]:
    """CPU seconds of a decision after which little changed, and of one after which all pinged.

    Both take in their listings; the lowest of so many measured in turns.
    """
    planner, pool = Planner(pools.settings_for(count)), pools.Pool(count, stale=0)
    taken: tuple[list[float], list[float]] = ([], [])
    poll = pool.poll(0)
    planner.round(poll)
    for number in range(1, 2 * (WARM_UP + measured)):
        is_whole = number % 2
        poll = pool.poll(number) if is_whole else pool.little_after(poll, number)
        gc.collect()
        began = time.process_time()
        planner.round(poll)
        taken[is_whole].append(time.process_time() - began)
    return min(taken[0]), min(taken[1])


def _forget_cached() -> None:
    """Have the processor's caches hold other memory, as after a minute of other work.

    10,000 nodes fit in a cache that 100,000 do not fit in; right after the poll before, their
    ratio measures that cache.
    """
    other = bytearray(OTHER_WORK)
    for start in range(0, OTHER_WORK, PAGE):
        other[start] = 1
    assert sum(memoryview(other)[::LINE]) == OTHER_WORK // PAGE


def decoding(count: int) -> float:
    """CPU seconds to decode the JSON of both listings, and nothing else."""
    records = pools.records_json(count, poll=0, stale=0)
    nodes = pools.nodes_json(count, gone=0)
    return cpu(lambda: (json.loads(records), json.loads(nodes)), times=5)


def plain_pairing(count: int) -> float:
    """CPU seconds to pair by holding each record against each node until its own is found."""
    poll = pools.Pool(count, stale=0).poll(0)
    nodes, records = poll.cloud.items, poll.records.items

    def search() -> None:
        paired = 0
        for record in records:
            claim = record.claim
            assert claim is not None
            paired += any(_is_own(node, record, claim) for node in nodes)
        assert paired == count

    return cpu(search, times=1)


def _is_own(node: CloudNode, record: Record, claim: Claim) -> bool:
    return node.tags.record == record.uuid and node.tags.incarnation == claim.incarnation
