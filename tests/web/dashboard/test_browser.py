"""The dashboard in a real browser: read, and steered by keyboard, on a desk and on a phone."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("playwright")

from playwright.sync_api import Browser, expect

from nodemanager.core.operate.replies import Command
from nodemanager.core.operate.verbs import Verb
from tests.web.dashboard.browser import PHONE, Visitor, chromium
from tests.web.dashboard.console import READ_TOKEN, TOKEN
from tests.web.dashboard.pictures import PICTURES, take
from tests.web.dashboard.scene import Scene, scene

pytestmark = [pytest.mark.server("chromium"), pytest.mark.socket, pytest.mark.slow]


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as opened:
        yield opened


@pytest.fixture
def shown(tmp_path: Path) -> Iterator[Scene]:
    with scene(tmp_path) as made:
        yield made


@pytest.fixture
def ann(browser: Browser, shown: Scene) -> Iterator[Visitor]:
    visitor = Visitor(browser, shown.url)
    visitor.sign_in(TOKEN)
    yield visitor
    visitor.close()


def paths(shown: Scene) -> list[str]:
    node, record = shown.world.nodes[0].id, shown.world.records[3].uuid
    lists = ["/", "/nodes", "/records?state=no_node", "/jobs", "/log", "/incident", "/windows"]
    return [*lists, f"/nodes/{node}", f"/records/{record}", f"/act/kill?id={node}"]


def test_a_node_is_seen_and_drained_by_keyboard(ann: Visitor, shown: Scene) -> None:
    page, node = ann.page, shown.world.nodes[0].id
    page.get_by_role("navigation", name="Pages").get_by_role("link", name="Nodes").press("Enter")
    page.get_by_role("link", name="compute1", exact=True).press("Enter")
    expect(page.get_by_role("heading", level=1)).to_have_text("Node compute1")
    page.get_by_role("link", name="Drain…").press("Enter")
    expect(page.get_by_text("It is busy now: it works until its job ends.")).to_be_visible()
    page.get_by_label("Why?").fill("new image")
    page.get_by_label("Why?").press("Enter")
    expect(page.get_by_role("alert")).to_have_text("it is so")
    assert shown.console.daemon.heard == [Command(Verb.DRAIN, "Ann", "new image", node)]
    assert ann.complaints == []


def test_a_new_decision_is_shown_without_loading_the_page_again(ann: Visitor, shown: Scene) -> None:
    page, node = ann.page, shown.world.nodes[0]
    page.goto("/nodes")
    ann.live()
    page.evaluate("() => { window.stays = true; }")
    row = page.get_by_role("row").filter(has=page.get_by_text(node.id, exact=True))
    expect(row).to_contain_text("busy")
    page.get_by_role("link", name="compute1", exact=True).focus()
    shown.drain(node.id)
    expect(row).to_contain_text("drain")
    assert page.evaluate("() => document.activeElement.textContent") == "compute1"
    other = shown.world.nodes[1].id
    shown.world.drop_node(other)
    shown.decide()
    expect(page.get_by_text(other, exact=True)).to_have_count(0)
    assert page.evaluate("() => window.stays")
    assert ann.complaints == []


def test_rows_that_move_and_a_text_half_typed_stay_as_they_are(ann: Visitor, shown: Scene) -> None:
    page, node = ann.page, shown.world.nodes[-1]
    page.goto("/nodes?sort=orders")
    ann.live()
    rows = page.locator("#list-rows tr th")
    expect(rows.first).to_have_text("compute1")
    rows.last.evaluate("(row) => { row.stays = true; }")
    search = page.get_by_label("containing")
    search.fill("half")
    shown.drain(node.id)
    expect(rows.first).to_have_text("compute20")
    assert rows.first.evaluate("(row) => row.stays")
    expect(search).to_have_value("half")
    expect(search).to_be_focused()
    names = rows.all_text_contents()
    assert names == ["compute20", *[name for name in names if name != "compute20"]]
    assert len(names) == len(shown.world.nodes)
    assert ann.complaints == []


def test_it_says_when_the_daemon_is_lost(ann: Visitor, shown: Scene) -> None:
    page = ann.page
    page.clock.install()
    page.goto("/nodes")
    expect(page.locator("#live")).to_have_text("Live.")
    shown.console.server.stop()
    page.clock.run_for(14_000)
    expect(page.get_by_role("status")).to_contain_text("The daemon does not answer.")


def test_axe_finds_nothing_wrong(browser: Browser, shown: Scene) -> None:
    visitor = Visitor(browser, shown.url, color_scheme="light")
    shown.drain(shown.world.nodes[1].id)
    visitor.page.goto("/sign-in")
    wrong = {"/sign-in": visitor.violations()}
    visitor.sign_in(TOKEN)
    for path in paths(shown):
        visitor.page.goto(path)
        wrong[path] = visitor.violations()
    assert visitor.complaints == []
    # In the dark only the colours are others.
    visitor.page.emulate_media(color_scheme="dark")
    for path in ("/", "/nodes", paths(shown)[-1]):
        visitor.page.goto(path)
        wrong[f"{path} in the dark"] = visitor.violations("color-contrast")
    visitor.close()
    assert {path: found for path, found in wrong.items() if found} == {}


def test_nothing_is_wider_than_a_phone(browser: Browser, shown: Scene) -> None:
    visitor = Visitor(browser, shown.url, viewport=PHONE, has_touch=True, is_mobile=True)
    visitor.sign_in(TOKEN)
    wide, wrong = {}, {}
    for path in paths(shown):
        visitor.page.goto(path)
        wide[path] = visitor.overflow()
        wrong[path] = visitor.violations("target-size") + visitor.cut()
        small = visitor.page.evaluate(
            "() => [...document.querySelectorAll('button, .button, nav a')]"
            ".filter((one) => one.offsetHeight && one.offsetHeight < 24).length"
        )
        assert small == 0, path
    visitor.close()
    assert {path: by for path, by in wide.items() if by > 0} == {}
    assert {path: found for path, found in wrong.items() if found} == {}


def test_a_phone_shows_of_a_record_all_that_its_slot_waits_for(
    browser: Browser, shown: Scene
) -> None:
    visitor = Visitor(browser, shown.url, viewport=PHONE, has_touch=True, is_mobile=True)
    visitor.sign_in(TOKEN)
    visitor.page.goto("/records?state=no_node")
    row = visitor.page.locator("#list-rows tr").first
    expect(row).to_contain_text("compute4")
    for part in ("[data-label='quiet']", "[data-label='free in']", ".code"):
        box = row.locator(part).bounding_box()
        assert box is not None, part
        assert box["width"] > 0, part
        assert box["x"] + box["width"] <= PHONE["width"], part
    visitor.close()


def test_a_slash_leads_to_the_search_and_the_skip_link_to_the_content(ann: Visitor) -> None:
    page = ann.page
    page.goto("/nodes")
    page.keyboard.press("Tab")
    expect(page.get_by_role("link", name="To the content")).to_be_focused()
    page.keyboard.press("/")
    search = page.get_by_label("containing")
    expect(search).to_be_focused()
    page.keyboard.type("/x")
    expect(search).to_have_value("/x")
    page.keyboard.press("Enter")
    expect(page).to_have_url(re.compile(r"/nodes\?.*q=%2Fx"))


def test_an_incident_prints_without_what_is_for_a_screen(ann: Visitor) -> None:
    page = ann.page
    page.goto("/incident")
    page.evaluate("() => { window.print = () => { window.printed = true; }; }")
    page.get_by_role("button", name="Print").click()
    assert page.evaluate("() => window.printed")
    page.emulate_media(media="print", color_scheme="dark")
    expect(page.get_by_role("navigation", name="Pages")).to_be_hidden()
    expect(page.get_by_role("button", name="Print")).to_be_hidden()
    expect(page.get_by_role("link", name="record.cleaned").first).to_be_visible()
    colour = page.evaluate("() => getComputedStyle(document.body).backgroundColor")
    assert colour == "rgb(255, 255, 255)"


def test_the_overview_puts_blocks_beside_each_other_on_a_desk(ann: Visitor) -> None:
    boxes = {
        id: ann.page.locator(f"#{id}").bounding_box()
        for id in ("slots", "nodes", "chart-slots", "demand", "health", "orders")
    }
    tops = {id: round(box["y"]) for id, box in boxes.items() if box is not None}
    assert tops["slots"] == tops["chart-slots"]
    assert tops["nodes"] < tops["demand"] == tops["health"] == tops["orders"]


def test_who_may_only_look_sees_no_button(browser: Browser, shown: Scene) -> None:
    visitor = Visitor(browser, shown.url)
    visitor.sign_in(READ_TOKEN)
    visitor.page.goto(f"/nodes/{shown.world.nodes[0].id}")
    expect(visitor.page.get_by_role("link", name="Drain…")).to_be_hidden()
    visitor.page.goto("/")
    expect(visitor.page.get_by_role("link", name="Pause the pool")).to_be_hidden()
    visitor.close()


def test_the_manuals_pictures_can_be_taken(browser: Browser, tmp_path: Path, shown: Scene) -> None:
    take(browser, shown, tmp_path, ("overview-phone-dark",))
    (taken,) = tmp_path.glob("*.png")
    assert taken.stat().st_size > 10_000
    manual = Path(__file__).parents[3] / "doc" / "dashboard"
    assert {one.stem for one in manual.iterdir()} == PICTURES.keys()
    assert all(one.stat().st_size < 150_000 for one in manual.iterdir())
