"""The record store in Slurm's own nodes: what records/api.py promises of it.

Each test runs on a real Slurm and on the model of it, which the contract suite runs on.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from dataclasses import replace

import pytest

from nodemanager.core.model.world import Guarantee, Record, WorkerState
from nodemanager.errors import Conflict, NoFreeSlot, NoSuchRecord, StoreError, StoreRefused
from nodemanager.records.slurm import SlurmRecordStore
from nodemanager.schedulers.slurm import power
from nodemanager.schedulers.slurm.rows import NodeRow, listing
from tests.contract.stores import claim
from tests.records.slurm_store import (
    NODES,
    SLURMD_TIMEOUT_S,
    CloudSlurm,
    cloud_slurm,
    model_slurm,
    of,
)
from tests.waiting import until

pytestmark = pytest.mark.timeout(300)

REAL = pytest.param("real", marks=pytest.mark.server("slurm", "munge"))


@pytest.fixture(scope="module", params=[REAL, "model"])
def _running(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[CloudSlurm]:
    if request.param == "model":
        yield model_slurm()
        return
    with cloud_slurm(tmp_path_factory.mktemp("slurm")) as slurm:
        yield slurm


@pytest.fixture
def slurm(_running: CloudSlurm) -> CloudSlurm:
    _running.tidy()
    return _running


@pytest.fixture
def store(slurm: CloudSlurm) -> SlurmRecordStore:
    return slurm.store()


def read(store: SlurmRecordStore, record: Record) -> Record:
    found = store.read(record.uuid)
    assert found is not None
    return found


def booted(slurm: CloudSlurm, store: SlurmRecordStore) -> Record:
    """A claimed record whose node has come."""
    record = store.create(claim())
    slurm.boot(of(record))
    return read(store, record)


def test_it_says_what_it_is_and_that_every_node_is_a_slot(store: SlurmRecordStore):
    assert store.guarantee is Guarantee.FENCED
    assert store.settle_wait > 0
    assert store.may_authorise
    assert store.slots() == len(NODES)
    listed = store.list_records()
    assert listed.complete
    assert [of(record) for record in listed.items] == list(NODES)
    assert not any(record.holds_anything or record.problems for record in listed.items)
    assert store.probe()


def test_a_claim_takes_a_node_of_its_size_and_slurm_keeps_it(
    slurm: CloudSlurm, store: SlurmRecordStore
):
    mine = claim(pool="größe-☃")
    record = store.create(mine)
    assert (record.slot_number, record.hostname) == (2, "small-1")
    assert record.claim == mine
    assert record.pool == "größe-☃"
    assert record.first_ping_at is record.last_ping_at is record.ip_address is None
    assert not record.problems
    large = store.create(replace(claim(), size="large"))
    assert large.hostname == "large-1"
    slurm.cluster.stop_controller()
    slurm.cluster.start_controller()
    assert read(slurm.store(), record) == record


def test_a_create_repeated_with_its_incarnation_finds_the_first_and_a_full_size_has_no_slot(
    store: SlurmRecordStore,
):
    mine = claim()
    first = store.create(mine)
    assert store.create(mine) == first
    store.create(claim())
    with pytest.raises(NoFreeSlot):
        store.create(claim())


def test_a_claim_is_refused_on_an_old_version_a_held_record_or_another_pools(
    store: SlurmRecordStore,
):
    free = store.list_records().items[1]
    record = store.claim(free, claim())
    with pytest.raises(Conflict):
        store.claim(free, claim())
    with pytest.raises(StoreRefused):
        store.claim(record, claim())
    released = store.clean(store.fence(record), "create_refused")
    with pytest.raises(StoreRefused):
        store.claim(released, claim(pool="other"))


def test_a_renewed_claim_keeps_the_life(slurm: CloudSlurm, store: SlurmRecordStore):
    record = booted(slurm, store)
    assert record.claim is not None
    renewed = store.claim(record, replace(record.claim, at=160.125, node_id="i-1"))
    assert renewed.claim is not None
    assert (renewed.claim.at, renewed.instance_id) == (160.125, "i-1")
    assert renewed.first_ping_at is not None


def test_a_registered_slurmd_is_the_sign_of_life(slurm: CloudSlurm, store: SlurmRecordStore):
    before = store.store_time()
    record = booted(slurm, store)
    assert record.first_ping_at is not None
    assert record.last_ping_at is not None
    after = store.store_time()
    assert before.at - 2 <= record.first_ping_at <= record.last_ping_at <= after.at + 1
    assert record.worker_state is WorkerState.IDLE
    assert record.hostname == "small-1"
    # Slurm tells times in whole seconds: a later look is a later ping only after one.
    time.sleep(1.1)
    later = read(store, record)
    assert later.last_ping_at is not None
    assert later.last_ping_at > record.last_ping_at
    assert later.version == record.version
    # Else the clock seems to be set back, and no record is ever old enough to be freed (T1).
    assert later.modified_at is not None
    assert later.modified_at >= later.last_ping_at


def test_a_dead_node_is_quiet_since_slurm_called_it_down_for_every_store(
    slurm: CloudSlurm, store: SlurmRecordStore
):
    record = booted(slurm, store)
    slurm.kill("small-1")
    killed = store.store_time().at
    until("its end", lambda: "DOWN" in slurm.words("small-1"))
    told = read(store, record)
    assert told.last_ping_at is not None
    assert killed - 1 <= told.last_ping_at <= killed + 4 * SLURMD_TIMEOUT_S
    assert told.version != record.version
    assert told.worker_state is None
    # Nothing may change while time passes, and Slurm tells whole seconds.
    time.sleep(1.1)
    assert read(store, record) == told
    # A store that never saw it alive knows it from Slurm.
    again = read(slurm.store(), record)
    assert again.last_ping_at is not None
    assert told.last_ping_at >= again.last_ping_at >= killed - 1


def test_a_node_that_died_drained_was_not_quiet_since_its_drain(
    slurm: CloudSlurm, store: SlurmRecordStore
):
    """Slurm leaves the reason of the drain, and its time, when it calls the node down."""
    record = booted(slurm, store)
    drain = ("State=DRAIN", "Reason=nodemanager: to be shut down")
    slurm.cluster.client("scontrol", "update", "NodeName=small-1", *drain)
    # Slurm tells whole seconds: the node must outlive its drain by more than one.
    time.sleep(2.1)
    slurm.lose("small-1")
    lost = store.store_time().at
    told = read(slurm.store(), record).last_ping_at
    assert told is not None
    assert told >= lost - 1.6, "that a store which did not see it alive knows no better"


def test_a_node_that_is_powered_down_lived_until_it_was_first_seen_so(
    slurm: CloudSlurm, store: SlurmRecordStore
):
    """Slurm may have heard it after the last look at it."""
    record = booted(slurm, store)
    # Slurm tells whole seconds: what happens later must be in a later one.
    time.sleep(1.1)
    off_at = store.store_time().at
    slurm.cluster.client("scontrol", "update", "NodeName=small-1", "State=POWER_DOWN")
    until("power down", lambda: slurm.words("small-1") & {"POWERING_DOWN", "POWERED_DOWN"})
    told = read(store, record)
    assert told.last_ping_at is not None
    assert told.last_ping_at >= off_at - 1.5
    # Once seen so, it gets no newer while time passes.
    time.sleep(1.1)
    assert read(store, record).last_ping_at == told.last_ping_at


def order_to_resume(slurm: CloudSlurm, name: str) -> tuple[bool, str]:
    """Whether Slurm has given the name up, and what it is told then."""
    shown = slurm.cluster.client("scontrol", "--oneliner", "show", "node", name)
    found = re.search(r" Reason=(.*) \[", shown)
    words = frozenset(word.lower() for word in slurm.words(name))
    row = NodeRow(name, words, found[1] if found else "", (), 1, 1)
    (node,) = power.listing(listing([row])).items
    return node.given_up, power.order_to_resume(node)


def test_a_name_that_slurm_gave_up_can_be_powered_up_again(slurm: CloudSlurm):
    """One whose machine did not come, and one that was called down after its machine."""
    slurm.cluster.client("scontrol", "update", "NodeName=small-2", "State=POWER_UP")
    slurm.cluster.client("scontrol", "update", "NodeName=small-1", "State=POWER_UP")
    slurm.boot("small-1")
    slurm.kill("small-1")
    gone = ("State=DOWN", "Reason=nodemanager: its node is gone")
    slurm.cluster.client("scontrol", "update", "NodeName=small-1", *gone)
    until("its end", lambda: "POWERED_DOWN" in slurm.words("small-2"), told=slurm.cluster.log)
    assert "DOWN" in slurm.words("small-2")
    for name, order in (("small-1", power.POWER_DOWN), ("small-2", power.RESUME)):
        assert order_to_resume(slurm, name) == (True, order)
        slurm.cluster.client("scontrol", "update", f"NodeName={name}", order)
        until("power off", lambda name=name: slurm.is_off(name), told=slurm.cluster.log)
        assert order_to_resume(slurm, name) == (False, power.RESUME)
        slurm.cluster.submit("-w", name)
        until("power up", lambda name=name: "POWERING_UP" in slurm.words(name))


def test_a_clean_behind_its_fence_gives_slurm_a_node_that_it_can_power_up(
    slurm: CloudSlurm, store: SlurmRecordStore
):
    record = booted(slurm, store)
    slurm.lose("small-1")
    judged = read(store, record)
    fenced = store.fence(judged)
    assert fenced.fenced
    assert {"DOWN", "DRAIN"} <= slurm.words("small-1")
    same = ("first_ping_at", "last_ping_at", "slot_number", "hostname", "ip_address", "claim")
    assert all(getattr(fenced, name) == getattr(judged, name) for name in same)
    free = store.clean(fenced, "stale_slot")
    assert free == read(store, record)
    five = (free.slot_number, free.hostname, free.ip_address, free.first_ping_at, free.last_ping_at)
    assert five == (None,) * 5
    assert free.claim is None
    assert free.pool == "main"
    assert free.info["last_action"] == "stale_slot"
    assert not free.fenced
    until("power off", lambda: slurm.is_off("small-1"), told=slurm.cluster.log)
    job = slurm.cluster.submit("-w", "small-1")
    until("power up", lambda: "POWERING_UP" in slurm.words("small-1"))
    again = store.claim(read(store, record), claim())
    slurm.boot("small-1")
    until("its job", lambda: slurm.cluster.job_state(job) == "RUNNING")
    assert read(store, again).first_ping_at is not None


def test_a_node_that_comes_back_behind_the_fence_is_not_freed_and_gets_no_work(
    slurm: CloudSlurm, store: SlurmRecordStore
):
    record = booted(slurm, store)
    slurm.lose("small-1")
    fenced = store.fence(read(store, record))
    job = slurm.cluster.submit("-w", "small-1")
    slurm.boot("small-1")
    with pytest.raises(Conflict):
        store.clean(fenced, "stale_slot")
    # The scheduler looks each second (sched_interval), and gives the node nothing.
    time.sleep(1.5)
    assert slurm.cluster.job_state(job) == "PENDING"
    alive = slurm.store().unfence(read(store, record), None)
    assert not alive.fenced
    assert alive.claim == record.claim
    until("its job", lambda: slurm.cluster.job_state(job) == "RUNNING")
    assert store.unfence(alive, None).version == read(store, record).version


def test_a_node_whose_fence_somebody_lifted_is_not_powered_down(
    slurm: CloudSlurm, store: SlurmRecordStore
):
    """A late order of ours may lift it, which an earlier clean sent: the node may get work (A4)."""
    record = booted(slurm, store)
    fenced = store.fence(read(store, record))
    slurm.cluster.client("scontrol", "update", "NodeName=small-1", "State=UNDRAIN")
    with pytest.raises(Conflict, match="its fence was lifted"):
        store.clean(fenced, "stale_slot")
    assert not slurm.words("small-1") & {"POWER_DOWN", "POWERING_DOWN", "POWERED_DOWN"}
    assert read(store, record).claim == record.claim


def test_a_fence_or_clean_judged_before_a_sign_of_life_is_a_conflict(
    slurm: CloudSlurm, store: SlurmRecordStore
):
    record = store.create(claim())
    slurm.boot("small-1")
    with pytest.raises(Conflict):
        store.fence(record)
    with pytest.raises(Conflict):
        store.clean(record, "claim_expired")
    assert slurm.words("small-1") == {"IDLE", "CLOUD"}
    assert read(store, record).claim == record.claim


def test_a_node_that_registers_without_a_claim_holds_its_slot(
    slurm: CloudSlurm, store: SlurmRecordStore
):
    slurm.start("small-1")
    first = store.list_records().items[1]
    until("a slurmd", lambda: read(store, first).holds_anything)
    record = read(store, first)
    assert record.claim is None
    assert record.slot_number == 2
    with pytest.raises(StoreRefused):
        store.claim(record, claim())
    assert store.create(claim()).hostname == "small-2"


def test_what_a_clean_took_can_be_restored(slurm: CloudSlurm, store: SlurmRecordStore):
    record = booted(slurm, store)
    slurm.lose("small-1")
    before = read(store, record)
    free = store.clean(store.fence(before), "stale_slot")
    back = store.restore(free, before)
    assert back.claim == before.claim
    assert back.slot_number == before.slot_number
    with pytest.raises(StoreRefused):
        store.restore(back, before)


@pytest.mark.parametrize("extra", ["rack 4", "nodemanager:e30=x", "nodemanager:eyJjbGFpbSI6NX0="])
def test_an_extra_that_is_not_ours_or_unreadable_keeps_its_node(
    slurm: CloudSlurm, store: SlurmRecordStore, extra: str
):
    slurm.cluster.client("scontrol", "update", "NodeName=small-1", f"Extra={extra}")
    listed = store.list_records()
    assert listed.complete
    assert listed.items[1].problems
    with pytest.raises(StoreRefused):
        store.claim(listed.items[1], claim())
    assert store.create(claim()).hostname == "small-2"
    assert f"Extra={extra}" in slurm.cluster.client("scontrol", "show", "node", "small-1")


def test_a_lost_controller_is_an_error_and_never_an_empty_list(
    slurm: CloudSlurm, store: SlurmRecordStore
):
    record = store.create(claim())
    slurm.cluster.stop_controller()
    for ask in (store.list_records, store.store_id, store.slots, store.store_time):
        with pytest.raises(StoreError):
            ask()
    with pytest.raises(StoreError) as lost:
        store.fence(record)
    assert lost.value.unsent
    assert not store.probe()
    hasty = slurm.store(timeout=0.001)
    with pytest.raises(StoreError):
        hasty.list_records()


def test_what_is_not_there_is_said(store: SlurmRecordStore):
    ghost = Record(uuid="slurm-7ekkf-000000000000000", version="1")
    assert store.read(ghost.uuid) is None
    with pytest.raises(NoSuchRecord):
        store.clean(ghost, "stale_slot")
    record = store.create(claim())
    with pytest.raises(StoreRefused):
        store.delete(record)
    with pytest.raises(StoreRefused):
        store.drain(record, on=True)
    assert store.late_pings() == ()
    assert store.ping_url(record) == "small-1"
    with pytest.raises(StoreRefused):
        store.ping_url(store.list_records().items[0])
