"""etc/arvados/unused-records lists and deletes the records that no node needs, and no others."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
import requests

from nodemanager.httpserver.server import HttpServer
from tests.contract.stores import claim
from tests.records.arvados_servers import NODES, TOKEN, open_store, ping

SCRIPT = Path(__file__).parents[2] / "etc/arvados/unused-records"
AUTHORIZED = {"Authorization": f"OAuth2 {TOKEN}"}

pytestmark = pytest.mark.socket


def run(server: HttpServer, *arguments: str) -> list[str]:
    """The uuids that it prints."""
    done = subprocess.run(
        [sys.executable, SCRIPT, "prod", *arguments],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
        env={"ARVADOS_API_HOST": server.url, "ARVADOS_API_TOKEN": TOKEN},
    )
    return [line.split("\t")[0] for line in done.stdout.splitlines()]


def uuids(server: HttpServer) -> set[str]:
    answer = requests.get(f"{server.url}{NODES}", headers=AUTHORIZED, timeout=10).json()
    return {one["uuid"] for one in answer["items"]}


def make(server: HttpServer, pool: str | None = None, **properties: str) -> str:
    """A record that holds nothing."""
    said = properties | ({} if pool is None else {"nodemanager_pool": pool})
    made = requests.post(
        f"{server.url}{NODES}", json={"node": {"properties": said}}, headers=AUTHORIZED, timeout=10
    ).json()
    return str(made["uuid"])


@pytest.fixture
def stocked(registry: HttpServer) -> tuple[set[str], set[str]]:
    """The uuids of unused records, and of those that must stay."""
    store = open_store(registry.url)
    unused = {make(registry) for _ in range(4)} | {make(registry, "prod") for _ in range(2)}
    claimed, pinged = store.create(claim()), store.create(claim())
    assert ping(store, pinged) == 200
    others = {make(registry, "other"), make(registry, "prod", nodemanager_hold="ann: look")}
    return unused, {claimed.uuid, pinged.uuid, *others}


def test_it_lists_all_that_are_unused_beyond_those_to_keep(
    registry: HttpServer, stocked: tuple[set[str], set[str]]
) -> None:
    unused, others = stocked
    assert set(run(registry, "--keep=0", "--days=0")) == unused
    assert len(run(registry, "--keep=2", "--days=0")) == 4
    assert run(registry, "--keep=0", "--days=1") == []
    assert uuids(registry) == unused | others


def test_it_deletes_them_and_no_others(
    registry: HttpServer, stocked: tuple[set[str], set[str]]
) -> None:
    unused, others = stocked
    gone = set(run(registry, "--keep=2", "--days=0", "--delete"))
    assert len(gone) == 4
    assert uuids(registry) == (unused | others) - gone
