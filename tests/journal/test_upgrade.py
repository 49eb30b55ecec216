"""A journal of the first schema: what was told then is found in it, too."""

from __future__ import annotations

import json
import sqlite3
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from alembic import command
from alembic.config import Config

from nodemanager import journal as package
from nodemanager.errors import JournalError
from nodemanager.journal.names import names_in
from nodemanager.journal.sqlite import SqliteJournal
from nodemanager.journal.story import Story

Opener = Callable[..., SqliteJournal]
AT = 1_700_000_000.0


def verdicts(*changes: list[Any]) -> bytes:
    return zlib.compress(json.dumps(changes).encode("ascii"))


@pytest.fixture
def old(path: Path) -> Path:
    """Two segments: each one's first decision has every verdict."""
    engine = sa.create_engine(f"sqlite:///{path}")
    with engine.begin() as connection:
        config = Config()
        config.set_main_option("script_location", f"{Path(package.__file__).parent}/migrations")
        config.attributes["connection"] = connection
        command.upgrade(config, "0001")
    engine.dispose()
    paired = ["record", "r1", "keep", "paired", {"node": "i-1"}]
    quiet = ["record", "r1", "keep", "within_window", {"idle_s": 2.5, "window_s": 60.0}]
    busy = ["node", "i-1", "keep", "busy", {}]
    clean = ["record", "r1", "clean", "stale_slot", {"idle_s": 61.0}]
    rows = [
        (AT, verdicts(paired, busy)),
        (AT + 10, verdicts(quiet, ["node", "i-1"])),
        (AT + 20, verdicts(quiet)),
        (AT + 60, verdicts(clean)),
    ]
    order = {"reason": "stale_slot", "slot": 7, "hostname": "compute7"}
    with sqlite3.connect(path) as connection:
        for wall, packed in rows:
            connection.execute(
                "INSERT INTO entries (segment, kind, boottime, wall, body, verdicts)"
                " VALUES (1, 'cycle', 0, ?, x'00', ?)",
                (wall, packed),
            )
        connection.execute(
            "INSERT INTO intents (key, kind, plan_id, record, node, details, opened_at, failures,"
            " outcome, concluded_at, result)"
            " VALUES ('clean:r1', 'clean', 'p9', 'r1', 'i-1', ?, ?, 0, 'cleaned', ?, NULL)",
            (json.dumps({"order": order}), AT + 61, AT + 62),
        )
        connection.execute("INSERT INTO about VALUES (1, 'main', ?, ?)", (AT, AT))
    return path


def test_what_was_decided_and_done_before_is_told_once(old: Path, opened: Opener) -> None:
    assert opened().failure is None
    told = list(Story(old, id="r1").news())
    assert [(one.at - AT, one.event, one.reason) for one in told] == [
        (0, "record.keep", "paired"),
        (10, "record.keep", "within_window"),
        (60, "record.clean", "stale_slot"),
        (62, "record.cleaned", "stale_slot"),
    ]
    assert told[1].more == {"idle_s": 2.5, "window_s": 60.0}
    assert (told[3].node, told[3].slot, told[3].host, told[3].plan) == ("i-1", 7, "compute7", "p9")
    assert [one.event for one in Story(old, id="i-1").news()] == [
        *("record.keep", "node.keep", "record.cleaned"),
    ]
    assert names_in(old) == {"r1", "i-1", "7", "compute7"}


def test_until_then_it_is_refused_with_what_to_do(old: Path) -> None:
    with pytest.raises(JournalError, match="start a daemon on it"):
        list(Story(old).news())
