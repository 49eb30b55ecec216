"""What the manual says of the worked example."""

from __future__ import annotations

from tests.cloud.sixth import figures
from tests.contract.table import NOT_TRIED


def test_every_file_of_the_example_is_counted() -> None:
    here = {path.stem for path in figures.HERE.glob("*.py")}
    assert here - {"__init__", "figures", "joined", "test_figures"} == {
        *figures.ADAPTER,
        *figures.TESTS,
    }


def test_a_cloud_with_leftovers_stays_small() -> None:
    cloud, lines = figures.shipped()
    assert 500 < lines <= 1300, cloud


def test_nothing_of_the_contract_is_left_untried() -> None:
    assert figures.answers()[NOT_TRIED] == 0
    assert figures.answers()["yes"] > 30
