"""What `cost` and `advise` measure in simulated worlds, against the worlds' own account.

The simulated cloud knows when each node began and ended, and the registry each ping that
it took. Latencies, restarts, lost nodes and late lists are as in any world; no fault is played.
"""

from __future__ import annotations

import itertools
import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any

import pytest

from nodemanager.core.model.settings import Settings
from nodemanager.core.replay.advice import AdviceRow
from nodemanager.core.replay.counts import advise_on_counts
from nodemanager.core.replay.fold import Decision, Start, settings_after
from nodemanager.core.replay.spending import size_of, spent
from nodemanager.journal.reading import Decided, JournalEntry
from nodemanager.journal.replay import Past, follow
from nodemanager.journal.scenarios import Scenario, ScenarioState, drive
from nodemanager.journal.verdicts import Verdicts, verdict_changes
from tests.sampling import first
from tests.simulation.engine import EPOCH
from tests.simulation.run import run
from tests.simulation.world import Pool, World

pytestmark = pytest.mark.slow

ANSWER_S = 2.0
"""A listing is answered within this time."""
SEEDS = (3, 6, 2, 4, 5, 7, 8, 9, 10)
"""Worlds whose journals are in memory, where what was noted can be read."""


class Recorded:
    """A world that was played, and when the registry took the pings of each life."""

    def __init__(self, seed: int) -> None:
        self.pings: defaultdict[tuple[str | None, ...], list[float]] = defaultdict(list)
        self.worlds: list[World] = []
        result = run(seed, without=range(10_000), watch=self._watch)
        assert not result.violations

    def _watch(self, world: World) -> None:
        self.worlds.append(world)
        for pool in world.pools.values():
            pool.journal.kept.keeps_entries = True
        real: Any = world.registry.ping

        def ping(*given: Any, **more: Any) -> Any:
            record = real(*given, **more)
            self.pings[record.pool, record.uuid, record.incarnation].append(world.engine.now)
            return record

        world.registry.ping = ping  # type: ignore[method-assign]

    def pasts(self) -> Iterator[tuple[Pool, Past]]:
        """Each pool that decided anything, and what its recording comes to."""
        (world,) = self.worlds
        for pool in world.pools.values():
            found = follow(entries_of(pool.journal.kept.entries))
            if found.decisions:
                yield pool, found

    def hours(self, pool: Pool, found: Past) -> Counter[str]:
        """For how long the nodes of each size really ran, within the recorded time."""
        first, last = found.first - EPOCH, found.last - EPOCH
        hours: Counter[str] = Counter()
        for one in self.worlds[0].cloud.instances.values():
            if one.tags.pool == pool.name:
                end = last if one.ended_at is None else min(one.ended_at, last)
                hours[one.tags.size or ""] += max(0.0, end - max(one.created_at, first)) / 3600
        return hours

    def above_s(self, many: int, pool: Pool, found: Past) -> float:
        """The node-seconds of the nodes beyond so many, within the recorded time."""
        own = [one for one in self.worlds[0].cloud.instances.values() if one.tags.pool == pool.name]
        lives = [(one.created_at, one.ended_at or math.inf) for one in own]
        first, last = found.first - EPOCH, found.last - EPOCH
        edges = {at for life in lives for at in life if first < at < last}
        return sum(
            (later - at) * max(0, sum(begin <= at < end for begin, end in lives) - many)
            for at, later in itertools.pairwise(sorted({first, last, *edges}))
        )

    def oldest_s(self, pool: Pool, found: Past) -> float:
        """The greatest age of a node within the recorded time."""
        first, last = found.first - EPOCH, found.last - EPOCH
        return max(
            min(last, one.ended_at or last) - one.created_at
            for one in self.worlds[0].cloud.instances.values()
            if one.tags.pool == pool.name and first < (one.ended_at or last)
        )

    def longest_s(self, pool: Pool, found: Past) -> float:
        """The longest time between two pings of one life, within the recorded time."""
        first, last = found.first - EPOCH, found.last - EPOCH
        return max(
            later - sooner
            for (name, *_), own in self.pings.items()
            for sooner, later in itertools.pairwise(own)
            if name == pool.name and sooner > first and later < last - pool.poll_time
        )


def entries_of(noted: Iterable[Any]) -> Iterator[JournalEntry]:
    """What a daemon noted, as a journal gives it."""
    settings, verdicts = Settings(""), Verdicts()
    for one in noted:
        if isinstance(one, Start):
            settings, verdicts = one.settings, Verdicts()
        elif isinstance(one, Decision):
            before, verdicts = verdicts, verdicts.then(one.plan)
            aborted = None if one.plan.aborted is None else one.plan.aborted.reason
            changes = tuple(verdict_changes(before, verdicts))
            yield Decided(one.snapshot, settings, one.new_records, changes, 0, 0.0, aborted)
            continue
        else:
            settings = settings_after(settings, one)
        yield one


@pytest.fixture(scope="module", params=first(2, SEEDS))
def recorded(request: pytest.FixtureRequest) -> Recorded:
    return Recorded(request.param)


def test_the_cost_is_the_worlds_own_sum_within_a_poll_of_each_node(recorded: Recorded) -> None:
    pasts = list(recorded.pasts())
    assert pasts
    for pool, found in pasts:
        nodes = Counter(
            one.tags.size
            for one in recorded.worlds[0].cloud.instances.values()
            if one.tags.pool == pool.name
        )
        prices = {size.name: size.price for size in pool.settings.sizes}
        sums = spent(found.account.stretches, size_of, (found.first, found.last))[0]
        for size, hours in recorded.hours(pool, found).items():
            limit = nodes[size] * (pool.poll_time + ANSWER_S) / 3600
            assert sums[size].hours == pytest.approx(hours, abs=limit), (pool.name, size)
            price = prices[size]
            if price:
                assert sums[size].money == pytest.approx(price * hours, abs=price * limit)
            else:
                assert sums[size].unpriced_hours == sums[size].hours


def rows_of(pool: Pool, found: Past) -> dict[str, AdviceRow]:
    """What is advised of the counts that are set. At its end a world forgets `max_node_age`."""
    scenario, course = Scenario({}, acts=True), ScenarioState()
    entries = list(entries_of(pool.journal.kept.entries))
    for _ in drive(entries, (scenario,), course):
        pass
    began_with = next(one.settings for one in entries if isinstance(one, Start))
    settings = replace(found.settings, max_node_age=began_with.max_node_age)
    capped = scenario.outcome.capped_boots(course.walls)
    span = found.first, found.last
    rows = advise_on_counts(found.account.stretches, found.evidence, settings, span, capped)
    return {one.option: one for one in rows}


def test_what_a_lower_max_nodes_saves_is_the_worlds_own_sum(recorded: Recorded) -> None:
    for pool, found in recorded.pasts():
        fewer = rows_of(pool, found)["max_nodes"].tried[0]
        instances = recorded.worlds[0].cloud.instances.values()
        limit_s = sum(one.tags.pool == pool.name for one in instances) * (pool.poll_time + ANSWER_S)
        assert fewer.value is not None
        own_s = recorded.above_s(int(fewer.value), pool, found)
        assert fewer.gain_s == pytest.approx(own_s, abs=limit_s)


def test_the_oldest_node_is_the_worlds_own_within_a_poll(recorded: Recorded) -> None:
    for pool, found in recorded.pasts():
        row = rows_of(pool, found).get("max_node_age")
        if row is not None:
            own_s = recorded.oldest_s(pool, found)
            # A poll begins that much after the one before, or once that is answered.
            limit_s = 1.5 * pool.poll_time
            assert row.facts["oldest_s"] == pytest.approx(own_s, abs=limit_s)
            is_old_enough = own_s > (row.recorded.value or 0.0) - limit_s
            assert is_old_enough or not row.facts["replaced"]


def test_the_longest_silence_is_the_worlds_own_and_at_most_a_poll_more(recorded: Recorded) -> None:
    for pool, found in recorded.pasts():
        longest_s = recorded.longest_s(pool, found)
        seen_s = found.evidence.pings.above().longest_s
        assert longest_s - 1.0 <= seen_s <= longest_s + 1.5 * pool.poll_time
