"""What is advised: by the gain and the hits of each value, and by what the recording shows."""

from __future__ import annotations

from typing import Any

import pytest

from nodemanager.core.model.reasons import Reason
from nodemanager.core.model.settings import Settings
from nodemanager.core.model.world import Size
from nodemanager.core.replay.advice import (
    WINDOWS,
    Advice,
    AdviceRow,
    Basis,
    CandidateValue,
    Counsel,
    advise,
    values_to_try,
)
from nodemanager.core.replay.counts import advise_on_counts
from nodemanager.core.replay.evidence import Evidence, Lengths, Seen, levels
from nodemanager.core.replay.spending import CAUSE_OF, Stretch
from nodemanager.core.replay.worth import RefusedBoots
from tests.cases import cases

RECORDED = CandidateValue("1h (recorded)", 0.0, 0, 3600.0)
FREES_AND_HITS = CandidateValue("10m", 900.0, 2, 600.0)
HITS_LESS = CandidateValue("20m", 600.0, 1, 1200.0)
FREES = CandidateValue("30m", 300.0, 0, 1800.0)
LATER = CandidateValue("2h", -300.0, 0, 7200.0)
SILENCES = WINDOWS["node_stale_after"]


def ended(longest_s: float, count: int = 3, least: float = 0.0) -> Basis:
    return Basis(SILENCES, Seen(count, longest_s, "compute4", 1000.0), least)


def test_with_nothing_tried_it_is_to_try_something() -> None:
    assert advise(RECORDED, []) == Advice(Counsel.TRY, RECORDED)


@pytest.mark.parametrize("order", [1, -1], ids=["ascending", "descending"])
def test_the_most_gain_without_a_hit_is_best_and_the_next_that_hits_its_limit(order: int) -> None:
    tried = [FREES_AND_HITS, HITS_LESS, FREES, LATER][::order]
    assert advise(RECORDED, tried) == Advice(Counsel.BETTER, FREES, HITS_LESS)


def test_no_gain_makes_up_for_a_hit() -> None:
    assert advise(RECORDED, [HITS_LESS, LATER]) == Advice(Counsel.KEEP, RECORDED, HITS_LESS)


@cases("tried", {"later": LATER, "same": CandidateValue("1h", 0.0, 0)})
def test_a_value_that_frees_no_slot_sooner_is_not_better(tried: CandidateValue) -> None:
    assert advise(RECORDED, [tried]) == Advice(Counsel.KEEP, RECORDED)


def test_where_the_recorded_value_hits_a_later_one_that_does_not_is_better() -> None:
    hit = CandidateValue("10m (recorded)", 0.0, 1, 600.0)
    basis = ended(300.0)
    for given in (None, basis):
        advice = advise(hit, [CandidateValue("5m", 900.0, 2, 300.0), LATER], given)
        assert (advice.counsel, advice.best) == (Counsel.FEWER_HITS, LATER)


# By what ended.


def test_without_a_silence_that_ended_no_shorter_window_is_advised() -> None:
    advice = advise(RECORDED, [FREES, LATER], ended(0.0, count=0))
    assert advice == Advice(Counsel.NO_EVIDENCE, RECORDED, FREES)


@cases(
    ("longest_s", "counsel"),
    {
        "half-as-long-again-is-left": (1200.0, Counsel.BETTER),
        "a-little-less": (1200.001, Counsel.KEEP),
    },
)
def test_a_shorter_window_leaves_a_margin_to_the_longest_silence(
    longest_s: float, counsel: Counsel
) -> None:
    advice = advise(RECORDED, [FREES, LATER], ended(longest_s))
    assert advice.counsel is counsel
    assert advice.limit == (None if counsel is Counsel.BETTER else FREES)


def test_a_window_that_a_silence_outlasted_is_to_be_longer() -> None:
    advice = advise(RECORDED, [FREES, LATER], ended(3700.0, least=3700.0))
    assert advice == Advice(Counsel.LONGER, LATER)


def test_a_longer_window_is_not_better_for_freeing_slots_sooner_by_chance() -> None:
    odd = CandidateValue("2h", 11.0, 0, 7200.0)
    assert advise(RECORDED, [odd], ended(60.0)).counsel is Counsel.KEEP


def test_the_values_to_try_are_round_and_the_shorter_one_is_backed_where_it_can_be() -> None:
    assert values_to_try(7200.0, ended(600.0)) == [900.0, 14400.0]
    assert values_to_try(7200.0, ended(6000.0)) == [3600.0, 14400.0], "only to show what it does"
    assert values_to_try(7200.0, ended(0.0, count=0)) == [3600.0, 14400.0]
    assert values_to_try(600.0, ended(4000.0, least=4000.0)) == [300.0, 6300.0]
    assert values_to_try(2, ended(1.0)) == [1, 3]
    assert values_to_try(1, ended(1.0)) == [2]


def test_lengths_tell_the_usual_one_and_those_beyond_it() -> None:
    lengths = Lengths()
    assert lengths.above() == Seen()
    for at in range(99):
        lengths.add(30.0 + at % 2, "compute1", at)
    lengths.add(1234.5, "compute7", 5.0)
    assert lengths.usual_s in (30.0, 31.0)
    assert lengths.unusual == Seen(1, 1234.5, "compute7", 5.0)
    assert lengths.above().count == 100


# Idle nodes.


def idle(node: str, reason: Reason, since: float, until: float) -> Stretch:
    return Stretch(node, "small", 0.1, CAUSE_OF[reason], reason, since, until)


def row_of(rows: list[AdviceRow], option: str) -> AdviceRow:
    return next(one for one in rows if one.option == option)


def pinged(every_s: float) -> Evidence:
    evidence = Evidence()
    evidence.pings.add(every_s, "compute1", 0.0)
    evidence.boots.add(120.0, "compute1", 0.0)
    return evidence


def test_a_lower_idle_count_is_advised_where_no_node_worked_again() -> None:
    stretches = [
        idle("a", Reason.NOT_IDLE_LONG, 0, 60),
        idle("a", Reason.IDLE_BEYOND_DEMAND, 60, 65),
    ]
    settings = Settings("pool", consecutive_idle_count=2, max_nodes=3)
    rows = advise_on_counts(stretches, pinged(30.0), settings, (0.0, 3600.0))
    row = row_of(rows, "consecutive_idle_count")
    assert (row.advice.counsel, row.advice.best.label) == (Counsel.BETTER, "1")
    assert row.advice.best.money == pytest.approx(0.1 * 30 / 3600)
    assert row.facts["shut_down"] == 1


def test_an_idle_count_is_kept_where_a_lower_one_would_have_cost_boots() -> None:
    stretches = [
        idle("a", Reason.NOT_IDLE_LONG, 0, 60),
        idle("a", Reason.BUSY, 60, 600),
        idle("b", Reason.NOT_IDLE_LONG, 0, 60),
        idle("b", Reason.IDLE_BEYOND_DEMAND, 60, 65),
    ]
    settings = Settings("pool", consecutive_idle_count=2, max_nodes=3)
    rows = advise_on_counts(stretches, pinged(30.0), settings, (0.0, 3600.0))
    row = row_of(rows, "consecutive_idle_count")
    assert row.advice.counsel is Counsel.KEEP
    assert [one.boots for one in row.tried] == [1, 0]


def test_a_higher_idle_count_is_advised_where_nodes_were_wanted_again_at_once() -> None:
    evidence = pinged(30.0)
    evidence.claims["small"] = [80.0, 5000.0]
    stretches = [
        idle("a", Reason.NOT_IDLE_LONG, 0, 60),
        idle("a", Reason.IDLE_BEYOND_DEMAND, 60, 65),
    ]
    settings = Settings("pool", consecutive_idle_count=1, max_nodes=3)
    rows = advise_on_counts(stretches, evidence, settings, (0.0, 3600.0))
    row = row_of(rows, "consecutive_idle_count")
    assert (row.advice.best.label, row.advice.best.boots) == ("2", -1)
    assert row.facts["soonest_again_s"] == 20.0


def test_without_an_idle_node_there_is_no_evidence_on_idle_counts() -> None:
    rows = advise_on_counts([], pinged(30.0), Settings("pool"), (0.0, 3600.0))
    assert row_of(rows, "consecutive_idle_count").advice.counsel is Counsel.NO_EVIDENCE


@cases(
    ("ends_as", "label"),
    {
        "shut-down-later": (Reason.IDLE_BEYOND_DEMAND, "0, 999999"),
        "worked-again": (Reason.BUSY, "20, 999999"),
    },
)
def test_windows_that_are_always_open_are_advised_where_no_kept_node_worked(
    ends_as: Reason, label: str
) -> None:
    stretches = [idle("a", Reason.WINDOW_CLOSED, 0, 600), idle("a", ends_as, 600, 610)]
    settings = Settings("pool", shutdown_windows=(1200.0, 59999940.0))
    rows = advise_on_counts(stretches, pinged(30.0), settings, (0.0, 3600.0))
    assert row_of(rows, "shutdown_windows").advice.best.label == label


def test_min_nodes_may_be_lower_by_as_many_as_were_always_idle() -> None:
    sizes = (Size("small", "s.1", cores=1, ram_mb=1000, price=0.1, spare_nodes=2),)
    stretches = [
        idle("a", Reason.NEEDED, 0, 7200),
        idle("b", Reason.NEEDED, 0, 3600),
        idle("b", Reason.BUSY, 3600, 7200),
        idle("c", Reason.SPARE, 3000, 7200),
    ]
    assert list(levels(stretches[:2], 0.0, 7200.0)) == [(3600.0, 2), (3600.0, 1)]
    settings = Settings("pool", min_nodes=3, max_nodes=9, sizes=sizes)
    rows = advise_on_counts(stretches, pinged(30.0), settings, (0.0, 7200.0))
    row = row_of(rows, "min_nodes")
    assert (row.advice.best.label, row.advice.best.money) == ("1", pytest.approx(0.4))
    assert row_of(rows, "[Size small] spare_nodes").advice.best.label == "0"


# Limits.

HOUR = 3600.0
TWO = [
    idle("a", Reason.BUSY, 0, 2 * HOUR),
    idle("b", Reason.BUSY, HOUR, 2 * HOUR),
    idle("b", Reason.NEEDED, 2 * HOUR, 3 * HOUR),
]
"""Two nodes at once for an hour, both at work."""


def limits(stretches: list[Stretch], *refused: RefusedBoots, **options: Any) -> list[AdviceRow]:
    sizes = (Size("small", "s.1", cores=1, ram_mb=1000, price=0.1),)
    settings = Settings("pool", sizes=sizes, **options)
    return advise_on_counts(stretches, pinged(30.0), settings, (0.0, 4 * HOUR), refused)


def test_where_demand_waited_at_max_nodes_more_are_weighed_by_what_they_cost_at_most() -> None:
    refused = (HOUR, {"small": 3}), (HOUR / 2, {"small": 1})
    row = row_of(limits(TWO, *refused, max_nodes=2), "max_nodes")
    assert (row.advice.counsel, row.advice.best.label) == (Counsel.WEIGH, "5")
    fewer, more = row.tried
    assert (more.work_s, more.money) == (3.5 * HOUR, pytest.approx(-0.35))
    assert (fewer.label, fewer.gain_s, fewer.work_s) == ("1", HOUR, -HOUR)
    assert fewer.money == pytest.approx(0.1)
    assert row.facts == {"most": 2, "lacking": 3, "waited_s": 1.5 * HOUR}


def test_a_max_nodes_that_no_boot_was_refused_for_stays_and_names_the_most_nodes() -> None:
    row = row_of(limits(TWO, max_nodes=7), "max_nodes")
    assert (row.advice.counsel, row.facts["most"]) == (Counsel.NO_EVIDENCE, 2)
    (fewer,) = row.tried
    assert (fewer.label, fewer.gain_s, fewer.money, fewer.work_s) == ("2", 0.0, 0.0, 0.0)


def aged(
    node: str, launched: float, since: float, until: float, *, replaced: bool
) -> list[Stretch]:
    stretches = [idle(node, Reason.NEEDED, since, until)]
    if replaced:
        stretches.append(idle(node, Reason.TOO_OLD, until, until + 60))
        stretches.append(idle(node, Reason.SHUTTING_DOWN, until + 60, until + 120))
    for one in stretches:
        one.launched = launched
    return stretches


def test_another_max_node_age_costs_or_saves_a_boot_for_each_node_that_is_replaced() -> None:
    stretches = aged("a", 0, 0, 4 * HOUR, replaced=True)
    stretches += aged("b", -HOUR, 0, 3.5 * HOUR, replaced=False)
    row = row_of(limits(stretches, max_node_age=4 * HOUR), "max_node_age")
    assert (row.advice.counsel, row.recorded.label) == (Counsel.KEEP, "4h")
    # One in the place of `a`, and `b` at its second and its fourth hour; half of the one of `a`.
    shorter, longer = row.tried
    assert (shorter.label, shorter.boots) == ("2h", 3)
    assert shorter.money == pytest.approx(-3 * 0.1 * 120 / HOUR)
    assert (longer.label, longer.money) == ("8h", pytest.approx(0.5 * 0.1 * 120 / HOUR))
    assert row.facts == {"replaced": 1, "oldest_s": 4.5 * HOUR}


def test_without_a_node_that_was_replaced_for_its_age_there_is_no_evidence_on_it() -> None:
    row = row_of(limits(TWO, max_node_age=4 * HOUR), "max_node_age")
    assert (row.advice.counsel, row.facts["replaced"]) == (Counsel.NO_EVIDENCE, 0)


def test_an_age_that_no_boot_could_reach_is_not_tried() -> None:
    row = row_of(limits(TWO, max_node_age=2 * HOUR, boot_fail_after=HOUR), "max_node_age")
    assert [one.label for one in row.tried] == ["4h"]


def test_no_age_is_advised_where_none_is_set() -> None:
    assert "max_node_age" not in {one.option for one in limits(TWO)}
