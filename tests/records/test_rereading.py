"""Each listing of a store has the records as a look at each of them alone gives them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
import sqlalchemy as sa

from nodemanager.core.model.world import Listed, Record
from nodemanager.records.pings import Ping
from nodemanager.records.schema import nodes
from tests.contract.stores import claim, open_sql

BAD = {
    "version": "what",
    "modified_at": "today",
    "last_ping_at": "soon",
    "first_ping_at": "then",
    "slot_number": -1,
    "properties": "no json",
    "info": "[1]",
}
"""Values that SQLite takes and that make a record unreadable."""

PINGED = ("uuid", "version", "last_ping_at", "modified_at")
OTHERS = [column.name for column in nodes.columns if column.name not in PINGED]


class Registry:
    """A store that lists one pinged record again and again."""

    def __init__(self, path: Path) -> None:
        self._url = f"sqlite:///{path}"
        self._engine = sa.create_engine(self._url)
        self.store = open_sql(self._url, 4)
        self._made = self.store.create(claim())
        self.ping()

    def ping(self) -> None:
        said = {"ping_secret": self._made.ping_secret, "worker_state": "busy"}
        self.store.resource.ping(Ping(self._made.uuid, said, "10.0.0.1"))

    def put(self, column: str, value: object) -> object:
        """Write the column by hand; returns what it held."""
        with self._engine.begin() as connection:
            held = connection.execute(sa.text(f"SELECT {column} FROM nodes")).scalar_one()
            connection.execute(sa.text(f"UPDATE nodes SET {column} = :v"), {"v": value})
        return held

    def listed(self) -> Listed[Record]:
        """The store's next listing, of the records that it reads one by one."""
        listed = self.store.list_records()
        assert listed.items == tuple(self.store.read(item.uuid) for item in listed.items)
        assert len(listed.problems) == sum(len(item.problems) for item in listed.items)
        return listed

    def record(self) -> Record:
        (record,) = self.listed().items
        return record

    def close(self) -> None:
        self.store.close()
        self._engine.dispose()


@pytest.fixture
def registry(tmp_path: Path) -> Iterator[Registry]:
    made = Registry(tmp_path / "registry.db")
    yield made
    made.close()


def test_a_record_of_which_nothing_changed_is_the_same_object(registry: Registry) -> None:
    assert registry.record() is registry.record()


def test_a_ping_that_says_nothing_new_changes_three_values_and_no_other_object(
    registry: Registry,
) -> None:
    before = registry.record()
    registry.ping()
    after = registry.record()
    assert after.version != before.version
    assert after.last_ping_at != before.last_ping_at
    same = {"version": after.version, "modified_at": after.modified_at}
    assert after == replace(before, last_ping_at=after.last_ping_at, **same)
    assert after.properties is before.properties
    assert after.claim is before.claim


@pytest.mark.parametrize(
    ("column", "value"),
    [("last_ping_at", None), ("last_ping_at", 7), ("modified_at", 7), ("version", 700)],
)
def test_what_a_ping_changes_is_always_read(registry: Registry, column: str, value: object) -> None:
    before = registry.record()
    registry.put(column, value)
    assert registry.record() != before


@pytest.mark.parametrize("column", OTHERS)
def test_a_row_that_changed_otherwise_is_read_whole(registry: Registry, column: str) -> None:
    before = registry.record()
    registry.put(column, "8")
    assert registry.record().properties is not before.properties


@pytest.mark.parametrize(("column", "value"), BAD.items(), ids=BAD)
def test_a_row_that_was_put_right_has_no_problem_any_more(
    registry: Registry, column: str, value: object
) -> None:
    good = registry.put(column, value)
    assert registry.listed().problems
    assert registry.listed().problems
    registry.put(column, good)
    assert not registry.listed().problems


def test_a_record_that_went_and_came_back_is_read_again(registry: Registry) -> None:
    before = registry.record()
    uuid = registry.put("uuid", "zzzzz-7ekkf-000000000000000")
    assert registry.record().uuid != before.uuid
    registry.put("uuid", uuid)
    assert registry.record() == before
