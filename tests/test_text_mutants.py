"""The catalog of changed lines fits the tree: python -m tests.mutation makes each and looks."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

import pytest

from tests.mutation.__main__ import ROOT, changed
from tests.mutation.mutants import MUTANTS


@cache
def text_of(path: Path) -> str:
    return path.read_text(encoding="utf-8")


def test_every_change_fits_one_place_and_leaves_python() -> None:
    wrong = {}
    for mutant in MUTANTS:
        try:
            text = text_of(ROOT / "nodemanager" / mutant.file)
            changed(mutant, text)
            compile(changed(mutant, own_part(text, mutant.old)), mutant.file, "exec")
        except (OSError, ValueError, SyntaxError) as error:
            wrong[mutant.name] = error
    assert wrong == {}


def own_part(text: str, line: str) -> str:
    """The function or class that has the line, without what is around it; else the whole file."""
    return next((part for part in text.split("\n\n\n") if line in part), text)


def test_the_test_that_must_notice_a_change_is_there() -> None:
    named = [(mutant.name, mutant.test) for mutant in MUTANTS if mutant.test is not None]
    assert [name for name, test in named if not is_there(test)] == []
    assert [one.name for one in MUTANTS if one.test is None and not one.why_not] == []


def is_there(test: str) -> bool:
    file, _, name = test.partition("::")
    function = name.partition("[")[0]
    return re.search(rf"^def {function}\(", text_of(ROOT / file), re.MULTILINE) is not None


def test_each_change_has_a_name_of_its_own() -> None:
    assert len({one.name for one in MUTANTS}) == len(MUTANTS)


def test_a_change_that_fits_nowhere_is_refused() -> None:
    with pytest.raises(ValueError, match="0 times"):
        changed(MUTANTS[0], "nothing")
