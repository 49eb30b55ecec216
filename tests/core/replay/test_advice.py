"""What a replay advises from the gain and the hits of each value."""

from __future__ import annotations

import pytest

from nodemanager.core.replay.advice import Advice, CandidateValue, Counsel, advise

RECORDED = CandidateValue("1h (recorded)", 0.0, 0)
FREES_AND_HITS = CandidateValue("10m", 900.0, 2)
HITS_LESS = CandidateValue("20m", 600.0, 1)
FREES = CandidateValue("30m", 300.0, 0)
LATER = CandidateValue("2h", -300.0, 0)


def test_with_nothing_tried_it_is_to_try_something() -> None:
    assert advise(RECORDED, []) == Advice(Counsel.TRY, RECORDED)


@pytest.mark.parametrize("order", [1, -1], ids=["ascending", "descending"])
def test_the_most_gain_without_a_hit_is_best_and_the_next_that_hits_its_limit(order: int) -> None:
    tried = [FREES_AND_HITS, HITS_LESS, FREES, LATER][::order]
    assert advise(RECORDED, tried) == Advice(Counsel.SOONER, FREES, HITS_LESS)


def test_no_gain_makes_up_for_a_hit() -> None:
    assert advise(RECORDED, [HITS_LESS, LATER]) == Advice(Counsel.KEEP, RECORDED, HITS_LESS)


@pytest.mark.parametrize(
    "tried",
    [pytest.param(LATER, id="later"), pytest.param(CandidateValue("1h", 0.0, 0), id="same")],
)
def test_a_value_that_frees_no_slot_sooner_is_not_better(tried: CandidateValue) -> None:
    assert advise(RECORDED, [tried]) == Advice(Counsel.KEEP, RECORDED)


def test_where_the_recorded_value_hits_a_later_one_that_does_not_is_better() -> None:
    hit = CandidateValue("10m (recorded)", 0.0, 1)
    assert advise(hit, [FREES_AND_HITS, LATER]) == Advice(Counsel.FEWER_HITS, LATER, FREES_AND_HITS)
