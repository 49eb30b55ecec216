"""What was kept and can't be read frees nothing (N21)."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from nodemanager.journal.kept import BACKLOG_MARKS, BREAKER
from nodemanager.journal.sqlite import SqliteJournal
from tests.actors.conftest import MakeRig
from tests.actors.rig import Rig
from tests.actors.test_operators import Operator
from tests.cases import cases
from tests.fakes import FakeCloud, FakeStore, TickingClock

pytestmark = pytest.mark.slow

HOUR = 3600.0


class Kept:
    """The journal's small values, changed by somebody else."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def change(self, name: str, change: Any) -> None:
        with sqlite3.connect(self._path) as connection:
            (text,) = connection.execute(
                "SELECT value FROM kept WHERE name = ?", (name,)
            ).fetchone()
            value = json.loads(text)
            change(value)
            connection.execute(
                "UPDATE kept SET value = ? WHERE name = ?", (json.dumps(value), name)
            )


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "journal.db"


@pytest.fixture
def rig(make_rig: MakeRig, path: Path, clock: TickingClock) -> Iterator[Rig]:
    """Ran, opened its breaker for a mass silence that is over, and was killed."""
    journal = SqliteJournal(path, pool="pool", clock=clock)
    made = make_rig(
        cloud=FakeCloud(clock),
        store=FakeStore(clock),
        journal=journal,
        min_nodes=0,
        backlog="clean",
    )
    _, record = made.fleet.add_node(age=10 * HOUR, pinged_ago=3 * HOUR)
    assert record.instance_id is not None
    made.cloud.vanish(record.instance_id)
    made.start()
    made.turn(31)
    made.kill()
    made.forget_lines()
    yield made
    journal.close()


def goes_on(rig: Rig) -> None:
    rig.start()
    rig.turn(600)


@cases(
    "changed",
    {
        "a-field": {"cause": "mass_silence", "more": 1},
        "a-cause": {"cause": "of_another_program"},
        "another-form": [],
    },
)
def test_a_breaker_that_cant_be_read_is_open_until_an_operator_resets_it(
    rig: Rig, path: Path, changed: object
) -> None:
    """It was a KeyError at every start."""
    as_json = replace(BACKLOG_MARKS, name=BREAKER.name)
    stored = {"breaker": changed, "boot_id": "", "boottime": 0.0, "wall": 0.0}
    rig.journal.keep(as_json, stored)
    goes_on(rig)
    assert "unreadable" in {line["cause"] for line in rig.lines("breaker.opened")}
    assert rig.summary()["breaker"] != "closed"
    assert rig.lines("record.cleaned") == []

    Operator(rig).reset()
    rig.turn(120)
    assert rig.lines("record.cleaned")


@cases(
    ("name", "change", "said"),
    {
        "clocks": (
            "clocks",
            lambda kept: kept["clocks"]["wall"].update(more=1),
            "the clocks can't be read (this program's MeasuredClock has no field more)",
        ),
        "another-form": ("clocks", lambda kept: kept.clear(), "the clocks can't be read"),
    },
)
def test_anything_else_that_cant_be_read_makes_read_only_and_says_what_to_do(
    rig: Rig, path: Path, name: str, change: Any, said: str
) -> None:
    Kept(path).change(name, change)
    goes_on(rig)
    (told,) = rig.lines("journal.failed")
    assert said in str(told["error"])
    assert "restore the journal from a copy" in str(told["error"])
    assert rig.lines("record.clean") == []
    assert rig.summary()["paired"] == 0
