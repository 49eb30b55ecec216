"""What records/api.py promises of `drain`: answers to pings say it, and no version moves (D12)."""

from __future__ import annotations

import pytest

from nodemanager.core.model.world import Record, WorkerState
from nodemanager.errors import Conflict, NoSuchRecord, StoreRefused
from tests.contract.stores import Backend, cas_stores, claim, fenced_stores, pinged, read


def told(backend: Backend, record: Record, **said: str) -> tuple[bool, str | None]:
    answer = backend.ping(record, **said).json()
    return answer["drain"], answer["drain_order"]


@cas_stores
def test_pings_are_answered_with_the_order_until_it_is_taken_back(backend):
    record = pinged(backend)
    assert record.drain is None
    assert told(backend, record) == (False, None)
    draining = backend.store.drain(record, on=True)
    assert draining.drain is not None
    assert told(backend, record) == (True, draining.drain)
    again = backend.store.drain(read(backend, record), on=False)
    assert again.drain is None
    assert told(backend, record) == (False, None)


@cas_stores
def test_an_order_moves_neither_version_nor_modified_at_and_a_write_at_that_version_goes_on(
    backend,
):
    """C6 and C12 are judged by versions that only the node and the record's own writers move."""
    record = pinged(backend)
    draining = backend.store.drain(record, on=True)
    assert (draining.version, draining.modified_at) == (record.version, record.modified_at)
    assert draining.last_ping_at == record.last_ping_at
    freed = backend.store.clean(record, "stale_slot")
    assert freed.drain is None


@cas_stores
def test_a_life_given_back_is_told_as_it_was_before_u8(backend):
    """A destroy that was sent for the drained node may still take effect."""
    draining = backend.store.drain(pinged(backend), on=True)
    again = backend.store.restore(backend.store.clean(draining, "after_shutdown"), draining)
    assert again.drain == draining.drain
    assert told(backend, again) == (True, draining.drain)


@cas_stores
def test_each_order_has_a_number_of_its_own(backend):
    record = pinged(backend)
    numbers = []
    for _ in range(4):
        record = backend.store.drain(record, on=True)
        numbers.append(record.drain)
    assert len(set(numbers)) == 4


@cas_stores
def test_an_order_on_top_of_another_than_the_one_known_is_a_conflict(backend):
    """A write that comes late takes nothing back that was told since."""
    record = pinged(backend)
    first = backend.store.drain(record, on=True)
    second = backend.store.drain(first, on=True)
    for stale in (record, first):
        with pytest.raises(Conflict):
            backend.store.drain(stale, on=False)
    assert read(backend, record).drain == second.drain


@cas_stores
def test_the_next_life_of_a_record_is_told_nothing(backend):
    draining = backend.store.drain(pinged(backend), on=True)
    free = backend.store.clean(read(backend, draining), "stale_slot")
    claimed = backend.store.claim(free, claim())
    assert claimed.drain is None
    with pytest.raises(Conflict):
        backend.store.drain(draining, on=True)
    assert told(backend, claimed) == (False, None)


@cas_stores
def test_a_renewed_claim_keeps_what_the_node_was_told_u5(backend):
    mark = claim()
    record = backend.store.create(mark)
    draining = backend.store.drain(record, on=True)
    assert backend.store.claim(draining, mark).drain == draining.drain


@cas_stores
def test_no_order_is_given_to_a_record_that_is_gone(backend):
    free = backend.store.clean(pinged(backend), "stale_slot")
    backend.store.delete(free)
    with pytest.raises(NoSuchRecord):
        backend.store.drain(free, on=True)


@cas_stores
def test_drained_by_our_order_is_idle_and_by_anybody_elses_unknown_t6(backend):
    record = pinged(backend, worker_state="drained", drain_hook="yes")
    assert (record.worker_state, record.drained) == (WorkerState.UNKNOWN, None)
    assert record.drain_hook
    backend.ping(record, worker_state="drained", drain_order="00c0ffee", drain_hook="yes")
    record = read(backend, record)
    assert (record.worker_state, record.drained) == (WorkerState.IDLE, "00c0ffee")
    backend.ping(record, worker_state="idle")
    record = read(backend, record)
    assert (record.worker_state, record.drained) == (WorkerState.IDLE, None)
    assert not record.drain_hook


@cas_stores
def test_a_busy_node_has_not_drained_whatever_order_it_names(backend):
    record = pinged(backend, worker_state="busy", drain_order="00c0ffee", drain_hook="yes")
    assert (record.worker_state, record.drained) == (WorkerState.BUSY, None)


@fenced_stores
def test_a_store_that_tells_its_nodes_nothing_says_so(backend):
    record = pinged(backend)
    assert not backend.store.tells_drain
    with pytest.raises(StoreRefused):
        backend.store.drain(record, on=True)
    assert read(backend, record) == record
