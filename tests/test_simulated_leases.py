"""Worlds in which several managers of a pool share a lease in a database (L6)."""

from __future__ import annotations

from collections import Counter

import pytest

from tests.sampling import first
from tests.simulation.faults import KINDS
from tests.simulation.hosts import Host
from tests.simulation.run import run
from tests.simulation.scenario import draw
from tests.simulation.world import World

FIRST, WORLDS, SHARES = 200, 8, 4
FOUND = (366,)
"""Worlds in which something was found: two of four silent out of sight, and a fifth (D9)."""


def test_each_pool_has_two_or_three_hosts_whose_clocks_differ_and_no_assumption_is_broken() -> None:
    hosts = Counter[int]()
    kinds = set()
    for seed in range(60):
        scenario = draw(seed, leased=True)
        assert scenario.breaks is None
        leasing = scenario.shape.leasing
        assert leasing is not None
        assert len(set(leasing.dates)) == len(leasing.dates)
        hosts[len(leasing.dates)] += 1
        kinds |= {one.kind for one in scenario.script}
    assert min(hosts[2], hosts[3]) > 5
    assert {name for name, kind in KINDS.items() if kind.leased} <= kinds


def test_no_other_world_has_a_lease_or_its_faults() -> None:
    for seed in range(100):
        scenario = draw(seed)
        assert scenario.shape.leasing is None
        assert not any(KINDS[one.kind].leased for one in scenario.script)


@pytest.mark.slow
@pytest.mark.parametrize("share", first(1, range(SHARES)))
def test_the_promise_is_kept_whoever_acts_and_managers_take_over(share: int) -> None:
    """Killed, stopped, standing still, cut off: without takeovers, these worlds show nothing."""
    tokens = Counter[int]()
    for seed in (*range(FIRST + share, FIRST + WORLDS, SHARES), *(FOUND if share else ())):
        worlds: list[World] = []
        result = run(seed, leased=True, watch=worlds.append)
        assert not result.violations, (seed, [str(one) for one in result.violations])
        tokens.update(pool.leases.token for pool in worlds[0].pools.values())
    assert sum(count for token, count in tokens.items() if token > 2) > WORLDS / SHARES / 2


@pytest.mark.slow
def test_a_manager_that_acts_past_its_lease_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """The monitor of these worlds: an order under an older token than the lease's (L6)."""
    monkeypatch.setattr("nodemanager.lease.keeper.Term.holds", lambda term: True)
    results = (
        run(seed, leased=True, enough=lambda rule: rule == "L6") for seed in range(FIRST, FIRST + 8)
    )
    assert any(one.rule == "L6" for result in results for one in result.violations)


def test_a_host_is_a_process_that_dies_and_comes_again_as_another() -> None:
    world = World("0", draw(FIRST, leased=True).shape)
    (pool, *_) = world.pools.values()
    world.start_again(pool)
    host: Host = pool.hosts[0]
    before = host.manager
    assert before is not None
    before.kill()
    assert not host.alive
    world.start_again(pool)
    assert host.alive
    assert host.manager is not before
