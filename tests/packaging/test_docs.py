"""The manual builds without a warning, every page reachable, and has a place for everything."""

from __future__ import annotations

import re
import runpy
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import click
import pytest

from nodemanager.cli import group
from nodemanager.config.sections import SECTIONS, SIZE
from nodemanager.core.model.reasons import Event, Reason
from tests.packaging.conftest import TREE, run

DOC = TREE / "doc"
PAGES = sorted(DOC.rglob("*.rst"))
MADE = {"events.rst", "options.rst", "proof.rst"}
WRITTEN = [page for page in PAGES if page.name not in MADE] + [TREE / "README.rst"]


def build(kind: str, out: Path) -> None:
    done = run(
        *(sys.executable, "-m", "sphinx", "-W", "--keep-going", "-q", "-b", kind),
        *("-d", out / "doctrees", DOC, out / kind),
    )
    assert (done.returncode, done.stdout) == (0, "")


@pytest.fixture(scope="module")
def manual(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """All of it: `html` and `man`."""
    out = tmp_path_factory.mktemp("manual")
    for kind in ("html", "man"):
        build(kind, out)
    return out


def test_the_manual_builds_without_a_warning(manual: Path):
    assert (manual / "html" / "index.html").is_file()


def commands(of: click.Group = group, path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    for name, command in of.commands.items():
        if isinstance(command, click.Group):
            yield from commands(command, (*path, name))
        elif not command.hidden:
            yield (*path, name)


@pytest.mark.parametrize("command", sorted(" ".join(words) for words in commands()))
def test_each_subcommand_is_in_the_manual_and_its_page(manual: Path, command: str):
    page = (manual / "man" / "nodemanager.1").read_text(encoding="utf-8").replace("\\-", "-")
    html = (manual / "html" / "cli.html").read_text(encoding="utf-8")

    assert f"\nnodemanager {command} " in page
    assert f"nodemanager {command} " in re.sub(r"<[^>]+>", "", html)


def test_each_option_is_in_its_page(manual: Path):
    page = (manual / "man" / "nodemanager.cfg.5").read_text(encoding="utf-8").replace("\\-", "-")
    missing = [
        f"[{section.name}] {option.name}"
        for section in (*SECTIONS, SIZE)
        for option in section.options
        if f"\\fB{option.name}\\fP\n" not in page
    ]

    assert len(page) > 10_000
    assert missing == []


@pytest.mark.parametrize("page", WRITTEN, ids=lambda page: page.name)
def test_a_page_names_only_events_and_reasons_that_there_are(page: Path):
    """What somebody greps for after reading it must be what the log says."""
    text = page.read_text(encoding="utf-8")
    events = set(re.findall(r"\bevent=([a-z_]+\.[a-z_]+)", text))
    reasons = set(re.findall(r"\breason=([a-z_]+)\b", text))

    assert events - set(Event) == set()
    assert reasons - set(Reason) == set()


@pytest.mark.parametrize("page", WRITTEN, ids=lambda page: page.name)
def test_a_page_cites_only_rules_that_there_are(page: Path):
    """T1 to S5; the assumptions A1 to A5 are in the promise."""
    rules = (DOC / "rules.rst").read_text(encoding="utf-8")
    known = set(re.findall(r"^   \* - ([A-Z]\d+)$", rules, re.MULTILINE))
    cited = set(re.findall(r"\b[TCUPLBDRS]\d{1,2}\b", page.read_text(encoding="utf-8")))

    assert len(known) > 60
    assert cited - known == set()


@pytest.fixture(scope="module")
def screens(tmp_path_factory: pytest.TempPathFactory) -> tuple[Any, Path]:
    """doc/screens.py, and a directory with its journal."""
    home = tmp_path_factory.mktemp("screens")
    module = SimpleNamespace(**runpy.run_path(str(DOC / "screens.py")))
    module.unpack(home)
    return module, home


def test_what_commands_say_of_the_incident_is_what_the_manual_shows(
    screens: tuple[Any, Path], monkeypatch: pytest.MonkeyPatch
):
    module, home = screens
    monkeypatch.setenv("PYTHONPATH", str(TREE))
    shown = {name: (DOC / "incident" / f"{name}.txt").read_text() for name in module.SCREENS}

    said = {name: module.plain(name, home) for name in module.SCREENS}

    assert said == shown, "run `python doc/screens.py`"


def test_a_page_that_nobody_links_would_be_found(tmp_path: Path):
    (tmp_path / "conf.py").write_text((DOC / "conf.py").read_text())
    (tmp_path / "index.rst").write_text("Manual\n======\n")
    (tmp_path / "lost.rst").write_text("Lost\n====\n")

    done = run(
        *(sys.executable, "-m", "sphinx", "-W", "-q", "-b", "html", tmp_path, tmp_path / "html")
    )

    assert done.returncode != 0
    assert "lost.rst" in done.stdout
