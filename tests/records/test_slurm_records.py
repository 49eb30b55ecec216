"""Our own records of Slurm's nodes: what records/api.py promises, with slurmds that come and go.

Each test runs on a real Slurm and on the model of it, which the contract suite runs on; those at
the end on the real one alone.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from nodemanager.core.model.world import Guarantee, Record, WorkerState
from nodemanager.errors import Conflict, NoFreeSlot, NoSuchRecord, SchedulerRefused, StoreError
from nodemanager.errors import StoreRefused as Refused
from nodemanager.records.slurm import SlurmRecordStore
from nodemanager.schedulers.slurm import power
from nodemanager.schedulers.slurm.rows import SinfoNode, listing
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
HASTY = pytest.param("real, hasty", marks=pytest.mark.server("slurm", "munge"))
"""A slurmctld that gives a node up after ten seconds. It requeues the node's job then, which waits
for two minutes: so where a test waits for a job, the time is longer than a busy machine needs."""
twin_only = pytest.mark.parametrize(
    "_running",
    [pytest.param("real", marks=[pytest.mark.slurm, *REAL.marks]), "model"],
    indirect=True,
)
"""What a real Slurm does there, the scripts of tests/schedulers compare with the model; what we
make of it is played on the model, and on both by `make proof NAME=slurm`."""
on_a_real_slurm = pytest.mark.parametrize("_running", [REAL], indirect=True)
FOREIGN = "bad disk"


@pytest.fixture(scope="module", params=[REAL, "model"])
def _running(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[CloudSlurm]:
    if request.param == "model":
        yield model_slurm()
        return
    resume_timeout = 10 if "hasty" in request.param else 300
    folder = tmp_path_factory.mktemp("slurm")
    with cloud_slurm(folder, resume_timeout=resume_timeout) as slurm:
        yield slurm


@pytest.fixture
def slurm(_running: CloudSlurm) -> CloudSlurm:
    _running.tidy()
    return _running


@pytest.fixture
def database(tmp_path: Path) -> Path:
    return tmp_path / "seats.db"


@pytest.fixture
def store(slurm: CloudSlurm, database: Path) -> Iterator[SlurmRecordStore]:
    opened = slurm.store(database)
    yield opened
    opened.close()


def seat(store: SlurmRecordStore, name: str) -> Record:
    (found,) = [one for one in store.list_records().items if of(one) == name]
    return found


def booted(slurm: CloudSlurm, store: SlurmRecordStore) -> Record:
    """A claimed record whose node has come."""
    record = store.create(claim())
    slurm.boot(of(record))
    return seat(store, of(record))


def test_it_says_what_it_is_and_that_every_node_is_a_slot(store: SlurmRecordStore):
    listed = store.list_records()
    assert store.guarantee is Guarantee.CAS
    assert store.may_authorise
    assert store.slots() == len(NODES)
    assert listed.complete
    assert not listed.problems
    assert sorted(of(record) for record in listed.items) == list(NODES)
    assert not any(record.holds_anything or record.problems for record in listed.items)


def test_a_claim_takes_a_node_of_its_size_and_outlives_slurmctld(
    slurm: CloudSlurm, store: SlurmRecordStore, database: Path
):
    mine = claim(pool="größe-☃")
    record = store.create(mine)
    assert (record.slot_number, record.hostname) == (2, "small-1")
    assert record.claim == mine
    assert record.first_ping_at is record.last_ping_at is record.ip_address is None
    store.create(claim())
    with pytest.raises(NoFreeSlot):
        store.create(claim())
    large = store.create(replace(claim(), size="large"))
    assert large.hostname == "large-1"
    slurm.cluster.stop_controller()
    slurm.cluster.start_controller()
    assert slurm.store(database).read(record.uuid) == record


def test_a_registered_slurmd_is_the_sign_of_life(slurm: CloudSlurm, store: SlurmRecordStore):
    before = store.store_time()
    record = booted(slurm, store)
    assert record.claim is not None
    assert record.first_ping_at is not None
    assert record.last_ping_at is not None
    assert before.at <= record.first_ping_at <= record.last_ping_at <= store.store_time().at
    assert record.worker_state is WorkerState.IDLE
    later = seat(store, of(record))
    assert later.last_ping_at is not None
    assert later.last_ping_at > record.last_ping_at
    assert later.first_ping_at == record.first_ping_at
    renewed = store.claim(later, replace(record.claim, at=160.125, node_id="i-1"))
    assert (renewed.instance_id, renewed.first_ping_at) == ("i-1", record.first_ping_at)


@twin_only
def test_a_dead_node_is_quiet_from_when_slurm_calls_it_down(
    slurm: CloudSlurm, store: SlurmRecordStore
):
    record = booted(slurm, store)
    slurm.kill("small-1")
    killed = store.store_time().at
    until("its end", lambda: "DOWN" in slurm.words("small-1"))
    told = seat(store, of(record))
    assert told.last_ping_at is not None
    assert told.last_ping_at <= killed + 4 * SLURMD_TIMEOUT_S
    # The next listing asks anew.
    assert seat(store, of(record)) == told
    assert not store.clean(told, "stale_slot").holds_anything


@twin_only
def test_a_slurmctld_that_restarts_silences_nobody_and_frees_nothing(
    slurm: CloudSlurm, store: SlurmRecordStore
):
    record = booted(slurm, store)
    slurm.cluster.stop_controller()
    assert not store.probe()
    assert len(store.list_records().items) == len(NODES)
    assert "slurmctld" in store.list_records().problems[0]
    slurm.cluster.start_controller()
    assert not store.probe(), "it may not know yet who lives"
    now = seat(store, of(record))
    assert (now.claim, now.first_ping_at) == (record.claim, record.first_ping_at)
    until("probe", store.probe, told=slurm.cluster.log)
    until("a sign", lambda: _heard(seat(store, of(record))) > _heard(now), told=slurm.cluster.log)
    assert seat(store, of(record)).first_ping_at == record.first_ping_at


def _heard(record: Record) -> float:
    assert record.last_ping_at is not None
    return record.last_ping_at


def order_to_resume(slurm: CloudSlurm, name: str) -> tuple[bool, tuple[str, ...]]:
    """Whether Slurm has given the name up, and what it is told then."""
    shown = slurm.cluster.client("scontrol", "--oneliner", "show", "node", name)
    found = re.search(r" Reason=(.*) \[", shown)
    words = frozenset(word.lower() for word in slurm.words(name))
    row = SinfoNode(name, words, found[1] if found else "", (), 1, 1)
    (node,) = power.listing(listing([row])).items
    return node.given_up, power.orders_to_resume(node)


@pytest.mark.parametrize("_running", [HASTY, "model"], indirect=True)
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
    for name, order in (("small-1", power.OFF), ("small-2", power.RESUME)):
        assert order_to_resume(slurm, name) == (True, (order,))
        slurm.cluster.client("scontrol", "update", f"NodeName={name}", order)
        until("power off", lambda name=name: slurm.is_off(name), told=slurm.cluster.log)
        assert order_to_resume(slurm, name) == (False, (power.RESUME,))
        slurm.cluster.submit("-w", name)
        until("power up", lambda name=name: "POWERING_UP" in slurm.words(name))


def test_a_freed_seat_is_powered_up_for_a_job_and_claimed_anew(
    slurm: CloudSlurm, store: SlurmRecordStore
):
    record = booted(slurm, store)
    slurm.lose("small-1")
    free = store.clean(seat(store, of(record)), "stale_slot")
    slurm.cluster.client("scontrol", "update", "NodeName=small-1", power.OFF_AT_ONCE)
    until("power off", lambda: slurm.is_off("small-1"), told=slurm.cluster.log)
    job = slurm.cluster.submit("-w", "small-1")
    until("power up", lambda: "POWERING_UP" in slurm.words("small-1"))
    again = store.claim(seat(store, of(free)), claim())
    assert seat(store, of(again)).last_ping_at is None, "the old slurmd is no sign of this life"
    slurm.boot("small-1")
    until("its job", lambda: slurm.cluster.job_state(job) == "RUNNING")
    assert seat(store, of(again)).first_ping_at is not None


def test_a_slurmd_that_comes_before_the_clean_stops_it(slurm: CloudSlurm, store: SlurmRecordStore):
    judged = store.create(claim())
    slurm.start("small-1")
    until("a slurmd", lambda: "POWERED_DOWN" not in slurm.words("small-1"))
    with pytest.raises(Conflict):
        store.clean(judged, "claim_expired")
    assert seat(store, "small-1").claim == judged.claim


def test_a_node_that_registers_without_a_claim_holds_nothing_and_is_not_claimed(
    slurm: CloudSlurm, store: SlurmRecordStore
):
    slurm.start("small-1")
    until("a slurmd", lambda: "POWERED_DOWN" not in slurm.words("small-1"))
    up = seat(store, "small-1")
    assert not up.holds_anything
    with pytest.raises(Conflict, match="in Slurm"):
        store.claim(up, claim())
    # Slurm powers it down by itself in time, and nothing has to be freed.
    slurm.kill("small-1")
    slurm.cluster.client("scontrol", "update", "NodeName=small-1", power.OFF_AT_ONCE)
    until("power off", lambda: slurm.is_off("small-1"), told=slurm.cluster.log)
    assert store.claim(seat(store, "small-1"), claim()).hostname == "small-1"


@twin_only
def test_what_a_clean_took_can_be_restored(slurm: CloudSlurm, store: SlurmRecordStore):
    record = booted(slurm, store)
    slurm.lose("small-1")
    before = seat(store, of(record))
    free = store.clean(before, "stale_slot")
    back = store.restore(free, before)
    assert (back.claim, back.slot_number) == (before.claim, before.slot_number)
    with pytest.raises(Refused):
        store.restore(back, before)


@twin_only
def test_a_lost_controller_is_no_silence_and_nothing_is_claimed_or_freed(
    slurm: CloudSlurm, store: SlurmRecordStore, database: Path, tmp_path: Path
):
    record = store.create(claim())
    slurm.cluster.stop_controller()
    assert record in store.list_records().items
    with pytest.raises(StoreError) as lost:
        store.clean(record, "claim_expired")
    assert lost.value.unsent
    assert not store.probe()
    hasty = slurm.store(database, timeout=0.001)
    assert not hasty.probe()
    with pytest.raises(StoreError):
        slurm.store(tmp_path / "new.db").list_records()


@twin_only
def test_what_is_not_there_is_said(store: SlurmRecordStore):
    ghost = Record(uuid="slurm-7ekkf-000000000000000", version="1")
    assert store.read(ghost.uuid) is None
    with pytest.raises(NoSuchRecord):
        store.clean(ghost, "stale_slot")
    record = store.create(claim())
    for refused in (
        lambda: store.delete(record),
        lambda: store.drain(record, on=True),
        lambda: store.fence(record),
        lambda: store.ping_url(seat(store, "large-1")),
    ):
        with pytest.raises(Refused):
            refused()
    assert store.late_pings() == ()
    assert store.ping_url(record) == "small-1"


# What the model does not have.


@on_a_real_slurm
def test_a_node_that_is_taken_out_of_its_partition_keeps_its_record_and_is_heard(
    slurm: CloudSlurm, store: SlurmRecordStore
):
    record = booted(slurm, store)
    partition = ("scontrol", "update", "PartitionName=elastic")
    slurm.cluster.client(*partition, "Nodes=small-2,large-1")
    try:
        later = seat(store, of(record))
        assert _heard(later) > _heard(record)
        assert "small-1" in [one.name for one in slurm.scheduler().nodes().items]
    finally:
        slurm.cluster.client(*partition, "Nodes=small-[1-2],large-1")


@on_a_real_slurm
def test_only_a_seat_that_is_off_is_powered_up_and_one_on_its_way_down_is_not_claimed(
    slurm: CloudSlurm, store: SlurmRecordStore
):
    scheduler = slurm.scheduler()
    record = booted(slurm, store)
    scheduler.power_up("small-1")
    assert slurm.words("small-1") == {"IDLE", "CLOUD"}
    slurm.cluster.client("scontrol", "update", "NodeName=small-1", power.OFF)
    until("power down", lambda: "POWERING_DOWN" in slurm.words("small-1"))
    scheduler.power_up("small-1")
    free = store.clean(store.list_records().items and seat(store, of(record)), "after_shutdown")
    if "POWERING_DOWN" in slurm.words("small-1"):
        with pytest.raises(Conflict, match="powering_down"):
            store.claim(free, claim())
    slurm.kill("small-1")
    until("power off", lambda: slurm.is_off("small-1"), told=slurm.cluster.log)
    scheduler.power_up("small-1")
    assert slurm.words("small-1") & {"POWER_UP", "POWERING_UP"}
    assert "small-1" in [job.host for job in scheduler.queue()]


@on_a_real_slurm
def test_a_drain_that_is_not_ours_survives_whatever_we_do_d16(
    slurm: CloudSlurm, store: SlurmRecordStore
):
    scheduler = slurm.scheduler()
    record = booted(slurm, store)
    drain = ("scontrol", "update", "NodeName=small-1", "State=DRAIN", f"Reason={FOREIGN}")
    slurm.cluster.client(*drain)
    with pytest.raises(SchedulerRefused):
        scheduler.resume("small-1")
    scheduler.mark_down("small-1", "destroyed")
    scheduler.power_up("small-1")
    store.clean(seat(store, of(record)), "operator")
    slurm.lose("small-1")
    scheduler.mark_down("small-1", "its node is gone")
    store.list_records()
    shown = slurm.cluster.client("scontrol", "--oneliner", "show", "node", "small-1")
    assert f" Reason={FOREIGN} [" in shown
    assert "DRAIN" in slurm.words("small-1")


@on_a_real_slurm
def test_a_machine_that_does_not_come_gives_its_job_back_and_its_seat_is_off(
    slurm: CloudSlurm, store: SlurmRecordStore
):
    job = slurm.cluster.submit("-w", "small-1")
    until("power up", lambda: "POWERING_UP" in slurm.words("small-1"))
    assert not slurm.scheduler().mark_down("small-1", "its node is gone", had_joined=True)
    assert slurm.cluster.job_state(job) == "CONFIGURING", "it waits for the next machine (U14)"
    assert slurm.scheduler().mark_down("small-1", "its node is gone")
    until("the queue", lambda: slurm.cluster.job_state(job) == "PENDING", told=slurm.cluster.log)
    slurm.cluster.client("scancel", job)
    until("power off", lambda: slurm.is_off("small-1"), told=slurm.cluster.log)


@on_a_real_slurm
def test_a_seat_that_our_drain_outlived_is_off_and_drained_no_more(slurm: CloudSlurm):
    slurm.cluster.client("scontrol", "update", "NodeName=small-1", "State=POWER_UP")
    slurm.boot("small-1")
    scheduler = slurm.scheduler()
    scheduler.drain("small-1", "to be shut down")
    slurm.kill("small-1")
    scheduler.mark_down("small-1", "destroyed")
    until("power off", lambda: slurm.is_off("small-1"), told=slurm.cluster.log)
