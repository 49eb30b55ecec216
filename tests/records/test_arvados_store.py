"""The Arvados adapter over a real socket: our registry's HTTP face behind a wire with faults."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import requests

from nodemanager import errors
from nodemanager.core.model.world import Claim, Record
from nodemanager.records.arvados import ArvadosRecordStore
from nodemanager.records.wire import FENCED_SECRET, claim_json
from tests.cases import cases
from tests.contract.stores import claim
from tests.records import arvados_servers

# Who the server is, and its clock.


def test_an_arvados_cluster_is_known_by_its_uuid_prefix(api):
    assert arvados_servers.open_store(api.url).store_id() == "arvados-abcde"
    del api.document["uuidPrefix"]
    with pytest.raises(errors.StoreError, match="uuidPrefix"):
        arvados_servers.open_store(api.url).store_id()


def test_a_registry_is_known_by_its_own_id_and_told_from_one_put_in_its_place(api):
    store = arvados_servers.open_store(api.url)
    api.document["nodemanagerStoreId"] = "a" * 32
    assert store.store_id() == "a" * 32
    api.document["nodemanagerStoreId"] = "b" * 32
    assert store.store_id() == "b" * 32


@cases(
    "document",
    {
        "html": arvados_servers.Reply(b"<html>"),
        "404": arvados_servers.Reply(arvados_servers.ERRORS, 404),
        "503": arvados_servers.Reply(b"", 503),
        "no-resources": {"resources": 3},
        "a-list": [1],
    },
)
def test_a_server_without_a_discovery_document_is_a_failure(api, document):
    api.document = document
    store = arvados_servers.open_store(api.url)
    for call in (
        store.store_id,
        store.list_records,
        lambda: store.read(arvados_servers.node(1)["uuid"]),
    ):
        with pytest.raises(errors.StoreError) as raised:
            call()
        assert not isinstance(raised.value, errors.NoSuchRecord)


def test_without_a_date_there_is_no_store_time(store, wire):
    wire.faults["GET "] = arvados_servers.undated
    with pytest.raises(errors.StoreError, match="Date"):
        store.store_time()


@cases(
    ("reply", "answered"),
    {
        "no-such-record": (arvados_servers.Reply(arvados_servers.ERRORS, 404), True),
        "a-proxys-404": (arvados_servers.Reply(b"not found", 404), False),
        "503": (arvados_servers.Reply(arvados_servers.ERRORS, 503), False),
        "429": (arvados_servers.Reply(arvados_servers.ERRORS, 429), False),
        "a-captive-portal": (arvados_servers.Reply(b"{}", 200), False),
    },
)
def test_only_the_apis_404_answers_the_probe_and_it_bears_no_token(api, reply, answered):
    api.script = lambda _: reply
    store = arvados_servers.open_store("https://127.0.0.1:1", ping_url=api.url)
    assert store.probe() == answered
    assert [asked.method for asked in api.asked] == ["POST"]
    assert api.asked[0].token is None


def test_the_ping_url_is_the_nodes_own_address_of_the_server(straight):
    record = straight.create(claim())
    other = arvados_servers.open_store(
        "http://127.0.0.1:1", ping_url="https://nodes.example.org:8443"
    )
    url = other.ping_url(record)
    assert url.startswith(
        f"https://nodes.example.org:8443{arvados_servers.NODES}/{record.uuid}/ping?ping_secret="
    )


# Versions.


def test_a_version_is_the_same_in_a_listing_and_read_alone_and_moves_with_a_ping(straight):
    record = straight.create(claim())
    (listed,) = straight.list_records().items
    assert listed == record == arvados_servers.read(straight, record)
    seen = {record.version}
    for _ in range(3):
        assert arvados_servers.ping(straight, record) == 200
        seen.add(arvados_servers.read(straight, record).version)
    assert len(seen) == 4


@cases(
    "changed",
    {
        "slot_number": {"slot_number": 0},
        "hostname": {"hostname": "compute9"},
        "ip_address": {"ip_address": "10.0.0.1"},
        "first_ping_at": {"first_ping_at": "2020-01-31T23:59:59.000000001Z"},
        "last_ping_at": {"last_ping_at": "2020-01-31T23:59:59.000000001Z"},
        "modified_at": {"modified_at": "2020-01-31T23:59:59.000000001Z"},
        "properties": {"properties": {"a": 1}},
        "info": {"info": {"ping_secret": "x"}},
    },
)
def test_a_version_moves_with_every_field_and_not_with_time(api, changed):
    store = arvados_servers.open_store(api.url)
    told = {"status": "running", "etag": "1"}
    api.script = lambda _: arvados_servers.Reply(arvados_servers.node(1, **told))
    before = store.read(arvados_servers.node(1)["uuid"])
    told = {"status": "missing", "etag": "2"}
    assert store.read(arvados_servers.node(1)["uuid"]) == before
    api.script = lambda _: arvados_servers.Reply(arvados_servers.node(1, **changed))
    assert store.read(arvados_servers.node(1)["uuid"]).version != before.version


# Claims, cleans, fences.


def cleaned(store: ArvadosRecordStore) -> Record:
    return store.clean(store.create(claim()), "stale_slot")


def test_a_claim_that_another_overwrites_is_a_conflict(store, straight, wire):
    free = cleaned(store)
    theirs = claim()

    def meddle() -> None:
        now = arvados_servers.read(straight, free)
        requests.put(
            f"{wire.url}{arvados_servers.NODES}/{free.uuid}",
            json={"properties": {**now.properties, **_claim_of(theirs)}},
            headers={"Authorization": f"Bearer {arvados_servers.TOKEN}"},
            timeout=10,
        ).raise_for_status()

    wire.after["PUT "] = meddle
    with pytest.raises(errors.Conflict):
        store.claim(free, claim())
    assert arvados_servers.read(straight, free).claim == theirs


def _claim_of(mine: Claim) -> dict[str, Any]:
    return {"nodemanager_claim": claim_json(mine)}


def test_a_create_found_again_without_its_slot_is_given_one(registry, straight):
    mine = claim()
    properties = {"nodemanager_pool": "main", **_claim_of(mine)}
    made = requests.post(
        registry.url + arvados_servers.NODES,
        json={"node": {"properties": properties}},
        headers={"Authorization": f"Bearer {arvados_servers.TOKEN}"},
        timeout=10,
    ).json()
    assert made["slot_number"] is None
    record = straight.create(mine)
    assert (record.uuid, record.slot_number) == (made["uuid"], 1)


def test_a_create_is_not_sent_when_an_earlier_one_cannot_be_looked_for(api):
    api.script = lambda _: arvados_servers.Reply({"items": [{"info": {}}]})
    with pytest.raises(errors.StoreError, match="made before"):
        arvados_servers.open_store(api.url).create(claim())
    assert {asked.method for asked in api.asked} == {"GET"}


def test_a_ping_between_the_clean_and_the_look_after_it_is_told(store, straight, wire):
    record = arvados_servers.pinged(store)

    def meddle() -> None:
        now = arvados_servers.read(straight, record)
        assert arvados_servers.ping(straight, now) == 200

    wire.after["PUT "] = meddle
    with pytest.raises(errors.StoreError, match="after it was freed") as raised:
        store.clean(record, "stale_slot")
    assert not raised.value.definite


def test_a_fence_keeps_the_nodes_secret_in_the_record_until_it_is_lifted(straight):
    record = arvados_servers.pinged(straight)
    fenced = straight.fence(record)
    assert fenced.info[FENCED_SECRET] == record.ping_secret
    again = straight.fence(fenced)
    assert again.info[FENCED_SECRET] == record.ping_secret
    back = straight.unfence(again, fenced.ping_secret)
    assert back.ping_secret == record.ping_secret
    assert FENCED_SECRET not in back.info
    assert replace(back, version="", modified_at=0) == replace(record, version="", modified_at=0)


def test_a_claim_drops_what_a_late_fence_put_back(registry, straight):
    record = arvados_servers.pinged(straight)
    late = straight.fence(record).info
    free = straight.clean(arvados_servers.read(straight, record), "stale_slot")
    requests.put(
        f"{registry.url}{arvados_servers.NODES}/{record.uuid}",
        json={"info": late},
        headers={"Authorization": f"Bearer {arvados_servers.TOKEN}"},
        timeout=10,
    ).raise_for_status()
    free = arvados_servers.read(straight, free)
    assert free.fenced
    assert free.instance_id == record.instance_id
    claimed = straight.claim(free, claim())
    assert not claimed.fenced
    assert claimed.instance_id is None
    assert claimed.ping_secret not in (None, record.ping_secret)


def test_a_fence_whose_answer_was_lost_is_lifted_by_the_record_as_judged(store, wire):
    record = arvados_servers.pinged(store)
    wire.faults["PUT "] = arvados_servers.swallow
    with pytest.raises(errors.StoreError):
        store.fence(record)
    assert arvados_servers.ping(store, record) == 401
    wire.faults.clear()
    back = store.unfence(record, record.ping_secret)
    assert back is not None
    assert back.ping_secret == record.ping_secret
    assert arvados_servers.ping(store, record) == 200


def test_lifting_a_fence_twice_or_one_that_never_stood_changes_nothing(straight):
    record = arvados_servers.pinged(straight)
    assert straight.unfence(record, record.ping_secret) is None
    assert arvados_servers.read(straight, record) == record
    fenced = straight.fence(record)
    back = straight.unfence(fenced, record.ping_secret)
    assert straight.unfence(fenced, record.ping_secret) is None
    assert arvados_servers.read(straight, record) == back


def test_a_fence_is_lifted_with_all_that_was_written_behind_it(registry, straight):
    record = arvados_servers.pinged(straight)
    fenced = straight.fence(record)
    requests.put(
        f"{registry.url}{arvados_servers.NODES}/{record.uuid}",
        json={"info": {**fenced.info, "note": "by hand"}},
        headers={"Authorization": f"Bearer {arvados_servers.TOKEN}"},
        timeout=10,
    ).raise_for_status()
    back = straight.unfence(fenced, record.ping_secret)
    assert back.info["note"] == "by hand"
    assert arvados_servers.ping(straight, back) == 200


@pytest.mark.parametrize("then", ["cleaned", "claimed"])
def test_no_old_node_is_let_in_again_once_its_record_was_freed(straight, then):
    record = arvados_servers.pinged(straight)
    fenced = straight.fence(record)
    after = straight.clean(fenced, "stale_slot")
    assert FENCED_SECRET not in after.info
    if then == "claimed":
        after = straight.claim(after, claim())
    with pytest.raises(errors.Conflict) as raised:
        straight.unfence(fenced, record.ping_secret)
    assert raised.value.unsent
    assert arvados_servers.read(straight, record) == after
    assert arvados_servers.ping(straight, record) == 401
