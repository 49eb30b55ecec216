"""The catalog of changed lines fits the tree: python -m tests.mutation makes each and looks."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

import pytest

from tests.mutation.__main__ import ROOT, changed
from tests.mutation.mutants import MUTANTS, TextMutant

every_mutant = pytest.mark.parametrize(
    "mutant", [pytest.param(one, id=one.name) for one in MUTANTS]
)


@cache
def text_of(path: Path) -> str:
    return path.read_text(encoding="utf-8")


@every_mutant
def test_a_change_fits_one_place_and_leaves_python(mutant: TextMutant) -> None:
    path = ROOT / "nodemanager" / mutant.file
    compile(changed(mutant, text_of(path)), str(path), "exec")


@every_mutant
def test_the_test_that_must_notice_a_change_is_there(mutant: TextMutant) -> None:
    if mutant.test is None:
        assert mutant.why_not
        return
    file, _, name = mutant.test.partition("::")
    function = name.partition("[")[0]
    assert re.search(rf"^def {function}\(", text_of(ROOT / file), re.MULTILINE)


def test_each_change_has_a_name_of_its_own() -> None:
    assert len({one.name for one in MUTANTS}) == len(MUTANTS)


def test_a_change_that_fits_nowhere_is_refused() -> None:
    with pytest.raises(ValueError, match="0 times"):
        changed(MUTANTS[0], "nothing")
