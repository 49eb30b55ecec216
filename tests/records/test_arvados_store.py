"""The Arvados adapter over a real socket: our registry's HTTP face behind a wire with faults."""

from __future__ import annotations

import subprocess
import time
import traceback
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from email.utils import formatdate
from pathlib import Path
from typing import Any

import pytest
import requests

from nodemanager.core.model import Claim, Record
from nodemanager.errors import (
    Conflict,
    NoFreeSlot,
    NoSuchRecord,
    StartError,
    StoreError,
    StoreRefused,
)
from nodemanager.records.arvados import FENCED_SECRET, ArvadosRecordStore
from nodemanager.registry.app import build_app
from nodemanager.registry.server import RegistryServer
from tests.contract.stores import claim, open_sql
from tests.records.arvados_servers import (
    TOKEN,
    Reply,
    Wire,
    api,
    cut,
    drip,
    drip_body,
    hang,
    listing,
    node,
    open_store,
    scripted,
    swallow,
    undated,
)

__all__ = ["api", "scripted"]

NODES = "/arvados/v1/nodes"


@pytest.fixture
def registry(tmp_path: Path) -> Iterator[RegistryServer]:
    store = open_sql(f"sqlite:///{tmp_path}/registry.db", 8)
    server = RegistryServer(build_app(store, TOKEN), "127.0.0.1:0")
    server.start()
    yield server
    server.stop()
    store.close()


@pytest.fixture
def wire(registry: RegistryServer) -> Iterator[Wire]:
    with Wire(registry.address) as between:
        yield between


@pytest.fixture
def straight(registry: RegistryServer) -> ArvadosRecordStore:
    """The store with nothing in between."""
    return open_store(registry.url)


@pytest.fixture
def store(wire: Wire) -> ArvadosRecordStore:
    return open_store(wire.url)


def ping(store: ArvadosRecordStore, record: Record, **told: Any) -> int:
    return requests.post(store.ping_url(record), data=told, timeout=10).status_code


def pinged(store: ArvadosRecordStore) -> Record:
    record = store.create(claim())
    assert ping(store, record) == 200
    return read(store, record)


def read(store: ArvadosRecordStore, record: Record) -> Record:
    found = store.read(record.uuid)
    assert found is not None
    return found


# Once, and in time.


@pytest.mark.parametrize("fault", [swallow, cut])
def test_a_create_whose_answer_is_lost_is_sent_once_and_found_when_repeated(
    store, straight, wire, fault
):
    mine = claim(at=time.time())
    wire.faults[f"POST {NODES}"] = fault
    with pytest.raises(StoreError) as raised:
        store.create(mine)
    assert not raised.value.definite
    assert wire.count(f"POST {NODES}") == 1
    wire.faults.clear()
    found = store.create(mine)
    assert found.claim == mine
    assert [item.uuid for item in straight.list_records().items] == [found.uuid]
    assert wire.count(f"POST {NODES}") == 1


def test_a_write_whose_answer_is_lost_is_an_unknown_failure_and_sent_once(store, wire):
    record = store.create(claim())
    wire.faults["PUT "] = swallow
    with pytest.raises(StoreError) as raised:
        store.clean(record, "stale_slot")
    assert not raised.value.definite
    assert wire.count("PUT ") == 1


@pytest.mark.parametrize("fault", [hang, drip, drip_body])
def test_every_call_ends_within_its_time_out(store, wire, fault):
    record = store.create(claim())
    impatient = open_store(wire.url, timeout=0.4)
    assert impatient.read(record.uuid) == record
    wire.faults[f"GET {NODES}"] = fault
    began = time.monotonic()
    with pytest.raises(StoreError, match="no answer in time"):
        impatient.read(record.uuid)
    assert time.monotonic() - began < 2


def test_a_server_that_is_down_is_a_failure_of_every_call(registry, straight):
    record = straight.create(claim())
    registry.stop()
    for call in (
        straight.list_records,
        straight.store_id,
        straight.store_time,
        lambda: straight.read(record.uuid),
        lambda: straight.create(claim()),
        open_store(registry.url).list_records,
    ):
        with pytest.raises(StoreError) as raised:
            call()
        assert not raised.value.definite
    assert not straight.probe()


def test_many_threads_use_one_store(straight):
    with ThreadPoolExecutor(6) as threads:
        made = list(threads.map(lambda _: straight.create(claim()), range(6)))
        again = list(threads.map(lambda record: straight.read(record.uuid), made * 4))
    assert again == made * 4
    assert sorted(record.slot_number or 0 for record in made) == [1, 2, 3, 4, 5, 6]


# Errors.


ERRORS = {"errors": ["it said no"], "error_token": "1+abc"}


@pytest.mark.parametrize(
    ("reply", "kind", "definite", "retry_after"),
    [
        pytest.param(Reply(ERRORS, 401), StoreRefused, True, None, id="401"),
        pytest.param(Reply(b"", 403), StoreRefused, True, None, id="403-without-a-body"),
        pytest.param(Reply(ERRORS, 422), StoreRefused, True, None, id="422"),
        pytest.param(Reply(ERRORS, 404), StoreError, False, None, id="404-of-the-resource"),
        pytest.param(Reply(b"<html>", 404), StoreError, False, None, id="404-of-another-server"),
        pytest.param(Reply(ERRORS, 409), StoreError, False, None, id="409"),
        pytest.param(
            Reply(ERRORS, 429, {"Retry-After": "17"}), StoreError, False, 17.0, id="429-seconds"
        ),
        pytest.param(Reply(ERRORS, 500), StoreError, False, None, id="500"),
        pytest.param(
            Reply(b"sorry", 503, {"Retry-After": "5"}), StoreError, False, 5.0, id="503-no-json"
        ),
        pytest.param(Reply(b"", 204), StoreError, False, None, id="204"),
    ],
)
def test_each_refusal_is_told_by_its_own_kind(api, reply, kind, definite, retry_after):
    api.script = lambda _: reply
    with pytest.raises(StoreError) as raised:
        open_store(api.url).list_records()
    assert type(raised.value) is kind
    assert raised.value.definite == definite
    assert raised.value.retry_after == retry_after
    assert len(api.asked) == 1


def test_a_retry_after_that_is_a_date_is_counted_from_the_answers_own(api):
    later = formatdate(time.time() + 120, usegmt=True)
    api.script = lambda _: Reply(ERRORS, 429, {"Retry-After": later})
    with pytest.raises(StoreError) as raised:
        open_store(api.url).list_records()
    assert raised.value.retry_after == pytest.approx(120, abs=2)


def test_only_the_apis_own_404_says_that_there_is_no_such_record(api):
    store = open_store(api.url)
    api.script = lambda _: Reply(ERRORS, 404)
    assert store.read("zzzzz-7ekkf-000000000000001") is None
    api.script = lambda _: Reply(b"<html>no such page</html>", 404)
    with pytest.raises(StoreError) as raised:
        store.read("zzzzz-7ekkf-000000000000001")
    assert not isinstance(raised.value, NoSuchRecord)


def test_an_answer_about_another_record_is_none(api):
    api.script = lambda _: Reply(node(2))
    with pytest.raises(StoreError):
        open_store(api.url).read("zzzzz-7ekkf-000000000000001")


def test_a_wrong_token_is_told_with_the_option_to_mend(registry):
    with pytest.raises(StoreRefused, match=r"\[Arvados\] token"):
        open_store(registry.url, token="another").list_records()


def test_no_error_shows_a_secret_or_a_query(api, registry):
    secret = "thesecretofthatnode"
    said = f"bad request /ping?ping_secret={secret}&x=1 with Bearer {TOKEN}"
    api.script = lambda _: Reply({"errors": [said]}, 422)
    ghost = Record("zzzzz-7ekkf-000000000000001", "1", ping_secret=secret)
    down = registry.url
    registry.stop()
    for store in (open_store(api.url), open_store(down), open_store(api.url, ca_file="/nowhere")):
        for call in (lambda s=store: s.list_records(), lambda s=store: s.clean(ghost, "x")):
            with pytest.raises(StoreError) as raised:
                call()
            shown = "".join(traceback.format_exception(raised.value))
            assert secret not in shown
            assert TOKEN not in shown
            assert "alt=json" not in str(raised.value)


# Where requests go.


def test_requests_go_to_the_configured_host_whatever_the_document_says(api):
    assert api.document["rootUrl"] == "http://127.0.0.1:1/"
    api.script = listing([node(1)])
    assert len(open_store(api.url).list_records().items) == 1
    assert {asked.token for asked in api.asked} == {f"Bearer {TOKEN}"}


def test_a_redirect_is_not_followed(api, registry):
    api.script = lambda _: Reply(b"", 302, {"Location": registry.url + NODES})
    with pytest.raises(StoreError, match="302"):
        open_store(api.url).list_records()


def test_the_environments_proxy_gets_nothing(straight, monkeypatch):
    for name in ("http_proxy", "https_proxy", "all_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:1")
    assert straight.list_records().complete
    assert straight.probe()


def test_plain_http_is_for_loopback_unless_insecure():
    with pytest.raises(StartError, match="insecure"):
        open_store("http://api.example.org")
    assert open_store("http://api.example.org", insecure=True).slots() == 8
    assert open_store("http://[::1]:8000").slots() == 8


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, str]:
    folder = tmp_path_factory.mktemp("tls")
    cert, key = str(folder / "cert.pem"), str(folder / "key.pem")
    subprocess.run(
        [
            *["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256"],
            *["-nodes", "-days", "2", "-subj", "/CN=localhost"],
            *["-addext", "subjectAltName=IP:127.0.0.1", "-keyout", key, "-out", cert],
        ],
        check=True,
        capture_output=True,
    )
    return cert, key


@pytest.fixture
def secure(tmp_path: Path, certificate: tuple[str, str]) -> Iterator[RegistryServer]:
    behind = open_sql(f"sqlite:///{tmp_path}/secure.db", 8)
    server = RegistryServer(build_app(behind, TOKEN), "127.0.0.1:0", *certificate)
    server.start()
    yield server
    server.stop()
    behind.close()


@pytest.mark.parametrize("how", ["ca_file", "insecure"])
def test_a_self_signed_certificate_is_taken_when_said_so(secure, certificate, how):
    given = {"ca_file": certificate[0]} if how == "ca_file" else {"insecure": True}
    store = open_store(secure.url, **given)
    record = store.create(claim())
    assert store.list_records().items == (record,)
    assert store.ping_url(record).startswith("https://")
    assert store.probe()


def test_a_self_signed_certificate_is_refused_otherwise(secure):
    store = open_store(secure.url)
    for call in (store.list_records, store.store_id):
        with pytest.raises(StoreError, match="certificate"):
            call()
    assert not store.probe()


# Who the server is, and its clock.


def test_an_arvados_cluster_is_known_by_its_uuid_prefix(api):
    assert open_store(api.url).store_id() == "arvados-abcde"
    del api.document["uuidPrefix"]
    with pytest.raises(StoreError, match="uuidPrefix"):
        open_store(api.url).store_id()


def test_a_registry_is_known_by_its_own_id_and_told_from_one_put_in_its_place(api):
    store = open_store(api.url)
    api.document["nodemanagerStoreId"] = "a" * 32
    assert store.store_id() == "a" * 32
    api.document["nodemanagerStoreId"] = "b" * 32
    assert store.store_id() == "b" * 32


@pytest.mark.parametrize(
    "document",
    [
        pytest.param(Reply(b"<html>"), id="html"),
        pytest.param(Reply(ERRORS, 404), id="404"),
        pytest.param(Reply(b"", 503), id="503"),
        pytest.param({"resources": 3}, id="no-resources"),
        pytest.param([1], id="a-list"),
    ],
)
def test_a_server_without_a_discovery_document_is_a_failure(api, document):
    api.document = document
    store = open_store(api.url)
    for call in (store.store_id, store.list_records, lambda: store.read(node(1)["uuid"])):
        with pytest.raises(StoreError) as raised:
            call()
        assert not isinstance(raised.value, NoSuchRecord)


def test_without_a_date_there_is_no_store_time(store, wire):
    wire.faults["GET "] = undated
    with pytest.raises(StoreError, match="Date"):
        store.store_time()


@pytest.mark.parametrize(
    ("reply", "answered"),
    [
        pytest.param(Reply(ERRORS, 404), True, id="no-such-record"),
        pytest.param(Reply(b"not found", 404), False, id="a-proxys-404"),
        pytest.param(Reply(ERRORS, 503), False, id="503"),
        pytest.param(Reply(ERRORS, 429), False, id="429"),
        pytest.param(Reply(b"{}", 200), False, id="a-captive-portal"),
    ],
)
def test_only_the_apis_404_answers_the_probe_and_it_bears_no_token(api, reply, answered):
    api.script = lambda _: reply
    store = open_store("https://127.0.0.1:1", ping_url=api.url)
    assert store.probe() == answered
    assert [asked.method for asked in api.asked] == ["POST"]
    assert api.asked[0].token is None


def test_the_ping_url_is_the_nodes_own_address_of_the_server(straight):
    record = straight.create(claim())
    other = open_store("http://127.0.0.1:1", ping_url="https://nodes.example.org:8443")
    url = other.ping_url(record)
    assert url.startswith(f"https://nodes.example.org:8443{NODES}/{record.uuid}/ping?ping_secret=")


# Versions.


def test_a_version_is_the_same_in_a_listing_and_read_alone_and_moves_with_a_ping(straight):
    record = straight.create(claim())
    (listed,) = straight.list_records().items
    assert listed == record == read(straight, record)
    seen = {record.version}
    for _ in range(3):
        assert ping(straight, record) == 200
        seen.add(read(straight, record).version)
    assert len(seen) == 4


@pytest.mark.parametrize(
    "changed",
    [
        pytest.param({"slot_number": 0}, id="slot_number"),
        pytest.param({"hostname": "compute9"}, id="hostname"),
        pytest.param({"ip_address": "10.0.0.1"}, id="ip_address"),
        pytest.param({"first_ping_at": "2020-01-31T23:59:59.000000001Z"}, id="first_ping_at"),
        pytest.param({"last_ping_at": "2020-01-31T23:59:59.000000001Z"}, id="last_ping_at"),
        pytest.param({"modified_at": "2020-01-31T23:59:59.000000001Z"}, id="modified_at"),
        pytest.param({"properties": {"a": 1}}, id="properties"),
        pytest.param({"info": {"ping_secret": "x"}}, id="info"),
    ],
)
def test_a_version_moves_with_every_field_and_not_with_time(api, changed):
    store = open_store(api.url)
    told = {"status": "running", "etag": "1"}
    api.script = lambda _: Reply(node(1, **told))
    before = store.read(node(1)["uuid"])
    told = {"status": "missing", "etag": "2"}
    assert store.read(node(1)["uuid"]) == before
    api.script = lambda _: Reply(node(1, **changed))
    assert store.read(node(1)["uuid"]).version != before.version


# Claims, cleans, fences.


def cleaned(store: ArvadosRecordStore) -> Record:
    return store.clean(store.create(claim()), "stale_slot")


def test_a_claim_that_another_overwrites_is_a_conflict(store, straight, wire):
    free = cleaned(store)
    theirs = claim()

    def meddle() -> None:
        now = read(straight, free)
        requests.put(
            f"{wire.url}{NODES}/{free.uuid}",
            json={"properties": {**now.properties, **_claim_of(theirs)}},
            headers={"Authorization": f"Bearer {TOKEN}"},
            timeout=10,
        ).raise_for_status()

    wire.after["PUT "] = meddle
    with pytest.raises(Conflict):
        store.claim(free, claim())
    assert read(straight, free).claim == theirs


def _claim_of(mine: Claim) -> dict[str, Any]:
    keys = ("pool", "manager", "token", "at", "node_name", "incarnation")
    return {"nodemanager_claim": {key: getattr(mine, key) for key in keys}}


def test_a_full_store_leaves_no_half_made_record_or_claim(store, straight, wire):
    free = cleaned(store)
    for _ in range(8):
        store.create(claim())
    with pytest.raises(NoFreeSlot):
        store.create(claim(at=time.time()))
    with pytest.raises(NoFreeSlot):
        store.claim(free, claim())
    assert len(straight.list_records().items) == 9
    after = read(straight, free)
    assert not after.holds_anything
    assert after.ping_secret == free.ping_secret


def test_a_create_found_again_without_its_slot_is_given_one(registry, straight):
    mine = claim()
    properties = {"nodemanager_pool": "main", **_claim_of(mine)}
    made = requests.post(
        registry.url + NODES,
        json={"node": {"properties": properties}},
        headers={"Authorization": f"Bearer {TOKEN}"},
        timeout=10,
    ).json()
    assert made["slot_number"] is None
    record = straight.create(mine)
    assert (record.uuid, record.slot_number) == (made["uuid"], 1)


def test_a_create_is_not_sent_when_an_earlier_one_cannot_be_looked_for(api):
    api.script = lambda _: Reply({"items": [{"info": {}}]})
    with pytest.raises(StoreError, match="made before"):
        open_store(api.url).create(claim())
    assert {asked.method for asked in api.asked} == {"GET"}


def test_a_ping_between_the_clean_and_the_look_after_it_is_told(store, straight, wire):
    record = pinged(store)

    def meddle() -> None:
        now = read(straight, record)
        assert ping(straight, now) == 200

    wire.after["PUT "] = meddle
    with pytest.raises(StoreError, match="after it was freed") as raised:
        store.clean(record, "stale_slot")
    assert not raised.value.definite


def test_a_fence_keeps_the_nodes_secret_in_the_record_until_it_is_lifted(straight):
    record = pinged(straight)
    fenced = straight.fence(record)
    assert fenced.info[FENCED_SECRET] == record.ping_secret
    again = straight.fence(fenced)
    assert again.info[FENCED_SECRET] == record.ping_secret
    back = straight.unfence(again, fenced.ping_secret)
    assert back.ping_secret == record.ping_secret
    assert FENCED_SECRET not in back.info
    assert replace(back, version="", modified_at=0) == replace(record, version="", modified_at=0)


def test_a_fence_whose_answer_was_lost_is_lifted_by_the_record_as_judged(store, wire):
    record = pinged(store)
    wire.faults["PUT "] = swallow
    with pytest.raises(StoreError):
        store.fence(record)
    assert ping(store, record) == 401
    wire.faults.clear()
    assert store.unfence(record, record.ping_secret).ping_secret == record.ping_secret
    assert ping(store, record) == 200


def test_lifting_a_fence_twice_or_one_that_never_stood_changes_nothing(straight):
    record = pinged(straight)
    assert straight.unfence(record, record.ping_secret) == record
    fenced = straight.fence(record)
    back = straight.unfence(fenced, record.ping_secret)
    assert straight.unfence(fenced, record.ping_secret) == back


def test_a_fence_is_lifted_with_all_that_was_written_behind_it(registry, straight):
    record = pinged(straight)
    fenced = straight.fence(record)
    requests.put(
        f"{registry.url}{NODES}/{record.uuid}",
        json={"info": {**fenced.info, "note": "by hand"}},
        headers={"Authorization": f"Bearer {TOKEN}"},
        timeout=10,
    ).raise_for_status()
    back = straight.unfence(fenced, record.ping_secret)
    assert back.info["note"] == "by hand"
    assert ping(straight, back) == 200


@pytest.mark.parametrize("then", ["cleaned", "claimed"])
def test_no_old_node_is_let_in_again_once_its_record_was_freed(straight, then):
    record = pinged(straight)
    fenced = straight.fence(record)
    after = straight.clean(fenced, "stale_slot")
    assert FENCED_SECRET not in after.info
    if then == "claimed":
        after = straight.claim(after, claim())
    with pytest.raises(Conflict):
        straight.unfence(fenced, record.ping_secret)
    assert read(straight, record) == after
    assert ping(straight, record) == 401
