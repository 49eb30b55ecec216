"""The manual builds without a warning, every page reachable, and has a place for everything."""

from __future__ import annotations

import pickle
import re
import runpy
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from urllib.parse import urlencode

import click
import pytest
from docutils import nodes

from nodemanager.cli import group
from nodemanager.config.sections import SECTIONS, SIZE
from nodemanager.core.model.reasons import Event, Reason
from tests import forked
from tests.packaging.conftest import TREE, environment, run

DOC = TREE / "doc"
PAGES = sorted(DOC.rglob("*.rst"))
DASHBOARD = DOC / "dashboard"
WIDEST = 104
"""Characters of a block that a window of 1440 pixels shows in one line."""
BLOCK = re.compile(r'<div class="highlight">.*?</pre></div>', re.DOTALL)
SHOW = """(blocks) => document.querySelector('article').insertAdjacentHTML(
    'beforeend', blocks.join(''))"""
HIDDEN = """() => [...document.querySelectorAll('pre')].filter(
    (one) => one.scrollWidth > one.clientWidth).map((one) => one.innerText.slice(0, 60))"""
FITS = """() => {
    const block = document.createElement('div');
    block.className = 'highlight';
    block.innerHTML = '<pre><span>' + '0'.repeat(50) + '</span></pre>';
    document.querySelector('article').append(block);
    const pre = block.firstChild, style = getComputedStyle(pre);
    const room = pre.clientWidth - parseFloat(style.paddingLeft) - parseFloat(style.paddingRight);
    return Math.floor(room / (pre.firstChild.getBoundingClientRect().width / 50));
}"""
WRITTEN = [*PAGES, TREE / "README.rst"]
INCLUDED = ("CHANGELOG.rst", "etc", "nodemanager", "tests")
"""What pages show of the tree."""


def build(kind: str, doc: Path, out: Path) -> None:
    done = run(
        *(sys.executable, "-m", "sphinx", "-W", "--keep-going", "-q", "-b", kind),
        *("-d", out / "doctrees", doc, out / kind),
    )
    assert (done.returncode, done.stdout) == (0, "")


@pytest.fixture(scope="module")
def manual(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """All of it: `html` and `man`; the drawings of workflows in brief."""
    out = tmp_path_factory.mktemp("manual")
    tree = tmp_path_factory.mktemp("tree")
    doc = tree / "doc"
    shutil.copytree(DOC, doc, ignore=shutil.ignore_patterns("_build", "_made", "__pycache__"))
    for name in INCLUDED:
        (tree / name).symlink_to(TREE / name)
    made = run(sys.executable, "-m", "doc.generate", "--brief", doc / "_made")
    assert (made.returncode, made.stdout) == (0, "")
    for kind in ("html", "man"):
        build(kind, doc, out)
    return out


def test_the_manual_builds_without_a_warning(manual: Path):
    assert (manual / "html" / "index.html").is_file()


def commands(of: click.Group = group, path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    context = click.Context(of)
    for name in of.list_commands(context):
        command = of.get_command(context, name)
        assert command is not None
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


def test_what_commands_say_of_the_incident_is_what_the_manual_shows(screens: tuple[Any, Path]):
    module, home = screens
    env = environment(TZ="UTC")
    shown = {name: (DOC / "incident" / f"{name}.txt").read_text() for name in module.SCREENS}

    said = {}
    for name, words in module.SCREENS.items():
        done = forked.run(*words, env=env, cwd=home)
        assert done.returncode == 0, done.stderr
        said[name] = module.plain(name, done.stdout)

    assert said == shown, "run `python doc/screens.py`"


READ_ON = re.compile(r'<link rel="(next|prev)" title="[^"]*" href="([^"#]+)"')


def test_next_leads_through_every_page_once_and_prev_back(manual: Path) -> None:
    html = manual / "html"
    pages = {one.relative_to(DOC).with_suffix(".html").as_posix() for one in PAGES}
    leads: dict[str, dict[str, str]] = {}
    for page in sorted(pages):
        found = READ_ON.findall((html / page).read_text(encoding="utf-8"))
        here = (html / page).parent
        leads[page] = {
            which: (here / to).resolve().relative_to(html).as_posix() for which, to in found
        }
    order = ["index.html"]
    while (then := leads[order[-1]].get("next")) is not None:
        assert leads[then]["prev"] == order[-1]
        assert then not in order
        order.append(then)
    assert set(order) == pages


def test_each_picture_of_the_dashboard_is_shown_and_described() -> None:
    page = (DOC / "dashboard.rst").read_text(encoding="utf-8")
    shown = re.findall(r"^\.\. image:: (dashboard/\S+)\n((?: +:.*\n)+)", page, re.MULTILINE)
    assert {name for name, _ in shown} == {f"dashboard/{one.name}" for one in DASHBOARD.iterdir()}
    assert all(":alt: " in options for _, options in shown)


def test_no_line_of_a_block_is_wider_than_a_page_on_a_desk(manual: Path) -> None:
    """Recorded output that is included as it was said is folded by the style sheet."""
    wide = []
    for path in sorted((manual / "doctrees").rglob("*.doctree")):
        tree = pickle.loads(path.read_bytes())
        for block in tree.findall(nodes.literal_block):
            included = block.get("source", "").endswith(".txt")
            for line in block.astext().splitlines():
                if len(line) > WIDEST and not included:
                    wide.append(f"{path.stem}: {len(line)} characters: {line}")
    assert not wide, "\n".join(wide)


@pytest.mark.server("chromium")
def test_no_block_hides_the_end_of_a_line(manual: Path) -> None:
    """All blocks of the manual, on one of its pages, on a desk and on a phone."""
    pytest.importorskip("playwright")
    from tests.web.dashboard.browser import chromium

    pages = [one.read_text(encoding="utf-8") for one in (manual / "html").rglob("*.html")]
    blocks = [one for page in pages for one in BLOCK.findall(page)]
    with chromium() as browser:
        page = browser.new_page(viewport={"width": 1440, "height": 900})
        page.goto(f"file://{manual}/html/changelog.html", wait_until="domcontentloaded")
        page.evaluate(SHOW, blocks)
        # The widest line that the other test allows fits beside the contents.
        assert page.evaluate(FITS) >= WIDEST
        assert page.evaluate(HIDDEN) == []
        page.set_viewport_size({"width": 390, "height": 844})
        assert page.evaluate(HIDDEN) == []
        assert page.locator("pre").count() > len(blocks) > 150


SOUGHT = {
    "fewer boots": "tune.html",
    "add a cloud": "developing.html",
    "reason=": "events.html",
    "stop": "stop.html",
    "cost": "cost.html",
    "upgrade": "install.html",
    "drain": "nodes.html",
    "spot": "nodes.html",
    "status": "look.html",
    "rotation": "nodes.html",
}
"""What people ask the manual's search, and the page that must come first."""


@pytest.mark.server("chromium")
def test_the_manual_s_search_finds_the_page_first(manual: Path) -> None:
    pytest.importorskip("playwright")
    from tests.web.dashboard.browser import chromium

    found = {}
    with chromium() as browser:
        page = browser.new_page()
        for words in SOUGHT:
            page.goto(f"file://{manual}/html/search.html?{urlencode({'q': words})}")
            page.get_by_text("Search finished").wait_for()
            first = page.locator("#search-results ul.search li a").first
            found[words] = (first.get_attribute("href") or "").partition("?")[0].partition("#")[0]
    assert found == SOUGHT


def test_a_page_that_nobody_links_would_be_found(tmp_path: Path):
    (tmp_path / "index.rst").write_text("Manual\n======\n")
    (tmp_path / "lost.rst").write_text("Lost\n====\n")

    done = run(
        *(sys.executable, "-m", "sphinx", "-C", "-W", "-q", "-b", "html", tmp_path),
        tmp_path / "html",
    )

    assert done.returncode != 0
    assert "lost.rst" in done.stdout
