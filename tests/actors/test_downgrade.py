"""What a newer version of the program kept, this one reads as far as it is safe (N21)."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from nodemanager.journal.kept import BACKLOG_RUN, BREAKER
from nodemanager.journal.sqlite import SqliteJournal
from tests.actors.conftest import MakeRig
from tests.actors.rig import Rig
from tests.actors.test_operators import Operator
from tests.fakes import FakeCloud, FakeStore, TickingClock

pytestmark = pytest.mark.slow

HOUR = 3600.0


class Kept:
    """The journal's small values as a newer version may have left them."""

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


@pytest.mark.parametrize(
    "newer",
    [
        pytest.param({"cause": "mass_silence", "newer": 1}, id="a-field"),
        pytest.param({"newer": 1}, id="a-field-of-a-closed-one"),
        pytest.param({"cause": "of_a_newer_version"}, id="a-cause"),
        pytest.param(
            {"cause": "mass_silence", "others": [{"cause": "invariant", "newer": [1]}]},
            id="a-field-within",
        ),
        pytest.param([], id="another-form"),
    ],
)
def test_a_breaker_of_a_newer_version_is_open_until_an_operator_resets_it(
    rig: Rig, path: Path, newer: object
) -> None:
    """It was a KeyError at every start."""
    as_json = replace(BACKLOG_RUN, name=BREAKER.name)
    stored = {"breaker": newer, "boot_id": "", "boottime": 0.0, "wall": 0.0}
    rig.journal.keep(as_json, stored)
    goes_on(rig)
    assert "unreadable" in {line["cause"] for line in rig.lines("breaker.opened")}
    assert rig.summary()["breaker"] != "closed"
    assert rig.lines("record.cleaned") == []

    Operator(rig).reset()
    rig.turn(120)
    assert rig.lines("record.cleaned")


@pytest.mark.parametrize(
    ("name", "change", "said"),
    [
        pytest.param(
            "clocks",
            lambda kept: kept["clocks"]["wall"].update(newer=1),
            "the clocks can't be read (this program's MeasuredClock has no field newer)",
            id="clocks",
        ),
        pytest.param(
            "clocks",
            lambda kept: kept.clear(),
            "the clocks can't be read",
            id="another-form",
        ),
    ],
)
def test_anything_else_of_a_newer_version_makes_read_only_and_says_what_to_do(
    rig: Rig, path: Path, name: str, change: Any, said: str
) -> None:
    Kept(path).change(name, change)
    goes_on(rig)
    (told,) = rig.lines("journal.failed")
    assert said in str(told["error"])
    assert "a newer version wrote it; run that one" in str(told["error"])
    assert rig.lines("record.clean") == []
    assert rig.summary()["paired"] == 0


def test_a_pre_image_of_a_newer_version_is_read_as_far_as_this_one_knows_it(
    rig: Rig, path: Path
) -> None:
    """U8: what is more in it is nothing to restore from."""
    goes_on(rig)
    (line,) = rig.lines("record.cleaned")
    rig.kill()
    with sqlite3.connect(path) as connection:
        (body,) = connection.execute("SELECT body FROM pre_images").fetchone()
        newer = json.dumps({**json.loads(body), "newer": {"a": 1}})
        connection.execute("UPDATE pre_images SET body = ?", (newer,))
    goes_on(rig)
    assert rig.lines("journal.failed") == []
    (image,) = rig.journal.pre_images()
    assert image.record.uuid == line["record"]
    assert image.record.slot_number == line["slot"]
