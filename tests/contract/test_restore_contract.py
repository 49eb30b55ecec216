"""What records/api.py promises of freed lives: late pings, and the way back (U8)."""

from __future__ import annotations

from dataclasses import replace

import pytest

from nodemanager.core.model.world import Guarantee
from nodemanager.errors import Conflict, SlotTaken, StoreRefused
from nodemanager.records import freed
from tests.contract import stores


@stores.every_store
def test_a_store_says_whether_it_can_tell_late_pings(backend):
    record = stores.pinged(backend)
    backend.store.clean(record, "stale_slot")
    assert backend.store.late_pings() == ()
    assert backend.ping(record).status_code == 401
    remembers = backend.store.guarantee is Guarantee.CAS
    assert len(backend.store.late_pings()) == (1 if remembers else 0)


@stores.cas_stores
def test_a_freed_lifes_ping_is_refused_like_any_wrong_secret_and_remembered(backend):
    record = stores.pinged(backend, instance_id="i-1", local_ipv4="10.1.2.3")
    free = backend.store.clean(record, "stale_slot")
    refused = backend.ping(record, instance_id="i-1", local_ipv4="10.1.2.3")
    guessed = backend.ping(replace(record, ping_secret="guessed"))
    assert refused.status_code == guessed.status_code == 401
    assert refused.json()["errors"] == guessed.json()["errors"]
    (late,) = backend.store.late_pings()
    assert (late.record, late.incarnation, late.pool) == (record.uuid, record.incarnation, "main")
    assert (late.instance_id, late.address) == ("i-1", "10.1.2.3")
    assert free.modified_at == pytest.approx(late.freed_at, abs=5)
    assert late.freed_at <= late.at
    assert stores.read(backend, record) == free
    assert record.ping_secret not in repr(late)


@stores.cas_stores
def test_of_a_freed_lifes_pings_the_newest_is_told(backend):
    record = stores.pinged(backend)
    backend.store.clean(record, "stale_slot")
    backend.ping(record, instance_id="i-1")
    (first,) = backend.store.late_pings()
    backend.ping(record, instance_id="i-2")
    (second,) = backend.reopen().late_pings()
    assert second.at > first.at
    assert second.instance_id == "i-2"
    assert second.freed_at == first.freed_at


@stores.cas_stores
def test_a_freed_life_is_known_behind_the_next_ones(backend):
    first = stores.pinged(backend)
    second = backend.store.claim(backend.store.clean(first, "stale_slot"), stores.claim())
    assert backend.ping(second).status_code == 200
    assert backend.ping(first).status_code == 401
    third = backend.store.claim(
        backend.store.clean(stores.read(backend, first), "x"), stores.claim()
    )
    assert backend.ping(second).status_code == 401
    assert [late.incarnation for late in backend.store.late_pings()] == [
        first.incarnation,
        second.incarnation,
    ]
    assert stores.read(backend, first) == third


@stores.real_cas_stores
def test_a_freed_life_is_known_after_its_record_was_deleted(backend):
    record = stores.pinged(backend)
    backend.store.clean(record, "stale_slot")
    backend.write_by_hand("DELETE FROM nodes WHERE uuid = :u", u=record.uuid)
    assert backend.ping(record).status_code == 404
    assert [late.record for late in backend.store.late_pings()] == [record.uuid]


@stores.real_cas_stores
def test_a_freed_life_is_forgotten_after_its_time(backend):
    old, new = (stores.pinged(backend, local_ipv4=address) for address in ("10.0.0.1", "10.0.0.2"))
    backend.store.clean(old, "stale_slot")
    backend.ping(old)
    backend.write_by_hand(
        "UPDATE freed SET freed_at = freed_at - :week", week=(freed.KEPT_S + 1) * 10**9
    )
    backend.store.clean(new, "stale_slot")
    assert backend.ping(old).status_code == 401
    assert backend.store.late_pings() == ()
    backend.ping(new)
    assert [late.record for late in backend.store.late_pings()] == [new.uuid]


@stores.real_cas_stores
def test_a_ping_whose_fields_can_not_be_read_is_a_late_ping_all_the_same(backend):
    record = stores.pinged(backend)
    backend.store.clean(record, "stale_slot")
    assert backend.ping(record, instance_id="x" * 300).status_code == 401
    (late,) = backend.store.late_pings()
    assert late.instance_id is None


@stores.real_stores
def test_a_restored_record_is_what_it_was_and_its_node_pings_again(backend):
    before = stores.pinged(
        backend, instance_id="i-1", local_ipv4="10.1.2.3", worker_state="busy", total_ram_mb="512"
    )
    free = backend.store.clean(before, "stale_slot")
    assert backend.ping(before).status_code == 401
    after = backend.store.restore(free, before)
    assert after == stores.read(backend, before)
    stamps = ("first_ping_at", "last_ping_at")
    for stamp in stamps:
        assert getattr(after, stamp) == pytest.approx(getattr(before, stamp), abs=1e-5)
    unmoved = {stamp: getattr(before, stamp) for stamp in stamps}
    now = {"version": before.version, "modified_at": before.modified_at}
    assert replace(after, **unmoved, **now) == before
    assert after.version not in (before.version, free.version)
    assert backend.store.late_pings() == ()
    assert backend.ping(before, instance_id="i-1").status_code == 200
    assert backend.store.late_pings() == ()


@stores.every_store
def test_a_restored_record_can_be_freed_and_restored_again(backend):
    before = stores.pinged(backend)
    once = backend.store.restore(backend.store.clean(before, "stale_slot"), before)
    free = backend.store.clean(once, "stale_slot")
    assert backend.ping(before).status_code == 401
    assert backend.store.restore(free, once).claim == before.claim


@stores.every_store
def test_a_record_that_was_claimed_since_is_not_restored(backend):
    before = stores.pinged(backend)
    free = backend.store.clean(before, "stale_slot")
    claimed = backend.store.claim(free, stores.claim())
    with pytest.raises(Conflict):
        backend.store.restore(free, before)
    with pytest.raises(StoreRefused):
        backend.store.restore(claimed, before)
    assert stores.read(backend, before) == claimed


@stores.every_store
def test_a_record_whose_slot_is_anothers_by_now_is_not_restored(backend):
    before = stores.pinged(backend)
    free = backend.store.clean(before, "stale_slot")
    other = backend.store.create(stores.claim())
    assert other.slot_number == before.slot_number
    with pytest.raises(SlotTaken, match=other.uuid):
        backend.store.restore(free, before)
    assert stores.read(backend, before) == free
    assert stores.read(backend, other) == other


@stores.cas_stores
def test_an_address_that_is_anothers_by_now_stays_there(backend):
    before = stores.pinged(backend, local_ipv4="10.1.2.3")
    spare = backend.store.create(stores.claim())
    free = backend.store.clean(before, "stale_slot")
    assert backend.ping(spare, local_ipv4="10.1.2.3").status_code == 200
    after = backend.store.restore(free, before)
    assert after.ip_address is None
    assert after.slot_number == before.slot_number
    assert stores.read(backend, spare).ip_address == "10.1.2.3"


@stores.every_store
def test_a_pre_image_that_is_not_whole_restores_nothing(backend):
    before = stores.pinged(backend)
    free = backend.store.clean(before, "stale_slot")
    for spoilt in (
        replace(before, ping_secret=None, info={}),
        replace(before, uuid="zzzzz-7ekkf-000000000000000"),
        replace(before, problems=("slot_number is no number",)),
    ):
        with pytest.raises(StoreRefused):
            backend.store.restore(free, spoilt)
        assert stores.read(backend, before) == free


@stores.real_cas_stores
def test_a_freed_life_is_known_for_days_u8(backend):
    """A node that was cut off, and pings again six days later, is told of all the same."""
    old, new = (stores.pinged(backend, local_ipv4=address) for address in ("10.0.0.1", "10.0.0.2"))
    backend.store.clean(old, "stale_slot")
    backend.write_by_hand("UPDATE freed SET freed_at = freed_at - :days", days=6 * 86400 * 10**9)
    backend.store.clean(new, "stale_slot")
    backend.ping(old)
    assert old.uuid in [late.record for late in backend.store.late_pings()]
