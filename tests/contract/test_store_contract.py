"""What records/api.py promises, of every adapter."""

from __future__ import annotations

import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest
import sqlalchemy as sa

from nodemanager.core.model.world import Guarantee, Record, WorkerState
from nodemanager.errors import Conflict, NoFreeSlot, NoSuchRecord, StoreRefused
from tests.contract.stores import (
    REAL_STORES,
    any_store,
    claim,
    cleaned,
    every_store,
    fenced_stores,
    in_use,
    open_backend,
    pinged,
    read,
    real_cas_stores,
    real_stores,
)

NOBODY = "zzzzz-7ekkf-000000000000000"


def written(record: Record) -> Record:
    """What was written to it, whenever that was."""
    return replace(record, version="", modified_at=None)


@any_store
def test_a_store_says_what_it_is(backend):
    store = backend.store
    assert (store.guarantee is Guarantee.CAS) == (store.settle_wait == 0)
    assert store.may_authorise
    assert store.list_records().complete
    assert store.slots() == 8


@any_store
def test_a_created_record_has_slot_hostname_claim_pool_and_secret(backend):
    mine = claim()
    record = backend.store.create(mine)
    assert (record.slot_number, record.hostname) == (1, "compute1")
    assert record.claim == mine
    assert record.pool == "main"
    assert record.ping_secret
    assert record.first_ping_at is record.last_ping_at is record.ip_address is None
    assert not record.problems
    assert read(backend, record) == record


@every_store
def test_a_secret_is_in_no_repr(backend):
    record = backend.store.create(claim())
    assert record.ping_secret not in repr(record)


@any_store
def test_a_create_repeated_with_its_incarnation_finds_the_record_of_the_first(backend):
    mine = claim()
    first = backend.store.create(mine)
    assert backend.store.create(mine) == first
    assert in_use(backend) == [first]


@real_cas_stores
def test_creates_repeated_at_the_same_time_make_one_record(backend):
    mine = claim()
    with ThreadPoolExecutor(4) as threads:
        made = list(threads.map(lambda _: backend.store.create(mine), range(4)))
    assert {record.uuid for record in made} == {made[0].uuid}
    assert len(backend.store.list_records().items) == 1


@real_cas_stores
def test_slots_allotted_at_the_same_time_by_two_stores_are_all_different(backend):
    stores = [backend.store, backend.reopen()]
    with ThreadPoolExecutor(4) as threads:
        made = list(threads.map(lambda n: stores[n % 2].create(claim()), range(8)))
    assert sorted(record.slot_number for record in made) == [1, 2, 3, 4, 5, 6, 7, 8]


@any_store
def test_the_smallest_free_slot_is_given_first(backend):
    made = [backend.store.create(claim()) for _ in range(4)]
    backend.store.clean(made[1], "stale_slot")
    assert backend.store.create(claim()).slot_number == 2
    assert backend.store.create(claim()).slot_number == 5


@every_store
def test_without_a_free_slot_nothing_is_created_or_claimed(backend):
    spare = cleaned(backend)
    for _ in range(8):
        backend.store.create(claim())
    with pytest.raises(NoFreeSlot):
        backend.store.create(claim())
    with pytest.raises(NoFreeSlot):
        backend.store.claim(spare, claim())
    assert len(backend.store.list_records().items) == 9
    assert written(read(backend, spare)) == written(spare)


@pytest.mark.parametrize(
    "kind",
    [pytest.param("postgresql", id="postgresql", marks=pytest.mark.server("postgresql"))],
)
def test_a_slot_freed_while_another_is_looked_for_hides_none(kind, request):
    """Only PostgreSQL has writes side by side."""
    with open_backend(kind, request, slots=2) as backend:
        first = backend.store.create(claim())
        free = backend.store.clean(backend.store.create(claim()), "stale_slot")
        other = backend.reopen()
        looks = []

        def clean_after_the_first_look(_connection, _cursor, statement, *_):
            if "slot_number = " in statement and not looks:
                looks.append(statement)
                other.clean(first, "stale_slot")

        engine = backend.store.db._engine
        sa.event.listen(engine, "after_cursor_execute", clean_after_the_first_look)
        assert backend.store.claim(free, claim()).slot_number == 2
        assert looks


@real_stores
def test_a_slot_zero_written_by_hand_is_a_slot(backend):
    record = backend.store.create(claim())
    backend.write_by_hand("UPDATE nodes SET slot_number = 0 WHERE uuid = :u", u=record.uuid)
    assert read(backend, record).slot_number == 0
    assert read(backend, record).holds_slot
    assert backend.store.create(claim()).slot_number == 1


@any_store
def test_a_claim_gives_a_cleaned_record_a_slot_and_a_new_secret(backend):
    first = backend.store.create(claim())
    free = backend.store.clean(first, "stale_slot")
    mine = claim()
    record = backend.store.claim(free, mine)
    assert record.claim == mine
    assert (record.slot_number, record.hostname) == (1, "compute1")
    assert record.ping_secret not in (None, first.ping_secret)
    assert record.version != free.version


@any_store
def test_a_renewed_claim_keeps_slot_and_secret(backend):
    mine = claim(at=100.25)
    record = backend.store.create(mine)
    renewed = backend.store.claim(record, claim(incarnation=mine.incarnation, at=160.125))
    assert renewed.claim.at == 160.125
    assert renewed.slot_number == record.slot_number
    assert renewed.ping_secret == record.ping_secret
    assert renewed.version != record.version


@every_store
def test_size_and_price_of_the_node_stand_in_properties_from_claim_to_clean_p4(backend):
    """Where Arvados Node Manager wrote them; pings leave them alone."""
    size = {"size": "small", "price": 0.1}
    record = pinged(backend)
    assert record.properties["cloud_node"] == size
    if backend.store.guarantee is Guarantee.FENCED:
        record = backend.store.fence(record)
    free = backend.store.clean(record, "stale_slot")
    assert "cloud_node" not in free.properties
    assert backend.store.claim(free, claim()).properties["cloud_node"] == size


@any_store
def test_a_claim_on_a_version_that_is_gone_is_a_conflict(backend):
    free = cleaned(backend)
    backend.store.claim(free, claim())
    with pytest.raises(Conflict):
        backend.store.claim(free, claim())


@real_cas_stores
def test_of_many_claims_at_once_exactly_one_wins(backend):
    free = cleaned(backend)
    claims = [claim() for _ in range(4)]
    start = threading.Barrier(4)

    def attempt(mine):
        start.wait(timeout=10)
        try:
            return backend.store.claim(free, mine)
        except Conflict:
            return None

    with ThreadPoolExecutor(4) as threads:
        won = [record for record in threads.map(attempt, claims) if record is not None]
    assert len(won) == 1
    assert read(backend, free) == won[0]


@any_store
def test_a_record_that_holds_something_is_never_claimed_for_another_incarnation(backend):
    record = backend.store.create(claim())
    with pytest.raises(StoreRefused):
        backend.store.claim(record, claim())
    assert read(backend, record) == record


@any_store
def test_another_pools_record_is_never_claimed(backend):
    free = cleaned(backend)
    with pytest.raises(StoreRefused):
        backend.store.claim(free, claim(pool="other"))


@real_stores
def test_a_ping_shows_in_the_record_and_keeps_the_claim(backend):
    record = backend.store.create(claim())
    answer = backend.ping(
        record, local_ipv4="10.1.2.3", instance_id="i-1", worker_state="IDLE", total_cpu_cores="4"
    )
    assert answer.status_code == 200
    now = read(backend, record)
    assert now.ip_address == "10.1.2.3"
    assert now.instance_id == "i-1"
    assert now.worker_state is WorkerState.IDLE
    assert now.first_ping_at == now.last_ping_at is not None
    assert now.claim == record.claim
    assert now.properties["total_cpu_cores"] == 4
    assert now.version != record.version
    again = backend.ping(record)
    assert again.status_code == 200
    later = read(backend, record)
    assert later.worker_state is None
    assert later.first_ping_at == now.first_ping_at
    assert later.last_ping_at > now.last_ping_at
    assert later.claim == record.claim


@real_stores
def test_a_clean_writes_exactly_what_the_rule_says(backend):
    record = pinged(
        backend, local_ipv4="10.1.2.3", instance_id="i-1", worker_state="busy", total_ram_mb="512"
    )
    free = backend.store.clean(record, "stale_slot")
    assert free == read(backend, record)
    five = (free.slot_number, free.hostname, free.ip_address, free.first_ping_at, free.last_ping_at)
    assert five == (None,) * 5
    assert free.properties == {"nodemanager_pool": "main"}
    assert free.info["ec2_instance_id"] is None
    assert free.info["last_action"] == "stale_slot"
    # Where the API makes a new secret, nobody has it.
    assert free.ping_secret != record.ping_secret
    assert free.claim is None
    assert free.pool == "main"
    assert not free.holds_anything
    assert not free.problems


@every_store
def test_a_cleaned_records_node_is_locked_out(backend):
    record = pinged(backend)
    backend.store.clean(record, "stale_slot")
    assert backend.ping(record).status_code == 401
    assert not read(backend, record).holds_anything


@every_store
def test_the_node_of_an_earlier_incarnation_is_locked_out(backend):
    record = pinged(backend)
    backend.store.claim(backend.store.clean(record, "stale_slot"), claim())
    assert backend.ping(record).status_code == 401


@every_store
def test_a_clean_judged_before_a_ping_is_a_conflict_and_frees_nothing(backend):
    record = pinged(backend, local_ipv4="10.1.2.3")
    assert backend.ping(record).status_code == 200
    now = read(backend, record)
    with pytest.raises(Conflict):
        backend.store.clean(record, "stale_slot")
    assert read(backend, record) == now


@fenced_stores
def test_a_fence_on_a_version_that_is_gone_is_a_conflict(backend):
    record = pinged(backend)
    assert backend.ping(record).status_code == 200
    with pytest.raises(Conflict) as raised:
        backend.store.fence(record)
    assert raised.value.unsent
    assert backend.ping(record).status_code == 200


@any_store
def test_a_clean_judged_before_a_claim_is_a_conflict(backend):
    free = cleaned(backend)
    record = backend.store.claim(free, claim())
    with pytest.raises(Conflict):
        backend.store.clean(free, "stale_slot")
    assert read(backend, record) == record


@any_store
def test_writes_to_a_record_that_is_not_there_say_so(backend):
    ghost = Record(uuid=NOBODY, version="1")
    assert backend.store.read(NOBODY) is None
    with pytest.raises(NoSuchRecord):
        backend.store.clean(ghost, "stale_slot")
    with pytest.raises(NoSuchRecord):
        backend.store.claim(ghost, claim())


@pytest.mark.parametrize(
    "backend", [*REAL_STORES, "fake-fenced", "simulated-arvados"], indirect=True
)
def test_a_fence_locks_the_node_out_and_unfence_lets_it_in(backend):
    record = pinged(backend)
    fenced = backend.store.fence(record)
    assert fenced.ping_secret not in (None, record.ping_secret)
    assert backend.ping(record).status_code == 401
    back = backend.store.unfence(fenced, record.ping_secret)
    assert backend.ping(back).status_code == 200


@fenced_stores
def test_a_fence_shows_in_a_listing_and_is_lifted_without_its_secret(backend):
    record = pinged(backend)
    fenced = backend.store.fence(record)
    (listed,) = [one for one in backend.store.list_records().items if one.uuid == record.uuid]
    assert (record.fenced, fenced.fenced, listed.fenced) == (False, True, True)
    back = backend.store.unfence(listed, None)
    assert not back.fenced
    assert backend.ping(record).status_code == 200
    unfenced = read(backend, record)
    assert backend.store.unfence(listed, None) is None
    assert read(backend, record) == unfenced
    assert backend.ping(record).status_code == 200


@any_store
def test_names_that_are_not_ascii_come_back_as_they_were(backend):
    mine = claim(pool="größe-☃")
    record = backend.store.create(mine)
    assert read(backend, record).claim == mine
    assert read(backend, record).pool == "größe-☃"


@any_store
def test_a_stores_id_outlives_a_restart(backend):
    assert backend.store.store_id()
    assert backend.reopen().store_id() == backend.store.store_id()


@real_stores
def test_another_stores_id_is_another(backend, request):
    with open_backend(request.node.callspec.params["backend"], request, anew=True) as other:
        assert other.store.store_id() != backend.store.store_id()


@real_stores
def test_a_database_swapped_under_a_running_store_is_another_store(backend):
    known = backend.store.store_id()
    engine = sa.create_engine(backend.database)
    with engine.begin() as connection:
        connection.execute(sa.text("update store set store_id = 'swapped'"))
    engine.dispose()
    assert backend.store.store_id() == "swapped" != known


@real_stores
def test_the_stores_time_is_its_clock_between_two_looks_at_ours(backend):
    began = time.clock_gettime(time.CLOCK_BOOTTIME)
    told = backend.store.store_time()
    now, wall = time.clock_gettime(time.CLOCK_BOOTTIME), time.time()
    assert began <= told.boottime <= now
    assert abs((wall - now) - (told.at - told.boottime)) <= told.error_s + 0.01


@any_store
def test_pings_are_stamped_by_the_clock_that_the_stores_time_tells(backend):
    before = backend.store.store_time()
    record = pinged(backend)
    after = backend.store.store_time()
    assert before.at - before.error_s <= record.last_ping_at <= after.at + after.error_s


@real_stores
def test_the_probe_is_answered_only_while_the_ping_url_is_served(backend):
    assert backend.store.probe()
    backend.server.stop()
    assert not backend.store.probe()


@every_store
def test_a_ping_url_without_a_secret_is_refused(backend):
    with pytest.raises(StoreRefused):
        backend.store.ping_url(replace(cleaned(backend), ping_secret=None))


@any_store
def test_what_was_written_is_there_after_reopening(backend):
    record = pinged(backend, instance_id="i-1")
    again = backend.reopen().read(record.uuid)
    # A slurmd that lives is heard anew.
    assert replace(written(again), last_ping_at=record.last_ping_at) == written(record)
