"""What changed from one version of a page to the next, and how a browser hears of it."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from falcon.asgi import SSEvent

from nodemanager.refusals import Refusals
from nodemanager.web.dashboard import live, store
from nodemanager.web.dashboard.live import Viewers
from nodemanager.web.dashboard.page import Block, Page, Table, changes
from nodemanager.web.dashboard.site import Site
from nodemanager.web.dashboard.source import Source
from nodemanager.web.dashboard.store import KEPT_VERSIONS, Address
from nodemanager.web.dashboard.sweep import Sweeps
from nodemanager.web.door import Door
from nodemanager.workers import Workers
from tests.web.dashboard.console import TOKEN, Console, small

NODES = Address("/nodes")


def page(html: str = "x", **rows: str) -> Page:
    return Page("t", "n", (Block("b", "B", html, Table("c", "head", rows)),))


def test_a_page_that_is_the_same_needs_nothing() -> None:
    assert changes(page(a="1", b="2"), page(a="1", b="2")) is None


def test_only_what_changed_is_sent() -> None:
    told = changes(page("x", a="1", b="2", c="3"), page("y", a="1", b="9", d="4"))
    assert told == {
        "html": {"b-html": "y"},
        "rows": {"b-rows": {"gone": ["c"], "put": [("b", "9", "a"), ("d", "4", "b")]}},
    }


def test_rows_that_moved_are_put_in_order() -> None:
    told = changes(page(a="1", b="2"), page(b="2", a="1"))
    assert told is not None
    assert told["rows"]["b-rows"] == {"gone": [], "put": [], "order": ["b", "a"]}


def test_a_page_of_other_blocks_is_loaded_again() -> None:
    assert changes(page(), Page("t", "n", ())) == {"whole": True}
    assert changes(page(), Page("other", "n", page().blocks)) == {"whole": True}


@pytest.fixture
def site(console: Console, monkeypatch: pytest.MonkeyPatch) -> Site:
    monkeypatch.setattr(live, "LOOK_S", 0.01)
    monkeypatch.setattr(store, "LONGEST_REST_S", 0.0)
    source = Source(console.board, console.explanations, console.history, console.clock, 60.0)
    door = Door(TOKEN, Refusals("x"))
    sweeps = Sweeps(None, console.clock)
    return Site(source, door, Workers("test", 1), Viewers(2, 1), sweeps)


async def heard(
    stream: Any, most: int, *, after: dict[int, Any] | None = None
) -> list[tuple[str | None, dict[str, Any]]]:
    """The first events of a stream; `after` is called once so many were heard."""
    found: list[tuple[str | None, dict[str, Any]]] = []
    event: SSEvent
    async for event in stream:
        found.append((event.event, event.json or {}))
        if after is not None and len(found) in after:
            after[len(found)]()
        if len(found) == most:
            await stream.aclose()
            break
    return found


def test_a_viewer_hears_what_a_new_decision_changed(site: Site, console: Console) -> None:
    async def watch() -> list[tuple[str | None, dict[str, Any]]]:
        first = await site.store.newest(NODES)
        assert first is not None
        stream = site.live.stream(NODES, first.version, "p", lambda: True)
        return await heard(stream, 2, after={1: lambda: console.decides(small(nodes=3))})

    (beat, told), (change, what) = asyncio.run(watch())
    assert (beat, told["later"]) == ("beat", False)
    assert change == "change"
    (row,) = what["rows"]["list-rows"]["put"]
    assert "compute3" in row[1]
    assert len(json.dumps(what)) < 4000, "the other rows are not sent again"


def test_whoever_has_an_unknown_or_old_version_loads_the_page_again(
    site: Site, console: Console
) -> None:
    async def watch() -> list[tuple[str | None, dict[str, Any]]]:
        first = await site.store.newest(NODES)
        assert first is not None
        for count in range(3, 4 + KEPT_VERSIONS):
            console.decides(small(nodes=count if count < 7 else count + 1))
            await site.store.newest(NODES, at_once=True)
        old = await heard(site.live.stream(NODES, first.version, "p", lambda: True), 2)
        other = await heard(site.live.stream(NODES, "of-another-run", "p", lambda: True), 2)
        return [old[1], other[1]]

    assert asyncio.run(watch()) == [("change", {"whole": True})] * 2


def test_a_viewer_beyond_the_cap_is_served_now_and_then(site: Site, console: Console) -> None:
    async def watch() -> list[SSEvent]:
        first = await site.store.newest(NODES)
        assert first is not None
        one = site.live.stream(NODES, first.version, "p", lambda: True)
        await anext(one)
        console.decides(small(nodes=3))
        async with asyncio.timeout(5):
            more = [event async for event in site.live.stream(NODES, first.version, "p", bool)]
        await one.aclose()
        assert len(site.live._viewers) == 0
        return more

    beat, change = asyncio.run(watch())
    assert beat.retry == live.LATER_MS
    assert beat.json["later"]
    assert change.event == "change"


def test_a_stream_ends_with_its_session_and_with_its_time(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def watch(goes_on: bool) -> int:
        stream = site.live.stream(NODES, "", "p", lambda: goes_on)
        async with asyncio.timeout(5):
            return len([one async for one in stream])

    assert asyncio.run(watch(False)) == 1
    monkeypatch.setattr(live, "STREAM_S", 0.05)
    assert asyncio.run(watch(True)) == 2


def test_a_page_that_is_dear_is_made_less_often(site: Site, console: Console) -> None:
    async def versions() -> list[str]:
        first = await site.store.newest(NODES)
        shelf = site.store._shelf(NODES)
        shelf.rests_until += 1000.0
        console.decides(small(nodes=3))
        second = await site.store.newest(NODES)
        third = await site.store.newest(NODES, at_once=True)
        return [one.version for one in (first, second, third) if one is not None]

    first, second, third = asyncio.run(versions())
    assert first == second != third
