"""A rule that is switched off is noticed: the simulation would see what the rules prevent."""

from __future__ import annotations

import re

import pytest

from tests.sampling import shortest_of_each
from tests.simulation import table
from tests.simulation.mutants import MUTANTS, Mutant
from tests.simulation.mutation import catch, known
from tests.simulation.switch import NotThere, Switch, thrown

RULES = (
    *(f"C{number}" for number in (*range(13), 20, 21, 22)),
    *("U1", "U2", "U3", "U7", "U9", "U10", "P1", "P2", "L1", "L2", "L3", "L4"),
    *("D3", "D7", "D8", "D9", "D10", "D13", "R1"),
)
"""Those that free, use again, boot or destroy, and what they rest on."""
KNOWN = known()
AGAIN = "run `python -m tests.simulation.mutation`; with a rule as argument for its mutants alone"


@pytest.mark.slow
@pytest.mark.parametrize(
    "mutant",
    shortest_of_each(
        [pytest.param(one, id=one.name) for one in MUTANTS if one.open is None],
        lambda row: row.values[0].rule,
        lambda row: KNOWN[row.values[0].name].steps if row.values[0].name in KNOWN else 0,
    ),
)
def test_the_seeds_of_make_test_notice_a_rule_that_is_off(mutant: Mutant) -> None:
    """By its own monitor or the promise's, in a run in which the product itself breaks nothing.

    That it breaks nothing in the fixed set, tests/test_simulation.py shows. Only the known seed is
    played: where the worlds have changed, a search among all takes minutes for one mutant.
    """
    assert mutant.name in KNOWN, AGAIN
    assert catch(mutant, KNOWN[mutant.name].seed, seeds=0, trusting=True) is not None, AGAIN


@pytest.mark.parametrize("rule", RULES)
def test_every_rule_is_noticed_in_one_way_of_switching_it_off_at_least(rule: str) -> None:
    assert any(one.rule == rule and one.open is None for one in MUTANTS)


@pytest.mark.parametrize("mutant", [pytest.param(one, id=one.name) for one in MUTANTS])
def test_a_mutant_fits_the_product_and_is_gone_afterwards(mutant: Mutant) -> None:
    before = [one.subject.__code__ for one in mutant.switches]
    with thrown(mutant.switches):
        assert all(one.subject.__code__ not in before for one in mutant.switches)
    assert [one.subject.__code__ for one in mutant.switches] == before


def test_what_is_not_in_the_product_can_not_be_switched_off() -> None:
    with pytest.raises(NotThere), thrown([Switch(table.cited, "text is None")]):
        pass


def test_a_switch_counts_how_often_it_bit() -> None:
    with thrown([Switch(_is_small, "number < 10")]) as (bites,):
        assert [_is_small(number) for number in (5, 50, 7)] == [False, False, False]
    assert bites.count == 2
    assert _is_small(5)


def _is_small(number: int) -> bool:
    return number < 10


@pytest.mark.slow
def test_no_seeds_are_claimed_for_a_rule_that_nothing_watches() -> None:
    """F4: settings have no monitor; a clean too early has one."""
    assert table.monitored().keys() & {"S1", "S2", "D5", "T8"} == frozenset()
    assert table.monitored().keys() >= {"C3", "D8", "U3", "R1", "B2", "L6", "O1", "O2"}
    page = table.page()
    for rule in table.rules():
        row = re.search(rf"^   \* - {rule}\n(?:     -.*\n){{4}}", page, re.MULTILINE)
        assert row is not None
        seeds = table.monitored().get(rule)
        assert row[0].endswith("-\n" if seeds is None else f"- {seeds}\n"), rule


def test_the_seeds_of_a_rule_are_those_with_its_monitors() -> None:
    """Who looks at nodes that ping sees nothing where Slurm's nodes are the records."""
    of, seeds = table.worlds(), table.monitored()
    assert min(of.seated, of.imaged, of.dispatched, of.unproven) > 0
    assert seeds["C3"] == table.SEEDS
    assert seeds["D8"] == table.SEEDS - of.seated


def test_ranges_and_names_cite_rules() -> None:
    assert table.cited("(C0-C2, D9, P1a)\n    def test_it_holds_b3_u7_l3a() -> None:") == {
        *("C0", "C1", "C2", "D9", "P1a", "B3", "U7", "L3a")
    }
