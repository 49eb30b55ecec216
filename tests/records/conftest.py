"""The Arvados adapter's stores, and what answers them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from nodemanager.httpserver.server import HttpServer
from nodemanager.records.arvados import ArvadosRecordStore
from nodemanager.registry.app import build_app, registry_server
from tests.contract.stores import open_sql
from tests.records.arvados_servers import TOKEN, ScriptedApi, Wire, open_store, scripted

__all__ = ["scripted"]


@pytest.fixture
def api(scripted: ScriptedApi) -> ScriptedApi:
    return scripted.reset()


@pytest.fixture
def registry(tmp_path: Path) -> Iterator[HttpServer]:
    store = open_sql(f"sqlite:///{tmp_path}/registry.db", 8)
    server = registry_server(build_app(store, TOKEN))
    server.start()
    yield server
    server.stop()
    store.close()


@pytest.fixture
def wire(registry: HttpServer) -> Iterator[Wire]:
    with Wire((registry.address, registry.port)) as between:
        yield between


@pytest.fixture
def straight(registry: HttpServer) -> ArvadosRecordStore:
    """The store with nothing in between."""
    return open_store(registry.url)


@pytest.fixture
def store(wire: Wire) -> ArvadosRecordStore:
    return open_store(wire.url)
