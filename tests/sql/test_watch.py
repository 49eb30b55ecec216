"""A PostgreSQL that stands still, or was restarted: whoever asks it gets an error in time."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import sqlalchemy as sa

from nodemanager.errors import StoreError
from nodemanager.lib.clock import SystemClock
from nodemanager.records.sql import REGISTRY
from nodemanager.sql.database import Database
from tests.contract.stores import Postgres

pytestmark = pytest.mark.server("postgresql")

TIMEOUT_S = 1.0


@pytest.fixture(scope="module")
def server() -> Iterator[Postgres]:
    made = Postgres()
    yield made
    made.stop()


@pytest.fixture
def database(server: Postgres) -> Iterator[Database]:
    made = Database(server.new_database(), SystemClock(), REGISTRY, timeout=TIMEOUT_S)
    yield made
    made.close()


def one(database: Database) -> int:
    with database.reading() as connection:
        return int(connection.scalar(sa.text("SELECT 1")) or 0)


def took(database: Database) -> float:
    begun = time.monotonic()
    with pytest.raises(StoreError):
        one(database)
    return time.monotonic() - begun


def test_a_server_that_stands_still_is_a_failure_in_time(
    server: Postgres, database: Database
) -> None:
    """Its own time-outs stand still, too: pings would wait for it without end."""
    assert one(database) == 1
    stopped = server.processes()
    for pid in stopped:
        os.kill(pid, signal.SIGSTOP)
    try:
        # The connection that is there, and then new ones.
        assert max(took(database) for _ in range(3)) < 10 * TIMEOUT_S
    finally:
        for pid in stopped:
            os.kill(pid, signal.SIGCONT)
    assert one(database) == 1


def test_a_statement_that_the_server_stops_in_is_a_failure_in_time(
    server: Postgres, database: Database
) -> None:
    def stops_in_between() -> None:
        with database.reading() as connection:
            pid = int(connection.scalar(sa.text("SELECT pg_backend_pid()")) or 0)
            os.kill(pid, signal.SIGSTOP)
            try:
                connection.scalar(sa.text("SELECT 1"))
            finally:
                os.kill(pid, signal.SIGCONT)

    begun = time.monotonic()
    with pytest.raises(StoreError):
        stops_in_between()
    assert time.monotonic() - begun < 10 * TIMEOUT_S
    assert one(database) == 1


def test_a_server_that_was_restarted_is_asked_anew(server: Postgres, database: Database) -> None:
    assert one(database) == 1
    for pid in server.processes()[1:]:
        cmdline = Path(f"/proc/{pid}/cmdline").read_bytes()
        if b"idle" in cmdline:
            os.kill(pid, signal.SIGTERM)
    assert one(database) == 1
