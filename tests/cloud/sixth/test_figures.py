"""doc/sixth.inc says what the worked example is."""

from __future__ import annotations

from pathlib import Path

from tests.cloud.sixth import figures
from tests.contract.table import NOT_TRIED

PAGE = Path(__file__).parents[3] / "doc" / "sixth.inc"


def test_the_page_is_what_the_example_is() -> None:
    assert PAGE.read_text(encoding="utf-8") == figures.page(), (
        "run `python -m tests.cloud.sixth.figures doc/sixth.inc`"
    )


def test_every_file_of_the_example_is_counted() -> None:
    here = {path.stem for path in figures.HERE.glob("*.py")}
    assert here - {"__init__", "figures", "joined", "test_figures"} == {
        *figures.ADAPTER,
        *figures.TESTS,
    }


def test_nothing_of_the_contract_is_left_untried() -> None:
    assert figures.answers()[NOT_TRIED] == 0
    assert figures.answers()["yes"] > 30


def test_the_command_writes_the_file(tmp_path: Path) -> None:
    assert figures.main([str(tmp_path / "sixth.inc")]) == 0
    assert (tmp_path / "sixth.inc").read_text(encoding="utf-8") == figures.page()
    assert figures.main([]) == 2
