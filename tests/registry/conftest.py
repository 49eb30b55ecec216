"""A registry on a free port, over a database of its own."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import requests

from nodemanager.core.model.world import Record
from nodemanager.httpserver.refusals import Refusals
from nodemanager.httpserver.server import HttpServer
from nodemanager.lib.clock import SystemClock
from nodemanager.records.sql import SqlRecordStore
from nodemanager.registry.app import NAME, build_app, registry_server
from tests.contract.stores import claim

TOKEN = "tok3n-of-the-administrator"


@dataclass
class Registry:
    store: SqlRecordStore
    server: HttpServer
    path: Path
    refusals: Refusals

    def call(self, verb: str, path: str, **more: Any) -> requests.Response:
        headers = {"Authorization": f"Bearer {TOKEN}", **more.pop("headers", {})}
        url = f"{self.server.url}{path}"
        return requests.request(verb, url, headers=headers, timeout=10, **more)

    def claimed(self) -> Record:
        return self.store.create(claim())

    def ping_url(self, record: Record) -> str:
        """Without the secret."""
        return f"{self.server.url}/arvados/v1/nodes/{record.uuid}/ping"

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Another process writes to the database, and does not end."""
        with closing(sqlite3.connect(self.path, isolation_level=None)) as other:
            other.execute("BEGIN IMMEDIATE")
            yield


def make_store(path: Path, **changes: Any) -> SqlRecordStore:
    settings = {"slots": 100, "hostname": "compute%(slot_number)d", "domain": "d", "timeout": 10.0}
    settings |= {"public_url": "", "clock": SystemClock()} | changes
    return SqlRecordStore(f"sqlite:///{path}", **settings)


@pytest.fixture
def registry(tmp_path) -> Iterator[Registry]:
    store = make_store(tmp_path / "registry.db", timeout=0.3)
    refusals = Refusals(NAME)
    server = registry_server(build_app(store, TOKEN, refusals), refusals=refusals)
    server.start()
    store.public_url = server.url
    yield Registry(store, server, tmp_path / "registry.db", refusals)
    server.stop()
    store.close()
