"""The map of the house names what is there: each question's file, and what is in it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "nodemanager"
MAP = (ROOT / "doc" / "architecture.rst").read_text(encoding="utf-8")
WHOLE = MAP.partition("Where to look\n---")[2]
ROWS = re.findall(r"^   \* - (.+\?)\n     - ``(.+)``\n     -(.*)$", WHOLE, re.MULTILINE)
SHORT = re.findall(
    r"^(\S.*\?)  +``(\S+)``$", (ROOT / "README.rst").read_text(encoding="utf-8"), re.MULTILINE
)


@pytest.mark.parametrize(("question", "file", "inside"), ROWS, ids=[row[0] for row in ROWS])
def test_a_question_leads_to_a_file_that_is_there(question: str, file: str, inside: str) -> None:
    assert (PACKAGE / file).is_file()
    for word in re.findall(r"``([^`]+)``", inside):
        if word.startswith("["):
            assert f"class {word[1:-1]}" in (PACKAGE / "config" / "daemon.py").read_text()
        elif "/" in word:
            assert (PACKAGE / word).exists()
        else:
            name = re.escape(word)
            text = (PACKAGE / file).read_text(encoding="utf-8")
            assert re.search(rf"^ *(def|class) {name}\b", text, re.MULTILINE)


def test_every_row_is_a_question_with_a_file() -> None:
    assert len(ROWS) == WHOLE.count("\n   * - ") - 1 >= 20
    assert len({question for question, _, _ in ROWS}) == len(ROWS)


def test_the_readme_has_the_first_questions_and_the_same_files() -> None:
    assert len(SHORT) >= 10
    files = {file for _, file, _ in ROWS}
    assert [file for _, file in SHORT if file not in files] == []
