"""Whatever a client sends, the answer has the contract's error shape, and no secret leaks."""

from __future__ import annotations

import gc
import json
import logging
import socket
import sqlite3

import mock
import pytest
import requests

from nodemanager.core.model.reasons import Reason
from nodemanager.errors import StartError, StoreError
from nodemanager.lib import log
from nodemanager.records import rows
from nodemanager.records.resource import NodesResource
from nodemanager.registry.app import build_app
from nodemanager.registry.door import MAX_BODY
from tests.cases import cases

NODES = "/arvados/v1/nodes"
NOBODY = f"{NODES}/zzzzz-7ekkf-000000000000000"


JSON_TYPE = {"Content-Type": "application/json"}
FORM_TYPE = {"Content-Type": "application/x-www-form-urlencoded"}


def asked_for(registry, asked):
    """A list query that is too long for a URL."""
    return registry.call("POST", NODES, data=asked, headers={"X-HTTP-Method-Override": "GET"})


def assert_refused(answer: requests.Response, *statuses: int) -> None:
    assert answer.status_code in statuses, answer.text
    assert set(answer.json()) == {"errors", "error_token"}
    assert "Traceback" not in answer.text


@cases(
    "body",
    {
        "cut-off": b"{",
        "a-list": b"[1]",
        "a-text": b'"text"',
        "node-is-a-list": b'{"node": [1]}',
        "node-is-cut-off": b'{"node": "{"}',
        "not-a-number": b'{"info": {"a": NaN}}',
        "infinite": b'{"info": {"a": 1e999}}',
        "not-utf-8": b"\xff\xfe",
        "bottomless": b'{"a":' * 50_000,
        "endless-number": b'{"info": {"a": ' + b"9" * 5000 + b"}}",
        "unknown-attribute": b'{"colour": "red"}',
        "slot-as-text": b'{"slot_number": "1"}',
        "slot-as-flag": b'{"slot_number": true}',
        "slot-below-0": b'{"slot_number": -1}',
        "slot-beyond-bounds": b'{"slot_number": 99999999999999999999}',
        "hostname-no-text": b'{"hostname": 3}',
        "hostname-with-nul": b'{"hostname": "a\\u0000b"}',
        "hostname-half-a-letter": b'{"hostname": "\\ud800"}',
        "hostname-too-long": b'{"hostname": "' + b"a" * 300 + b'"}',
        "no-address": b'{"ip_address": "here"}',
        "no-time": b'{"last_ping_at": "now"}',
        "time-as-number": b'{"last_ping_at": 1700000000}',
        "properties-no-object": b'{"properties": [1]}',
        "info-no-object": b'{"info": "text"}',
        "secret-no-text": b'{"info": {"ping_secret": 3}}',
        "no-uuid": b'{"uuid": "x"}',
        "anothers-uuid": b'{"uuid": "other-7ekkf-000000000000001"}',
    },
)
def test_a_malformed_body_is_refused_and_changes_nothing(registry, body):
    record = registry.claimed()
    for verb, path in [("POST", NODES), ("PUT", f"{NODES}/{record.uuid}")]:
        answer = registry.call(verb, path, data=body, headers=JSON_TYPE)
        assert_refused(answer, 400, 422)
    assert registry.store.list_records().items == (record,)


@pytest.mark.parametrize(
    "asked",
    [
        {"filters": "["},
        {"filters": "{}"},
        {"filters": '[["uuid","="]]'},
        {"filters": '[["colour","=","red"]]'},
        {"filters": '[["info","=","x"]]'},
        {"filters": '[[3,"=","x"]]'},
        {"filters": '[["uuid","~","x"]]'},
        {"filters": '[["uuid",3,"x"]]'},
        {"filters": '[["uuid","=",3]]'},
        {"filters": '[["uuid","<",null]]'},
        {"filters": '[["uuid","in","x"]]'},
        {"filters": '[["uuid","like","x\\\\"]]'},
        {"filters": '[["hostname","=","\\u0000"]]'},
        {"filters": '[["slot_number","=","x"]]'},
        {"filters": '[["slot_number","=",99999999999]]'},
        {"filters": '[["slot_number","like","1"]]'},
        {"filters": '[["modified_at",">","yesterday"]]'},
        {"filters": json.dumps([["uuid", "=", "x"]] * 101)},
        {"filters": json.dumps([["uuid", "in", ["x"] * 5001]] * 2)},
        {"filters": json.dumps([["uuid", "in", ["x"] * 70_000]])},
        {"filters": json.dumps([["hostname", "like", "%a" * 20_000]])},
        {"filters": '[["modified_at","<","9999-12-31T23:59:59Z"]]'},
        {"filters": '[["modified_at",">","0001-01-01T00:00:00Z"]]'},
        {"filters": '[["first_ping_at","in",["2263-01-01T00:00:00Z"]]]'},
        {"order": '["colour"]'},
        {"order": "uuid sideways"},
        {"order": "[3]"},
        {"order": "uuid; drop table nodes"},
        {"limit": "many"},
        {"limit": "-1"},
        {"limit": "9" * 40},
        {"offset": "-1"},
        {"select": '["colour"]'},
        {"select": '"uuid"'},
        {"count": "roughly"},
    ],
    ids=lambda asked: json.dumps(asked)[:60],
)
def test_a_list_that_cant_be_understood_is_refused_never_answered_in_part(registry, asked):
    registry.claimed()
    assert_refused(asked_for(registry, asked), 400, 422)


def test_a_list_query_at_its_limits_is_answered(registry):
    filters = [["uuid", "in", ["x"] * 9900], *[["uuid", "!=", "x"]] * 99]
    answer = asked_for(registry, {"filters": json.dumps(filters)})
    assert answer.status_code == 200
    assert answer.json()["items"] == []


@pytest.mark.parametrize(
    "attributes",
    [
        {"first_ping_at": "9999-12-31T23:59:59Z"},
        {"last_ping_at": "0001-01-01T00:00:00Z"},
        {"last_ping_at": "1969-12-31T23:59:59Z"},
        {"first_ping_at": "2263-01-01T00:00:00Z"},
        {"ip_address": "fe80::1%<b>"},
    ],
    ids=str,
)
def test_what_no_record_can_have_is_refused(registry, attributes):
    record = registry.claimed()
    answer = registry.call("PUT", f"{NODES}/{record.uuid}", json={"node": attributes})
    assert_refused(answer, 422)
    assert registry.store.read(record.uuid) == record


@pytest.mark.parametrize(
    "told",
    [
        {"worker_state": "a\nb"},
        {"local_ipv4": "over there"},
        {"local_ipv4": "fe80::1%<img src=x onerror=alert(1)>"},
        {"local_ipv4": "fe80::1%eth0"},
        {"ping_secret": "x" * 300},
    ],
    ids=lambda told: next(iter(told)),
)
def test_a_ping_that_tells_nonsense_is_refused_and_changes_nothing(registry, told):
    record = registry.claimed()
    told = {"ping_secret": record.ping_secret} | told
    answer = requests.post(registry.ping_url(record), told, timeout=10)
    assert_refused(answer, 422)
    assert registry.store.read(record.uuid) == record


def test_an_oversized_body_is_refused(registry):
    big = b'{"info": {"a": "' + b"x" * MAX_BODY + b'"}}'
    refused = registry.call("POST", NODES, data=big, headers=JSON_TYPE)
    assert (refused.status_code, refused.json()["errors"]) == (413, ["Request Entity Too Large"])

    def pieces():
        for start in range(0, len(big), 65536):
            yield big[start : start + 65536]

    assert_refused(registry.call("POST", NODES, data=pieces(), headers=JSON_TYPE), 413)
    assert registry.store.list_records().items == ()


@pytest.mark.parametrize("way", ["form", "json", "chunks", "query"])
def test_a_ping_is_small_and_a_larger_one_is_refused_unread(registry, way):
    """Its sender is not known before it is read, and no other ping is answered meanwhile."""
    record = registry.claimed()
    url = registry.ping_url(record)
    form = f"ping_secret={record.ping_secret}&x=".encode()
    big = form + b"%41" * 3000
    kinds = {
        "form": {"data": big},
        "json": {"data": json.dumps({"x": [{}] * 9000}), "headers": JSON_TYPE},
        "chunks": {"data": iter([big[:1000], big[1000:]])},
        "query": {"params": form + b"a" * 9000},
    }
    typed = {"headers": FORM_TYPE} | kinds[way]
    assert requests.post(url, timeout=10, **typed).status_code == (414 if way == "query" else 413)
    assert registry.store.read(record.uuid) == record
    small = requests.post(url, data=form + b"%41" * 2000, headers=FORM_TYPE, timeout=10)
    assert small.status_code == 200


def test_a_body_in_chunks_is_read_whole(registry):
    answer = registry.call(
        "POST",
        NODES,
        data=iter([b'{"host', b'name": "h"}']),
        headers=JSON_TYPE,
    )
    assert answer.status_code == 200
    assert answer.json()["hostname"] == "h"


def test_a_body_of_another_type_is_refused(registry):
    answer = registry.call("POST", NODES, data="a: 1", headers={"Content-Type": "text/yaml"})
    assert_refused(answer, 415)


def test_a_uuid_that_is_taken_is_refused(registry):
    record = registry.claimed()
    assert_refused(registry.call("POST", NODES, json={"uuid": record.uuid}), 422)
    other = registry.call("POST", NODES, json={"uuid": "zzzzz-7ekkf-000000000000001"})
    assert other.json()["uuid"] == "zzzzz-7ekkf-000000000000001"
    changed = {"uuid": "zzzzz-7ekkf-000000000000002"}
    assert_refused(registry.call("PUT", f"{NODES}/{record.uuid}", json=changed), 422)


@pytest.mark.parametrize(
    ("verb", "path", "status"),
    [
        ("GET", NOBODY, 404),
        ("PUT", NOBODY, 404),
        ("DELETE", NOBODY, 404),
        ("GET", f"{NODES}/nonsense", 404),
        ("GET", f"{NODES}/%00", 404),
        ("GET", "/arvados/v1/jobs", 404),
        ("GET", "/", 404),
        ("DELETE", NODES, 405),
        ("GET", f"{NOBODY}/ping", 405),
    ],
)
def test_what_is_not_there_is_said_in_the_contracts_shape(registry, verb, path, status):
    assert_refused(registry.call(verb, path), status)


def test_a_row_that_nobody_can_read_is_shown_beside_the_others(registry):
    bad, good = registry.claimed(), registry.call("POST", NODES, json={}).json()
    with sqlite3.connect(registry.path) as connection:
        connection.execute(
            "UPDATE nodes SET info = '[NaN', properties = '3', slot_number = 'x', created_at = 'y',"
            " modified_at = 9e18, last_ping_at = -99999999999999999 WHERE uuid = ?",
            (bad.uuid,),
        )
    answer = registry.call("GET", NODES)
    assert answer.status_code == 200
    items = {item["uuid"]: item for item in answer.json()["items"]}
    assert items[good["uuid"]] == good
    assert items[bad.uuid]["slot_number"] == "x"
    told = {"ping_secret": bad.ping_secret}
    assert_refused(requests.post(registry.ping_url(bad), told, timeout=10), 401)


@pytest.mark.parametrize(
    "said", [{"ping_secret": "guessed"}, {"ping_secret": "a\nb"}, {}], ids=["wrong", "odd", "none"]
)
def test_a_refused_ping_leaves_nothing_for_the_collector(registry, said):
    """The daemon collects seldom, and anybody may send such pings."""
    record = registry.claimed()
    url = registry.ping_url(record)
    first = {"ping_secret": record.ping_secret}
    with requests.Session() as session:
        assert session.post(url, data=first, timeout=10).status_code == 200
        statuses = {session.post(url, data=said, timeout=10).status_code for _ in range(3)}
        # What another thread of this process leaves comes once, what such a ping leaves each time.
        left = []
        for _ in range(3):
            gc.collect()
            gc.disable()
            try:
                statuses |= {
                    session.post(url, data=said, timeout=10).status_code for _ in range(50)
                }
                left.append(gc.collect())
            finally:
                gc.enable()
    assert statuses in ({401}, {422})
    assert min(left) < 50


def test_a_database_that_cant_write_is_503_and_no_answer_to_a_probe_of_it(registry):
    with registry.locked():
        answer = registry.call("POST", NODES, json={})
        assert_refused(answer, 503)
        assert "locked" not in answer.text
        assert int(answer.headers["Retry-After"]) > 0
        assert registry.call("GET", NODES).status_code == 200
        assert not registry.store.probe()


@pytest.mark.parametrize("error", [StoreError, OverflowError, UnicodeError, ValueError])
def test_no_answer_quotes_the_database_and_no_flood_of_them_fills_the_log(registry, caplog, error):
    """It may name its host, or quote a row with the secret of another node's pings."""
    record = registry.claimed()
    said = error("host db7.internal row s3cret")
    failing = mock.create_autospec(rows.find_unlocked, side_effect=said)
    alone = mock.create_autospec(rows.find, side_effect=said)
    url = registry.ping_url(record)
    with mock.patch.object(rows, "find_unlocked", failing), mock.patch.object(rows, "find", alone):
        answers = [requests.post(url, {"ping_secret": "x"}, timeout=10) for _ in range(20)]
    for answer in answers:
        assert_refused(answer, 500 if error is ValueError else 503)
        assert "db7.internal" not in answer.text
        assert "s3cret" not in answer.text
    lines = [one for one in caplog.records if record.uuid in one.getMessage()]
    assert len(lines) == 1


def test_an_unexpected_error_is_500_without_its_text(registry, caplog):
    boom = mock.create_autospec(NodesResource.list, side_effect=RuntimeError("s3cret text"))
    with mock.patch.object(NodesResource, "list", boom):
        answer = registry.call("GET", NODES)
    assert_refused(answer, 500)
    assert "s3cret text" not in answer.text
    assert answer.json()["error_token"] in caplog.text


def test_no_query_no_secret_and_no_token_is_ever_logged(registry, caplog, capfd):
    caplog.set_level(logging.DEBUG)
    logging.getLogger("urllib3").setLevel(logging.WARNING)
    record = registry.claimed()
    url = registry.store.ping_url(record)
    assert requests.post(url, timeout=10).status_code == 200
    assert requests.post(url + "x", timeout=10).status_code == 401
    assert requests.post(url + "&local_ipv4=nonsense", timeout=10).status_code == 200
    assert requests.post(url + "&worker_state=%00", timeout=10).status_code == 422
    with registry.locked():
        assert requests.post(url, timeout=10).status_code == 503
    boom = mock.create_autospec(NodesResource.ping_all, side_effect=RuntimeError("broken"))
    with mock.patch.object(NodesResource, "ping_all", boom):
        assert requests.post(url, timeout=10).status_code == 500
    assert record.uuid in caplog.text
    printed = capfd.readouterr()
    for text in (caplog.text, printed.out, printed.err):
        assert record.ping_secret not in text
        assert "ping_secret=" not in text
        assert "tok3n" not in text


@cases(
    "sent",
    {
        "no-http": b"nonsense\r\n\r\n",
        "header": b"GET / HTTP/1.1\r\nHost: x\r\nX: " + b"y" * 70_000 + b"\r\n\r\n",
        "length": b"POST /arvados/v1/nodes HTTP/1.1\r\nHost: x\r\nContent-Length: -1\r\n\r\n",
        "path": b"GET /\xff HTTP/1.1\r\nHost: x\r\n\r\n",
    },
)
def test_what_is_hardly_http_gets_a_4xx_and_the_server_lives_on(registry, sent):
    with socket.create_connection(
        (registry.server.address, registry.server.port), timeout=10
    ) as connection:
        connection.sendall(sent)
        status = connection.recv(65536).split(b" ")[1]
    assert status.startswith(b"4")
    assert registry.store.probe()


@pytest.mark.parametrize("token", ["", "two words", "gr\u00fc\u00df", "line\n"])
def test_a_token_that_cant_be_sent_is_refused_at_the_start(registry, token):
    with pytest.raises(StartError, match="token"):
        build_app(registry.store, token)


def test_wrong_tokens_and_secrets_are_counted_and_logged_now_and_then_x14(registry, caplog):
    """Who tries tokens, or the secrets of a node, is seen."""
    record = registry.claimed()
    url = f"{registry.server.url}{NODES}"
    with caplog.at_level(logging.WARNING, logger="nodemanager"):
        for _ in range(5):
            wrong = {"Authorization": "Bearer guessed-token"}
            assert requests.get(url, headers=wrong, timeout=10).status_code == 401
        assert requests.get(url, timeout=10).status_code == 401
        for _ in range(3):
            told = {"ping_secret": "guessed-secret"}
            assert requests.post(f"{url}/{record.uuid}/ping", told, timeout=10).status_code == 401
    counts = {reason: count for reason, count in registry.refusals.counts().items() if count}
    assert counts == {Reason.WRONG_TOKEN: 5, Reason.NO_TOKEN: 1, Reason.WRONG_SECRET: 3}
    lines = [log.fields_of(one) for one in caplog.records]
    assert [(line["reason"], line["address"], line["record"]) for line in lines] == [
        (Reason.WRONG_TOKEN, "127.0.0.1", None),
        (Reason.NO_TOKEN, "127.0.0.1", None),
        (Reason.WRONG_SECRET, "127.0.0.1", record.uuid),
    ]
    assert "guessed" not in caplog.text
