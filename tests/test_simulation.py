"""The promise holds in simulated worlds where all that can go wrong does."""

from __future__ import annotations

import pytest

from tests.simulation.mutation import SEEDS
from tests.simulation.run import run
from tests.simulation.shrink import shrink, told

SHARES = 8
"""The seeds are played in so many tests, so that they can run side by side."""


@pytest.mark.parametrize("share", range(SHARES))
def test_no_seed_breaks_a_rule(share: int) -> None:
    for seed in range(share, SEEDS, SHARES):
        result = run(seed)
        if result.failed:
            pytest.fail(told(*shrink(seed, result.violations[0].rule)))


def test_one_seed_replays_one_run_exactly() -> None:
    assert run(7).digest == run(7).digest


def test_every_assumption_is_kept_in_most_runs_and_broken_in_some() -> None:
    broken = [run(seed).broken for seed in range(40)]
    assert sum(not one for one in broken) > 20
