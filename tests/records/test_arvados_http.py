"""How the Arvados adapter asks: once, in time, of the configured host; and what refusals mean."""

from __future__ import annotations

import time
import traceback
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from email.utils import formatdate
from pathlib import Path

import pytest

from nodemanager import errors
from nodemanager.core.model.world import Record
from nodemanager.httpserver.server import HttpServer
from nodemanager.registry.app import build_app, registry_server
from tests.cases import cases
from tests.contract.stores import claim, open_sql
from tests.records.arvados_servers import (
    ERRORS,
    NODES,
    TOKEN,
    Reply,
    cut,
    drip,
    drip_body,
    hang,
    listing,
    node,
    open_store,
    swallow,
)


@pytest.mark.parametrize("fault", [swallow, cut])
def test_a_create_whose_answer_is_lost_is_sent_once_and_found_when_repeated(
    store, straight, wire, fault
):
    mine = claim(at=time.time())
    wire.faults[f"POST {NODES}"] = fault
    with pytest.raises(errors.StoreError) as raised:
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
    with pytest.raises(errors.StoreError) as raised:
        store.clean(record, "stale_slot")
    assert not raised.value.definite
    assert wire.count("PUT ") == 1


@pytest.mark.parametrize("write", ["clean", "fence", "unfence", "claim"])
@pytest.mark.parametrize(
    ("method", "unsent"), [("GET ", True), ("PUT ", False)], ids=["before-it", "in-it"]
)
def test_an_error_says_whether_a_write_may_still_come_late(store, wire, method, unsent, write):
    mine = claim(at=time.time())
    record = store.create(mine)
    secret = record.ping_secret
    if write == "unfence":
        record = store.fence(record)
    wire.faults[method] = swallow
    calls = {
        "clean": lambda: store.clean(record, "stale_slot"),
        "fence": lambda: store.fence(record),
        "unfence": lambda: store.unfence(record, secret),
        "claim": lambda: store.claim(record, mine),
    }
    with pytest.raises(errors.StoreError) as raised:
        calls[write]()
    assert (raised.value.definite, raised.value.unsent) == (False, unsent)


@pytest.mark.parametrize("fault", [hang, drip, drip_body])
def test_every_call_ends_within_its_time_out(store, wire, fault):
    record = store.create(claim())
    impatient = open_store(wire.url, timeout=0.4)
    assert impatient.read(record.uuid) == record
    wire.faults[f"GET {NODES}"] = fault
    began = time.monotonic()
    with pytest.raises(errors.StoreError, match="no answer in time"):
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
        with pytest.raises(errors.StoreError) as raised:
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


@cases(
    ("reply", "kind", "definite", "retry_after"),
    {
        "401": (Reply(ERRORS, 401), errors.StoreRefused, True, None),
        "403-without-a-body": (Reply(b"", 403), errors.StoreRefused, True, None),
        "422": (Reply(ERRORS, 422), errors.StoreRefused, True, None),
        "404-of-the-resource": (Reply(ERRORS, 404), errors.StoreError, False, None),
        "404-of-another-server": (Reply(b"<html>", 404), errors.StoreError, False, None),
        "409": (Reply(ERRORS, 409), errors.StoreError, False, None),
        "429-seconds": (Reply(ERRORS, 429, {"Retry-After": "17"}), errors.StoreError, False, 17.0),
        "500": (Reply(ERRORS, 500), errors.StoreError, False, None),
        "503-no-json": (Reply(b"sorry", 503, {"Retry-After": "5"}), errors.StoreError, False, 5.0),
        "204": (Reply(b"", 204), errors.StoreError, False, None),
    },
)
def test_each_refusal_is_told_by_its_own_kind(api, reply, kind, definite, retry_after):
    api.script = lambda _: reply
    with pytest.raises(errors.StoreError) as raised:
        open_store(api.url).list_records()
    assert type(raised.value) is kind
    assert raised.value.definite == definite
    assert raised.value.retry_after == retry_after
    assert len(api.asked) == 1


def test_a_retry_after_that_is_a_date_is_counted_from_the_answers_own(api):
    later = formatdate(time.time() + 120, usegmt=True)
    api.script = lambda _: Reply(ERRORS, 429, {"Retry-After": later})
    with pytest.raises(errors.StoreError) as raised:
        open_store(api.url).list_records()
    assert raised.value.retry_after == pytest.approx(120, abs=2)


def test_only_the_apis_own_404_says_that_there_is_no_such_record(api):
    store = open_store(api.url)
    api.script = lambda _: Reply(ERRORS, 404)
    assert store.read("zzzzz-7ekkf-000000000000001") is None
    api.script = lambda _: Reply(b"<html>no such page</html>", 404)
    with pytest.raises(errors.StoreError) as raised:
        store.read("zzzzz-7ekkf-000000000000001")
    assert not isinstance(raised.value, errors.NoSuchRecord)


def test_an_answer_about_another_record_is_none(api):
    api.script = lambda _: Reply(node(2))
    with pytest.raises(errors.StoreError):
        open_store(api.url).read("zzzzz-7ekkf-000000000000001")


def test_a_wrong_token_is_told_with_the_option_to_mend(registry):
    with pytest.raises(errors.StoreRefused, match=r"\[Arvados\] token"):
        open_store(registry.url, token="another").list_records()


def test_a_rotated_token_is_sent_by_every_thread_from_its_next_call_on(tmp_path):
    app = build_app(open_sql(f"sqlite:///{tmp_path}/rotated.db", 8), TOKEN)
    server = registry_server(app)
    server.start()
    store = open_store(server.url)
    with ThreadPoolExecutor(1) as other:
        for list_records in (store.list_records, other.submit(store.list_records).result):
            assert list_records().complete
        app.renew("the-next-one")
        with pytest.raises(errors.StoreRefused, match=r"\[Arvados\] token"):
            store.list_records()
        store.renew("the-next-one")
        assert store.list_records().complete
        assert other.submit(store.list_records).result().complete
    server.stop()


def test_no_error_shows_a_secret_or_a_query(api, registry):
    secret = "thesecretofthatnode"
    said = f"bad request /ping?ping_secret={secret}&x=1 with Bearer {TOKEN}"
    api.script = lambda _: Reply({"errors": [said]}, 422)
    ghost = Record("zzzzz-7ekkf-000000000000001", "1", ping_secret=secret)
    down = registry.url
    registry.stop()
    for one in (open_store(api.url), open_store(down)):
        for call in (one.list_records, lambda one=one: one.clean(ghost, "stale_slot")):
            with pytest.raises(errors.StoreError) as raised:
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
    with pytest.raises(errors.StoreError, match="302"):
        open_store(api.url).list_records()


def test_the_environments_proxy_gets_nothing(straight, monkeypatch):
    for name in ("http_proxy", "https_proxy", "all_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:1")
    assert straight.list_records().complete
    assert straight.probe()


def test_plain_http_is_for_loopback_unless_insecure():
    with pytest.raises(errors.StartError, match="insecure"):
        open_store("http://api.example.org")
    assert open_store("http://api.example.org", insecure=True).slots() == 8
    assert open_store("http://[::1]:8000").slots() == 8


@pytest.fixture
def secure(tmp_path: Path, certificate: tuple[str, str]) -> Iterator[HttpServer]:
    behind = open_sql(f"sqlite:///{tmp_path}/secure.db", 8)
    server = registry_server(build_app(behind, TOKEN), "127.0.0.1", 0, *certificate)
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
        with pytest.raises(errors.StoreError, match="certificate"):
            call()
    assert not store.probe()
