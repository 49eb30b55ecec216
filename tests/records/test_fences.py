"""A store takes no write of a manager whose lease another one has taken since (L6)."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from nodemanager.core.model.world import Record
from nodemanager.errors import StoreRefused, Superseded
from nodemanager.records.schema import fences
from nodemanager.records.sql import SqlRecordStore
from nodemanager.sql.fence import Fence
from tests.contract.stores import claim, open_sql, running_postgres

OLD, NEW = Fence("main", 3, "one"), Fence("main", 4, "two")


@pytest.fixture
def url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path}/registry.db"


@pytest.fixture
def store(url: str) -> Iterator[SqlRecordStore]:
    made = open_sql(url, 8)
    yield made
    made.close()


Write = Callable[[SqlRecordStore, Record], Any]
WRITES: dict[str, Write] = {
    "create": lambda store, record: store.create(claim()),
    "claim": lambda store, record: store.claim(record, claim(incarnation=record.incarnation)),
    "clean": lambda store, record: store.clean(record, "stale_slot"),
    "restore": lambda store, record: store.restore(record, record),
    "delete": lambda store, record: store.delete(record),
    "drain": lambda store, record: store.drain(record, on=True),
    "fence": lambda store, record: store.fence(record),
    "heartbeat": lambda store, record: store.store_time(),
}


@pytest.mark.parametrize("write", WRITES.values(), ids=WRITES)
def test_every_write_of_a_former_holder_is_refused(store: SqlRecordStore, write: Write) -> None:
    old = store.under(OLD)
    record = old.create(claim())
    new = store.under(NEW)
    assert [one.uuid for one in new.list_records().items] == [record.uuid]
    before = store.read(record.uuid)
    with pytest.raises(Superseded, match=r"one no longer has the lease.* two has, with token 4"):
        write(old, record)
    assert store.read(record.uuid) == before
    assert len(store.list_records().items) == 1
    assert isinstance(Superseded(""), StoreRefused)


def test_a_new_holder_raises_its_token_before_it_lists(store: SqlRecordStore) -> None:
    """What it lists is then not changed any more by the one before."""
    old, new = store.under(OLD), store.under(NEW)
    old.create(claim())
    new.list_records()
    with pytest.raises(Superseded):
        old.create(claim())


def test_a_former_holder_raises_nothing_again(store: SqlRecordStore) -> None:
    store.under(NEW).list_records()
    with pytest.raises(Superseded):
        store.under(OLD).list_records()
    with pytest.raises(Superseded):
        store.under(Fence("main", 4, "another of that token")).list_records()
    store.under(NEW).create(claim())


def test_reads_of_a_former_holder_go_on(store: SqlRecordStore) -> None:
    old = store.under(OLD)
    record = old.create(claim())
    store.under(NEW).list_records()
    assert old.read(record.uuid) is not None
    assert len(old.list_records().items) == 1


def test_each_pool_has_a_token_of_its_own(store: SqlRecordStore) -> None:
    other = store.under(Fence("other", 1, "three"))
    other.create(claim(pool="other"))
    store.under(NEW).list_records()
    other.create(claim(pool="other"))


def test_pings_and_clients_need_no_token(store: SqlRecordStore) -> None:
    record = store.under(NEW).create(claim())
    store.resource.update(record.uuid, {"job_uuid": "x"}, assign_slot=False)


@pytest.mark.slow
@pytest.mark.server("postgresql")
def test_a_write_that_is_under_way_ends_before_the_token_is_raised() -> None:
    """The new holder's first listing has what it wrote."""
    store = open_sql(running_postgres().new_database(), 8)
    old = store.under(OLD)
    listed: list[int] = []
    with old.db.writing() as connection:
        new = threading.Thread(
            target=lambda: listed.append(len(store.under(NEW).list_records().items))
        )
        new.start()
        new.join(0.3)
        assert listed == [], "it waits"
        connection.execute(fences.select())
    new.join(10)
    assert listed == [0]
    with pytest.raises(Superseded):
        old.create(claim())
    store.close()
