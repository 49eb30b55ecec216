"""How a page is kept up to date: made once for all viewers, and sent to who has another version."""

from __future__ import annotations

import asyncio
import gzip

import pytest
from falcon.testing import Result

from nodemanager.httpserver.refusals import Refusals
from nodemanager.web.dashboard import store
from nodemanager.web.dashboard.site import Site
from nodemanager.web.dashboard.source import Source
from nodemanager.web.dashboard.store import Address
from nodemanager.web.door import Door
from tests.web.dashboard.console import TOKEN, Console, small

NODES = Address("/nodes")


@pytest.fixture(autouse=True)
def _at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store, "LONGEST_REST_S", 0.0)


@pytest.fixture
def signed_in(console: Console) -> Console:
    console.sign_in()
    return console


def asked(console: Console, of: str = "/nodes", version: str = "") -> Result:
    return console.get(f"/live?of={of}&version={version}")


def version_of(answer: Result) -> str:
    assert answer.status_code == 200
    return str(answer.headers["version"])


def test_who_has_the_newest_version_gets_nothing_and_another_one_the_whole_page(
    signed_in: Console,
) -> None:
    page = signed_in.get("/nodes").text
    first = asked(signed_in)
    assert gzip.decompress(first.content).decode() in page
    assert f'data-version="{version_of(first)}"' in page
    same = asked(signed_in, version=version_of(first))
    assert (same.status_code, same.content) == (204, b"")
    signed_in.decides(small(nodes=3))
    second = asked(signed_in, version=version_of(first))
    assert version_of(second) != version_of(first)
    assert b"compute3" in gzip.decompress(second.content)


def test_a_version_is_the_same_over_a_restart(signed_in: Console) -> None:
    other = Console()
    other.decides(small())
    other.sign_in()
    assert version_of(asked(other)) == version_of(asked(signed_in))


def test_it_says_how_old_the_newest_decision_is(signed_in: Console) -> None:
    before = asked(signed_in).headers
    signed_in.clock.advance(30.0)
    after = asked(signed_in).headers
    for name in ("now", "decided-ago"):
        assert float(after[name]) - float(before[name]) == pytest.approx(30.0)


def test_a_page_whose_subject_is_gone_is_to_be_loaded_again(signed_in: Console) -> None:
    assert asked(signed_in, "/nodes/i-1").status_code == 200
    assert asked(signed_in, "/nodes/i-99").status_code == 410
    starting = Console()
    starting.sign_in()
    assert asked(starting).status_code == 204


def test_only_this_server_s_pages_are_given(signed_in: Console) -> None:
    overview = version_of(asked(signed_in, "/"))
    assert version_of(asked(signed_in, "//evil.example/nodes")) == overview


def test_a_page_that_is_dear_is_made_less_often(console: Console) -> None:
    source = Source(console.board, console.history, 60.0)
    site = Site(source, Door(TOKEN, Refusals("x")))

    async def versions() -> list[str]:
        first = await site.store.newest(NODES)
        site.store._shelf(NODES).rests_until += 1000.0
        console.decides(small(nodes=3))
        second = await site.store.newest(NODES)
        third = await site.store.newest(NODES, at_once=True)
        return [one.version for one in (first, second, third) if one is not None]

    first, second, third = asyncio.run(versions())
    assert first == second != third
