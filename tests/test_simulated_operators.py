"""The promise holds, too, where operators command all the time (O1-O4, S5, D11).

Every fourth world has operators in it; these have them without a pause, and their answers are
counted.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest

from tests.sampling import first
from tests.simulation.people import People
from tests.simulation.run import play
from tests.simulation.scenario import draw
from tests.simulation.world import World

pytestmark = pytest.mark.slow

WORLDS = (range(10), range(16))
EVERY_S = 120.0


@pytest.mark.parametrize("seeds", first(1, WORLDS), ids=str)
def test_no_seed_breaks_a_rule_with_operators_all_the_time(seeds: range) -> None:
    told: Counter[str] = Counter()
    for seed in seeds:
        scenario = draw(seed)
        # They come by `watch` alone.
        scenario = replace(scenario, shape=replace(scenario.shape, operators_every=0.0))
        there: list[People] = []

        def come(world: World, there: list[People] = there) -> None:
            there.append(People(world, EVERY_S))

        found = play(scenario, watch=come).violations
        assert not found, (seed, found)
        told += there[0].told
    for verb in ("drain", "kill", "clean", "hold"):
        assert told[f"{verb} done"] > 0, told
    for verb in ("drain", "kill", "clean"):
        assert told[f"{verb} refused"] > 0, told
    for verb in ("pause done", "resume done", "release done", "drain already"):
        assert told[verb] > 0, told
