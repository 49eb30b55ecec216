"""Journals to test: on SQLite, and in memory."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from nodemanager.journal.sqlite import SqliteJournal
from tests.contract.stores import Postgres, running_postgres
from tests.fakes.clock import ManualClock


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def postgresql() -> Postgres:
    return running_postgres()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "journal.db"


@pytest.fixture
def opened(clock: ManualClock, path: Path) -> Iterator[Callable[..., SqliteJournal]]:
    """Opens the journal at `path`, as often as a test restarts; all are closed at the end."""
    journals: list[SqliteJournal] = []

    def open_it(**changes: Any) -> SqliteJournal:
        values = {"path": path, "pool": "main", "clock": clock, "boot_id": "boot-1"} | changes
        journal = SqliteJournal(**values)
        journals.append(journal)
        return journal

    yield open_it
    for journal in journals:
        journal.close()
