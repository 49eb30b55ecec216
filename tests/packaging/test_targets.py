"""The Makefile's targets: few for a newcomer, each proof with its time, none named in vain."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.packaging.conftest import TREE, run

TEXT = (TREE / "Makefile").read_text(encoding="utf-8")
TARGETS = set(re.findall(r"^([a-z][a-z-]*):", TEXT, re.MULTILINE))
PROOFS = {name.removeprefix("proof-") for name in TARGETS if name.startswith("proof-")}
SPOKEN = [
    *((TREE / "doc").rglob("*.rst")),
    *TREE.glob("*.rst"),
    *(TREE / "tests").rglob("*.py"),
    *(path for path in (TREE / "etc").rglob("*") if path.is_file()),
    TREE / "pyproject.toml",
]
NAMED = re.compile(r"`make ([a-z-]+)(?: NAME=([a-z]+))?")


def made(*words: str) -> list[str]:
    done = run("make", "--no-print-directory", *words)
    assert done.returncode == 0, done.stdout
    return done.stdout.splitlines()


def test_a_newcomer_is_shown_five():
    *first, last = made()

    assert [line.split()[1] for line in first] == ["run", "test", "quick", "docs", "install"]
    assert "make proof" in last
    assert "make more" in last


def test_two_managers_get_the_extra_that_their_database_needs():
    """In a fresh clone neither manager started, and each said why in its own log alone."""
    said = made("-n", "run", "WHAT=two")

    assert any("etc/install/venv .venv postgres" in line for line in said)


def test_every_proof_is_listed_with_how_long_it_takes():
    listed = {}
    for line in made("proof"):
        found = re.fullmatch(
            r"  make proof NAME=([a-z]+) +\S.* \((\d+ (?:s|minutes?|hours?))\)", line
        )
        assert found, line
        listed[found[1]] = found[2]

    assert listed.keys() == PROOFS
    assert len(PROOFS) > 10


def test_what_is_neither_is_listed_too():
    listed = {line.split()[1] for line in made("more")}
    inner = {"venv", "venv-test", "static", "lint", "collected", "unit", "proof", "help"}

    assert listed == TARGETS - {f"proof-{name}" for name in PROOFS} - inner - {
        *("run", "test", "quick", "docs", "install")
    }


@pytest.mark.parametrize("name", sorted(PROOFS))
def test_a_proof_is_played_by_its_name(name: str):
    assert made("-n", "proof", f"NAME={name}") == made("-n", f"proof-{name}")


def test_a_proof_that_there_is_not_is_an_error():
    done = run("make", "proof", "NAME=nothing")

    assert done.returncode != 0
    assert "proof-nothing" in done.stdout


@pytest.mark.parametrize("what", ["run", "slurm", "two"])
def test_each_demo_is_a_script(what: str):
    assert f"etc/demo/{what}.py start" in "\n".join(made("-n", "run", f"WHAT={what}"))
    assert (TREE / "etc" / "demo" / f"{what}.py").is_file()


def test_no_text_names_a_target_that_there_is_not():
    wrong: list[tuple[Path, str]] = []
    named = 0
    for path in SPOKEN:
        for target, proof in NAMED.findall(path.read_text(encoding="utf-8", errors="ignore")):
            named += 1
            if target not in TARGETS or (target == "proof" and proof and proof not in PROOFS):
                wrong.append((path, target))

    assert wrong == []
    assert named > 50


def test_the_short_pages_name_only_pages_that_there_are():
    short = [*TREE.glob("*.rst"), TREE / "CITATION.cff", *(TREE / ".github").rglob("*.md")]
    named = {
        page
        for path in short
        for page in re.findall(r"\bdoc/[a-z-]+\.rst", path.read_text(encoding="utf-8"))
    }

    assert {page for page in named if not (TREE / page).is_file()} == set()
    assert len(named) > 5
