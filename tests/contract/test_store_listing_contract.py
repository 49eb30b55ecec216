"""What records/api.py promises of listings: whole, and one bad row hides no other."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from nodemanager.errors import StoreRefused
from tests.cases import cases
from tests.contract.stores import claim, cleaned, pinged, read, real_stores


@real_stores
def test_a_listing_is_whole_while_records_ping(backend):
    live = [pinged(backend, local_ipv4=f"10.1.2.{number}") for number in range(4)]
    backend.write_by_hand(*_many(2500))
    stop = threading.Event()

    def keep_pinging(record):
        count = 0
        while not stop.is_set():
            assert backend.ping(record).status_code == 200
            count += 1
        return count

    with ThreadPoolExecutor(4) as threads:
        pings = [threads.submit(keep_pinging, record) for record in live]
        try:
            for _ in range(3):
                listed = backend.store.list_records()
                assert listed.complete
                assert not listed.problems
                assert len(listed.items) == len({item.uuid for item in listed.items}) == 2504
                assert {record.uuid for record in live} <= {item.uuid for item in listed.items}
        finally:
            stop.set()
    assert all(ping.result() > 0 for ping in pings)


def _many(number: int) -> tuple[str]:
    """One statement, the same on both databases, that makes `number` free records."""
    padded = "'00000000000000' || i"
    return (
        f"WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < {number})"
        " INSERT INTO nodes (uuid, version, created_at, modified_at, properties, info)"
        f" SELECT 'zzzzz-7ekkf-' || substr({padded}, length({padded}) - 14), 1, 0, 0, '{{}}',"
        " '{}' FROM n",
    )


@real_stores
@cases(
    ("column", "value"),
    {
        "properties-no-json": ("properties", "no json"),
        "bad-claim": ("properties", '{"nodemanager_claim": 3}'),
        "info-no-object": ("info", "[1]"),
        "modified-in-the-year-2255": ("modified_at", 9 * 10**18),
    },
)
def test_a_row_nobody_can_read_is_kept_beside_the_others(backend, column, value):
    record = backend.store.create(claim())
    other = backend.store.create(claim())
    backend.write_by_hand(f"UPDATE nodes SET {column} = :v WHERE uuid = :u", v=value, u=record.uuid)
    listed = backend.store.list_records()
    assert listed.complete
    found = {item.uuid: item for item in listed.items}
    assert found[other.uuid] == other
    assert found[record.uuid].slot_number == 1
    readable = column == "modified_at"
    assert bool(found[record.uuid].problems) != readable
    assert len(listed.problems) == len(found[record.uuid].problems)


@real_stores
def test_a_later_listing_shows_what_changed_since(backend):
    quiet, pings, renamed, gone = (pinged(backend) for _ in range(4))
    assert len(backend.store.list_records().items) == 4
    assert backend.ping(pings).status_code == 200
    backend.write_by_hand("UPDATE nodes SET hostname = 'new' WHERE uuid = :u", u=renamed.uuid)
    backend.write_by_hand("DELETE FROM nodes WHERE uuid = :u", u=gone.uuid)
    listed = {item.uuid: item for item in backend.store.list_records().items}
    assert listed == {one.uuid: read(backend, one) for one in (quiet, pings, renamed)}
    assert listed[quiet.uuid] == quiet
    assert listed[pings.uuid].version != pings.version
    assert listed[renamed.uuid].hostname == "new"


@real_stores
def test_a_row_without_a_readable_uuid_makes_the_listing_incomplete(backend):
    kept = backend.store.create(claim())
    lost = backend.store.create(claim())
    backend.write_by_hand("UPDATE nodes SET uuid = 'what' WHERE uuid = :u", u=lost.uuid)
    listed = backend.store.list_records()
    assert not listed.complete
    assert [item.uuid for item in listed.items] == [kept.uuid]
    assert len(listed.problems) == 1


@real_stores
def test_an_unreadable_record_is_never_claimed(backend):
    free = cleaned(backend)
    broken = "UPDATE nodes SET properties = 'no json' WHERE uuid = :u"
    backend.write_by_hand(broken, u=free.uuid)
    with pytest.raises(StoreRefused):
        backend.store.claim(read(backend, free), claim())
