"""The developer's page names every file that something new touches, by the newest of its kind."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "doc" / "developing.rst").read_text(encoding="utf-8")
TABLES = re.findall(
    r"^\.\. named in: (.+?)(?:, but for (\S+))?\n\n=+ +=+\n(.+?)\n=+ +=+\n",
    PAGE,
    re.MULTILINE | re.DOTALL,
)
MOST = {"workflow": 8, "verb": 5, "reason": 2, "cloud": 3}
"""So many files may it take; fewer are better."""


def naming(pattern: str, but_for: str) -> set[str]:
    """The product's files that have it, below its package."""
    package = ROOT / "nodemanager"
    files = {
        str(file.relative_to(package)): file.read_text(encoding="utf-8")
        for file in package.rglob("*.py")
    }
    return {
        name
        for name, text in files.items()
        if re.search(pattern, text) and not (but_for and name.startswith(but_for))
    }


@pytest.mark.parametrize(("table", "kind"), list(zip(TABLES, MOST, strict=True)), ids=list(MOST))
def test_the_page_names_all_files_of_it_and_no_others(
    table: tuple[str, str, str], kind: str
) -> None:
    pattern, but_for, rows = table
    told = re.findall(r"^``(\S+)``", rows, re.MULTILINE)
    assert set(told) == naming(pattern, but_for)
    assert len(told) == len(set(told)) <= MOST[kind]
