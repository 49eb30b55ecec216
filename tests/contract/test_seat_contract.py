"""What the records of Slurm's seats promise beyond records/api.py: whose slurmd is whose life.

A ping is the slurmd of a node that registers, with a model of slurmctld.
"""

from __future__ import annotations

import pytest

from nodemanager.core.model.scheduling import seat_of
from nodemanager.errors import Conflict, NoFreeSlot, StoreError, StoreRefused
from tests.contract.stores import claim, pinged, read, seated_stores
from tests.records.slurm_model import SLURMD_TIMEOUT_S, Node, Times


@seated_stores
def test_a_clean_judged_before_its_nodes_first_sign_of_life_is_a_conflict_c12(backend):
    """Judged as a claim that never came up, which the node then did."""
    judged = backend.store.create(claim())
    assert backend.ping(judged).status_code == 200
    with pytest.raises(Conflict):
        backend.store.clean(judged, "claim_expired")
    assert read(backend, judged).claim == judged.claim


@seated_stores
def test_a_node_that_comes_back_before_its_clean_stops_it_c12(backend):
    record = pinged(backend)
    name = record.hostname
    backend.slurm.kill_slurmd(name)
    backend.clock.forward(SLURMD_TIMEOUT_S + 1)
    backend.store.list_records()
    judged = read(backend, record)
    backend.slurm.hear_again(name)
    with pytest.raises(Conflict):
        backend.store.clean(judged, "stale_slot")
    alive = read(backend, record)
    assert alive.claim == record.claim
    assert alive.last_ping_at > record.last_ping_at


@seated_stores
def test_of_a_node_that_lives_on_a_clean_is_atomic_against_what_is_relayed(backend):
    """A pinger that the cloud denies is freed all the same (P6)."""
    record = pinged(backend)
    backend.store.list_records()
    judged = read(backend, record)
    backend.clock.forward(1.0)
    backend.store.list_records()
    with pytest.raises(Conflict):
        backend.store.clean(judged, "pinger_denied")
    assert not backend.store.clean(read(backend, record), "pinger_denied").holds_anything


@seated_stores
def test_a_clean_keeps_the_binding_to_the_seat(backend):
    record = backend.store.create(claim())
    free = backend.store.clean(record, "create_refused")
    assert seat_of(free) == record.hostname
    assert free.properties["nodemanager_seat_size"] == ["small"]
    again = backend.store.claim(free, claim())
    assert (again.hostname, again.slot_number) == (record.hostname, record.slot_number)


@seated_stores
def test_a_slurmd_of_a_freed_life_is_no_sign_of_the_next_but_a_late_ping_u8(backend):
    record = pinged(backend)
    backend.store.list_records()
    free = backend.store.clean(read(backend, record), "stale_slot")
    backend.slurm.times = Times(slurmd_timeout=3600)
    backend.store.list_records()
    assert backend.store.late_pings() == (), "Slurm may have heard it before the clean"
    backend.slurm.times = Times(slurmd_timeout=0)
    backend.store.list_records()
    (late,) = backend.store.late_pings()
    assert (late.record, late.incarnation) == (record.uuid, record.incarnation)
    assert late.at > late.freed_at
    assert not read(backend, free).holds_anything


@seated_stores
def test_a_slurmd_that_was_there_before_the_claim_is_no_sign_of_its_life(backend):
    name = "compute1"
    seat = next(one for one in backend.store.list_records().items if seat_of(one) == name)
    backend.ping(seat)
    backend.slurm.nodes[name].flags.add("POWERED_DOWN")
    backend.store.claim(read(backend, seat), claim())
    backend.slurm.nodes[name].flags.clear()
    backend.clock.forward(1.0)
    backend.store.list_records()
    assert read(backend, seat).last_ping_at is None
    backend.ping(seat)
    backend.store.list_records()
    assert read(backend, seat).last_ping_at is not None


@seated_stores
def test_a_seat_that_is_up_without_a_claim_holds_nothing_and_is_not_claimed(backend):
    first, *_ = backend.store.list_records().items
    backend.ping(first)
    backend.store.list_records()
    up = read(backend, first)
    assert not up.holds_anything
    with pytest.raises(Conflict, match="in Slurm"):
        backend.store.claim(up, claim())
    assert read(backend, first) == up


@seated_stores
def test_while_slurmctld_is_out_of_reach_records_are_listed_and_nobody_is_heard_d8(backend):
    record = pinged(backend)
    assert backend.store.probe()
    backend.slurm.answers = False
    listed = backend.store.list_records()
    assert listed.complete
    assert "slurmctld" in listed.problems[0]
    assert len(listed.items) == 8
    assert read(backend, record) == record
    assert not backend.store.probe()
    for write in (lambda: backend.store.clean(record, "x"), lambda: backend.store.create(claim())):
        with pytest.raises(StoreError) as lost:
            write()
        assert lost.value.unsent


@seated_stores
def test_a_slurmctld_that_has_just_started_is_no_silence_d8(backend):
    record = pinged(backend)
    backend.slurm.restart()
    assert not backend.store.probe()
    backend.clock.forward(1.0)
    backend.store.list_records()
    assert read(backend, record) == record, "nobody knows when its slurmd started"
    backend.clock.forward(SLURMD_TIMEOUT_S + 1)
    assert backend.store.probe()
    backend.slurm.register_again()
    backend.store.list_records()
    heard = read(backend, record)
    assert heard.last_ping_at > record.last_ping_at
    assert heard.first_ping_at == record.first_ping_at


@seated_stores
def test_a_name_that_leaves_slurm_conf_keeps_its_record_and_finds_it_again(backend):
    record = pinged(backend)
    left = backend.slurm.nodes.pop(record.hostname)
    backend.store.list_records()
    assert read(backend, record) == record
    free = backend.store.clean(read(backend, record), "stale_slot")
    with pytest.raises(StoreRefused):
        backend.store.claim(free, claim())
    assert backend.store.slots() == 8
    left.flags = {"POWERED_DOWN"}
    backend.slurm.nodes[left.name] = left
    backend.slurm.nodes["compute9"] = Node("compute9", "small")
    assert len(backend.store.list_records().items) == 9
    assert backend.store.claim(read(backend, free), claim()).slot_number == record.slot_number


@seated_stores
def test_a_database_of_other_records_or_of_another_cluster_is_refused(backend):
    record = backend.store.create(claim())
    renamed = "UPDATE nodes SET properties = replace(properties, '\"model\"', '\"other\"')"
    backend.write_by_hand(f"{renamed} WHERE uuid = :u", u=record.uuid)
    with pytest.raises(StoreError, match="cluster"):
        backend.store.list_records()
    backend.write_by_hand("UPDATE nodes SET properties = '{}' WHERE uuid = :u", u=record.uuid)
    with pytest.raises(StoreError, match="no node of Slurm"):
        backend.store.list_records()


@seated_stores
def test_where_every_seat_is_taken_none_is_made(backend):
    for _ in range(8):
        backend.store.create(claim())
    with pytest.raises(NoFreeSlot):
        backend.store.create(claim())
    assert len(backend.store.list_records().items) == 8
