"""Pings that arrive together: one transaction, and each its own answer."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import mock
import pytest
import requests
import sqlalchemy as sa

from nodemanager.core.model.world import Record
from nodemanager.errors import StoreError, StoreRefused
from nodemanager.lib.workers import Workers
from nodemanager.records import rows
from nodemanager.records.pings import Ping, Pinged, WrongSecret
from nodemanager.records.schema import nodes
from nodemanager.records.sql import SqlRecordStore
from nodemanager.registry.app import PingWriter
from tests.contract.stores import claim, open_sql, running_postgres


def living(store: SqlRecordStore, number: int) -> Record:
    """A record whose node has pinged."""
    record = store.create(claim())
    store.resource.ping(said(record, local_ipv4=f"10.0.0.{number}"))
    found = store.read(record.uuid)
    assert found is not None
    return found


def said(record: Record, **told: Any) -> Ping:
    return Ping(record.uuid, {"ping_secret": record.ping_secret, **told}, "10.9.9.9")


@pytest.fixture(
    params=["sqlite", pytest.param("postgresql", marks=pytest.mark.server("postgresql"))]
)
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[SqlRecordStore]:
    if request.param == "sqlite":
        url = f"sqlite:///{tmp_path}/registry.db"
    else:
        server = running_postgres()
        url = server.new_database()
    made = open_sql(url, 20)
    yield made
    made.close()


def test_each_of_a_batch_has_its_own_outcome(store: SqlRecordStore) -> None:
    """One that is refused takes no other with it, and one that may take a slot goes alone."""
    good, busy, wrong, odd, broken = (living(store, number) for number in range(1, 6))
    new = store.create(claim())
    with store.db.writing() as connection:
        huge = {"version": 2**63 - 1}
        connection.execute(sa.update(nodes).where(nodes.c.uuid == broken.uuid).values(huge))
    pings = [
        said(good),
        said(busy, worker_state="busy", total_ram_mb="2000 MB"),
        Ping(wrong.uuid, {"ping_secret": "guessed"}, ""),
        said(odd, worker_state="a\nb"),
        said(new),
        Ping("zzzzz-7ekkf-000000000000000", {"ping_secret": "x"}, ""),
    ]
    outcomes = store.resource.ping_all(pings)
    assert [type(one) for one in outcomes] == [
        Pinged,
        Pinged,
        WrongSecret,
        StoreRefused,
        type(None),
        type(None),
    ]
    after = {record.uuid: record for record in store.list_records().items}
    assert after[good.uuid].last_ping_at > good.last_ping_at
    assert int(after[good.uuid].version) == int(good.version) + 1
    assert after[busy.uuid].info["worker_state"] == "busy"
    assert after[busy.uuid].properties["total_ram_mb"] == 2000
    for untouched in (wrong, odd, new):
        assert after[untouched.uuid] == untouched
    # The one that can't be written makes each go alone, and fails alone.
    assert store.resource.ping_all([said(good), said(broken)]) == [None, None]
    assert store.resource.ping(said(good)).node["uuid"] == good.uuid
    with pytest.raises((StoreError, OverflowError)):
        store.resource.ping(said(broken))


def test_a_ping_in_a_batch_does_what_it_does_alone(store: SqlRecordStore) -> None:
    one, other = living(store, 1), living(store, 2)
    told = {"worker_state": "idle*", "instance_id": "i-7", "total_cpu_cores": "8"}
    (together,) = store.resource.ping_all([said(one, **told)])
    alone = store.resource.ping(said(other, **told))
    assert isinstance(together, Pinged)
    same = [name for name in alone.node if together.node[name] == alone.node[name]]
    assert {"properties", "info"} - set(same) == {"properties", "info"}
    for node, record in ((together.node, one), (alone.node, other)):
        now = store.read(record.uuid)
        assert now is not None
        assert node["info"] == {**now.info}
        assert (now.instance_id, now.info["worker_state"]) == ("i-7", "idle*")
        assert now.properties["total_cpu_cores"] == 8
        assert node["etag"] == now.version
        assert now.claim == record.claim


def test_a_ping_moves_no_entry_of_an_index(store: SqlRecordStore) -> None:
    """Each would be one more page to write, and PostgreSQL would write to every index."""
    record = living(store, 1)
    (answer,) = store.resource.ping_all([said(record)])
    assert isinstance(answer, Pinged)
    now = store.resource.get(record.uuid)
    assert now["last_ping_at"] == now["modified_at"] == answer.node["modified_at"]
    with store.db.reading() as connection:
        indexes = sa.inspect(connection).get_indexes("nodes")
    assert indexes
    indexed = {name for index in indexes for name in index["column_names"]}
    assert not indexed & {"last_ping_at", "modified_at", "version"}


def test_what_the_driver_raises_is_the_stores_error(store: SqlRecordStore) -> None:
    record = living(store, 1)
    with store.db.writing() as connection:
        connection.execute(sa.text("ALTER TABLE nodes RENAME TO away"))
    with pytest.raises(StoreError, match="nodes"), store.db.writing() as connection:
        rows.find_unlocked(connection, [record.uuid])
    with store.db.writing() as connection:
        connection.execute(sa.text("ALTER TABLE away RENAME TO nodes"))
    assert [type(one) for one in store.resource.ping_all([said(record)])] == [Pinged]


@pytest.mark.server("postgresql")
def test_a_row_that_somebody_writes_to_holds_up_no_other() -> None:
    """Several registries serve one database: a row locked by another is pinged alone."""
    store = open_sql(running_postgres().new_database(), 20)
    one, other = living(store, 1), living(store, 2)
    with store.db.writing() as connection:
        rows.get(connection, one.uuid)
        outcomes = store.resource.ping_all([said(one), said(other)])
    assert outcomes[0] is None
    assert isinstance(outcomes[1], Pinged)
    store.close()


@pytest.fixture
def sqlite(tmp_path: Path) -> Iterator[SqlRecordStore]:
    made = open_sql(f"sqlite:///{tmp_path}/registry.db", 20)
    yield made
    made.close()


def pinged_together(store: SqlRecordStore, pings: list[Ping]) -> list[Any]:
    """What a writer answers to pings that come at once: nodes, or the errors."""

    async def together() -> list[Any]:
        writer = PingWriter(store.resource, Workers("test", 2))
        return await asyncio.gather(*map(writer.ping, pings), return_exceptions=True)

    return asyncio.run(together())


def test_a_ping_waits_so_long_for_a_database_and_no_longer(
    sqlite: SqlRecordStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also behind a batch that hangs: those behind it would wait twice as long."""
    monkeypatch.setattr("nodemanager.registry.app.ANSWER_S", 0.2)
    goes_on = threading.Event()
    whole = sqlite.resource.ping_all

    def hangs(pings: list[Ping]) -> Any:
        goes_on.wait(30)
        return whole(pings)

    monkeypatch.setattr(sqlite.resource, "ping_all", hangs)
    records = [living(sqlite, number) for number in range(1, 4)]
    try:
        answers = pinged_together(sqlite, [said(one) for one in records])
        assert [type(one) for one in answers] == [StoreError] * 3
    finally:
        goes_on.set()


def counting(store: SqlRecordStore, batches: list[int]) -> Callable[..., Any]:
    whole = store.resource.ping_all

    def ping_all(pings: list[Ping]) -> Any:
        batches.append(len(pings))
        return whole(pings)

    return ping_all


def test_what_comes_at_once_is_one_commit_and_a_record_twice_is_two(
    sqlite: SqlRecordStore,
) -> None:
    records = [living(sqlite, number) for number in range(1, 9)]
    pings = [said(record) for record in records]
    batches: list[int] = []
    with mock.patch.object(sqlite.resource, "ping_all", counting(sqlite, batches)):
        answers = pinged_together(sqlite, [*pings, pings[0]])
    assert [type(one) for one in answers] == [Pinged] * 9
    assert batches == [8, 1]
    assert int(answers[8].node["etag"]) == int(records[0].version) + 2


def test_who_asks_again_right_after_an_answer_shares_a_commit_with_the_others(
    sqlite: SqlRecordStore,
) -> None:
    records = [living(sqlite, number) for number in range(1, 9)]
    batches: list[int] = []
    writers: list[PingWriter] = []

    async def play() -> None:
        writer = PingWriter(sqlite.resource, Workers("test", 2))
        writers.append(writer)

        async def node(record: Record) -> None:
            for _ in range(5):
                await writer.ping(said(record))

        first = asyncio.ensure_future(node(records[0]))
        await asyncio.sleep(0)
        await asyncio.gather(first, *map(node, records[1:]))

    with mock.patch.object(sqlite.resource, "ping_all", counting(sqlite, batches)):
        asyncio.run(play())
    # The first was alone, so that it ends alone: the others never wait for one that is late.
    assert batches[0] == 1
    assert sum(batches) == writers[0].answered == 40
    assert len(batches) <= 7


def test_first_and_late_and_unknown_pings_are_answered_as_ever(sqlite: SqlRecordStore) -> None:
    """U8: one with the secret of a life that was freed is remembered."""
    freed, steady = living(sqlite, 1), living(sqlite, 2)
    sqlite.clean(freed, "test")
    new = sqlite.create(claim())
    answers = pinged_together(
        sqlite,
        [
            said(freed, instance_id="i-1"),
            said(steady),
            said(new),
            Ping("zzzzz-7ekkf-000000000000000", {}, ""),
        ],
    )
    assert [type(one).__name__ for one in answers] == [
        "WrongSecret",
        "Pinged",
        "Pinged",
        "NoSuchRecord",
    ]
    assert answers[2].node["ip_address"] == "10.9.9.9"
    assert [late.record for late in sqlite.late_pings()] == [freed.uuid]


def test_nothing_is_acknowledged_that_is_not_committed(registry: Any) -> None:
    records = [living(registry.store, number) for number in range(1, 5)]
    urls = [registry.store.ping_url(record) for record in records]
    with registry.locked(), ThreadPoolExecutor(4) as threads:
        statuses = list(threads.map(lambda url: requests.post(url, timeout=10).status_code, urls))
    assert statuses == [503] * 4
    assert {record.uuid: record for record in registry.store.list_records().items} == {
        record.uuid: record for record in records
    }


def test_the_managers_own_writes_get_their_turn_among_pings(sqlite: SqlRecordStore) -> None:
    """Claims and cleans go on however many nodes ping."""
    records = [living(sqlite, number) for number in range(1, 5)]
    over = threading.Event()

    def ping(record: Record) -> None:
        while not over.is_set():
            sqlite.resource.ping_all([said(record)])

    with ThreadPoolExecutor(4) as threads:
        pinging = [threads.submit(ping, record) for record in records]
        for _ in range(5):
            sqlite.create(claim())
        over.set()
        for one in pinging:
            one.result()
    assert len(sqlite.list_records().items) == 9
