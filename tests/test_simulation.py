"""The promise holds in simulated worlds where all that can go wrong does."""

from __future__ import annotations

import pytest

from tests.simulation.mutation import SEEDS
from tests.simulation.run import run
from tests.simulation.shrink import shrink, told

SHARES = 8
"""The seeds are played in so many tests, so that they can run side by side."""


LATE_WRITES = {42: "U3", 66: "U3"}
"""Open: on a store that can't compare, a write that comes late overwrites what came before it."""


@pytest.mark.parametrize("share", range(SHARES))
def test_no_seed_breaks_a_rule(share: int) -> None:
    for seed in range(share, SEEDS, SHARES):
        result = run(seed)
        if result.failed and LATE_WRITES.get(seed) != result.violations[0].rule:
            pytest.fail(told(*shrink(seed, result.violations[0].rule)))


@pytest.mark.parametrize(
    ("seed", "rule"),
    [
        pytest.param(411, "U2", id="a-late-claim-over-a-newer-one"),
        pytest.param(917, "U3", id="a-late-claim-after-the-same-record-was-ordered-again"),
        pytest.param(672, "C12", id="a-late-clean-after-its-fence-was-lifted"),
        pytest.param(1557, "C12", id="a-late-clean-behind-another-fence"),
        pytest.param(191, "C3", id="a-step-of-the-stores-clock-over-a-restart"),
        pytest.param(394, "MAX", id="an-empty-listing-of-few-records"),
        pytest.param(402, "C6", id="a-listing-that-shows-an-older-version-again"),
        pytest.param(1225, "D9", id="a-wave-whose-first-recover"),
        pytest.param(388, "LIVENESS", id="a-word-that-a-step-back-made-young"),
        pytest.param(1507, "LIVENESS", id="a-step-that-was-measured-late"),
        pytest.param(506, "C11", id="a-fence-that-a-pause-made-late"),
        pytest.param(10847, "C6", id="a-record-listing-that-a-cloud-listing-overtook"),
        pytest.param(11743, "C9", id="a-hold-and-its-release-given-to-one-that-stood-still"),
        pytest.param(13844, "C20", id="a-destroy-of-a-node-whose-tags-were-taken"),
        pytest.param(10247, "MAX", id="a-node-listed-once-another-was-ordered"),
        pytest.param(519, "MAX", id="a-plan-on-listings-from-before-a-pause"),
        pytest.param(481, "MAX", id="a-listing-that-shows-but-the-ended-copy"),
        pytest.param(10952, "U6", id="a-claim-whose-node-failed-and-is-gone"),
        pytest.param(3565, "C3", id="a-stamp-once-ahead-of-a-version-that-stands-still"),
        pytest.param(3568, "C12", id="an-address-taken-between-the-last-look-and-a-clean"),
        pytest.param(10079, "L3", id="a-set-that-is-the-largest-once-others-ended"),
        pytest.param(1751, "L3", id="two-listings-between-two-plans"),
        pytest.param(1586, "D3", id="a-young-node-destroyed-by-a-manager-whose-clock-stepped"),
        pytest.param(5674, "MAX", id="a-node-of-an-earlier-life-listed-beside"),
        pytest.param(3797, "T3", id="a-destroy-on-its-way-when-the-tags-were-taken"),
    ],
)
def test_what_once_broke_a_rule_does_not_any_more(seed: int, rule: str) -> None:
    assert rule not in {one.rule for one in run(seed).violations}


def test_one_seed_replays_one_run_exactly() -> None:
    assert run(7).digest == run(7).digest


def test_every_assumption_is_kept_in_most_runs_and_broken_in_some() -> None:
    broken = [run(seed).broken for seed in range(40)]
    assert sum(not one for one in broken) > 20
