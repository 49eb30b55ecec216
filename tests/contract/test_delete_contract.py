"""What records/api.py promises of `delete`: on a condition, or not at all (C12, U8)."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest

from nodemanager.core.model.world import Record
from nodemanager.errors import Conflict, NoSuchRecord, StoreError, StoreRefused
from tests.contract.stores import Backend, cas_stores, claim, fenced_stores, real_cas_stores


def freed(backend: Backend) -> tuple[Record, Record]:
    """A record as it was pinged, and as it is once it was freed."""
    record = backend.store.create(claim())
    assert backend.ping(record).status_code == 200
    now = backend.store.read(record.uuid)
    assert now is not None
    return now, backend.store.clean(now, "stale_slot")


@cas_stores
def test_a_record_that_holds_nothing_is_deleted_at_its_version(backend):
    _, free = freed(backend)
    backend.store.delete(free)
    assert backend.store.read(free.uuid) is None
    assert backend.store.list_records().items == ()
    with pytest.raises(NoSuchRecord):
        backend.store.delete(free)


@cas_stores
def test_a_delete_judged_before_a_claim_is_a_conflict_and_deletes_nothing(backend):
    _, free = freed(backend)
    claimed = backend.store.claim(free, claim())
    with pytest.raises(Conflict):
        backend.store.delete(free)
    assert backend.store.read(free.uuid) == claimed
    with pytest.raises(StoreRefused):
        backend.store.delete(claimed)
    assert backend.store.read(free.uuid) == claimed


@real_cas_stores
def test_of_a_claim_and_a_delete_at_once_exactly_one_wins(backend):
    for _ in range(10):
        _, free = freed(backend)
        other = backend.reopen()
        with ThreadPoolExecutor(2) as pool:
            tries = [
                pool.submit(backend.store.delete, free),
                pool.submit(other.claim, free, claim()),
            ]
            failed = [one.exception() for one in tries]
        other.close()
        assert sum(one is None for one in failed) == 1
        (error,) = [one for one in failed if one is not None]
        assert isinstance(error, StoreError)
        gone = backend.store.read(free.uuid) is None
        assert gone is (failed[0] is None)


@cas_stores
def test_a_deleted_records_late_ping_is_a_404_and_is_remembered_u8(backend):
    before, free = freed(backend)
    backend.store.delete(free)
    assert backend.ping(before).status_code == 404
    (late,) = backend.store.late_pings()
    assert late.record == free.uuid
    assert late.incarnation == before.incarnation


@cas_stores
def test_a_deleted_record_can_not_be_given_back(backend):
    before, free = freed(backend)
    backend.store.delete(free)
    with pytest.raises(NoSuchRecord):
        backend.store.restore(free, before)


@fenced_stores
def test_a_store_that_can_not_compare_refuses_every_delete(backend):
    _, free = freed(backend)
    with pytest.raises(StoreRefused, match="registry"):
        backend.store.delete(free)
    assert backend.store.read(free.uuid) == free
