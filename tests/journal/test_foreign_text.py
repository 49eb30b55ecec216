"""Whatever text or number comes to the journal, it can be written, and found again."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from enum import StrEnum
from pathlib import Path
from typing import Any

import pytest

from nodemanager.core.model.annotations import NO_MARKS, Mark, Marks
from nodemanager.core.model.world import Leftover, LeftoverKind
from nodemanager.core.plan.leftovers import Entry, LedgerState
from nodemanager.journal.api import Intent, IntentKind
from nodemanager.journal.event import LoggedEvent
from nodemanager.journal.kept import MARKS
from nodemanager.journal.sqlite import SqliteJournal

Opener = Callable[..., SqliteJournal]


class Word(StrEnum):
    A = "a"


@pytest.fixture
def journal(opened: Opener) -> SqliteJournal:
    return opened()


HALF = "caf\udce9"
HOSTILE: list[Any] = [
    HALF,
    "a\x00b",
    "\ud800",
    "x" * 100_000,
    2**70,
    -(2**70),
    float("nan"),
    Word.A,
]


def rows_of(journal: SqliteJournal, path: Path, table: str) -> list[tuple[Any, ...]]:
    journal.close()
    with sqlite3.connect(path) as connection:
        return connection.execute(f"SELECT * FROM {table}").fetchall()


@pytest.mark.parametrize("value", HOSTILE, ids=lambda value: repr(value)[:20])
def test_every_column_of_a_logged_event_takes_it(value: Any, journal: SqliteJournal) -> None:
    event = LoggedEvent(
        1.0, "e", value, value, value, value, value, value, value, value, {"error": value}
    )
    journal.tell(event)
    journal.intend([])
    assert journal.failure is None
    assert len(rows_of(journal, journal.path, "logged")) == 1


def test_a_hold_with_half_a_surrogate_pair_is_kept_and_released(journal: SqliteJournal) -> None:
    held = Marks(holds={HALF: Mark(HALF, 1.0, HALF)})
    journal.keep(MARKS, held)
    assert journal.kept(MARKS) == held
    journal.keep(MARKS, NO_MARKS)
    assert journal.kept(MARKS) == NO_MARKS


def test_an_intent_and_a_leftover_with_such_text_are_written(journal: SqliteJournal) -> None:
    key = f"destroy:{HALF}"
    journal.intend([Intent(IntentKind.DESTROY, key, HALF, HALF, HALF, {"error": HALF})])
    assert journal.recovery_failed(key, HALF) is not None
    journal.conclude(key, HALF, {"error": HALF})
    assert journal.open_intents() == ()
    leftover = Leftover(LeftoverKind.VOLUME, HALF, HALF)
    journal.save_leftovers([Entry(leftover, LedgerState.FAILED, 1.0, 1, HALF)])
    assert [one.last_error for one in journal.leftovers()] == ["caf\\udce9"]
