"""Records that a client, or somebody with the file, made unfit: each concerns itself alone."""

from __future__ import annotations

import json
import sqlite3
from typing import Any

import pytest

from nodemanager.journal.codec import dump
from nodemanager.lib.foreign import DEEPEST
from nodemanager.records import wire
from tests.registry.conftest import Registry

pytestmark = pytest.mark.socket


def nested(depth: int) -> Any:
    value: Any = 1
    for _ in range(depth):
        value = {"a": value}
    return value


def put(registry: Registry, uuid: str, column: str, text: bytes) -> None:
    """Write a column by hand, as somebody with the file can."""
    with sqlite3.connect(registry.path) as connection:
        given = f"UPDATE nodes SET {column} = CAST(? AS TEXT) WHERE uuid = ?"
        connection.execute(given, (text, uuid))


def ping(registry: Registry, record: Any, **more: str) -> int:
    form = {"ping_secret": record.ping_secret, **more}
    answer = registry.call("POST", f"/arvados/v1/nodes/{record.uuid}/ping", data=form)
    return answer.status_code


@pytest.mark.parametrize("depth", [DEEPEST + 1, 500, 20_000])
@pytest.mark.parametrize("field", ["properties", "info"])
def test_what_is_nested_too_deep_is_refused(registry: Registry, field: str, depth: int) -> None:
    record = registry.claimed()
    deep = '{"a":' * depth + "1" + "}" * depth
    answer = registry.call(
        "PUT",
        f"/arvados/v1/nodes/{record.uuid}",
        data=f'{{"node": {{"{field}": {deep}}}}}',
        headers={"Content-Type": "application/json"},
    )
    assert answer.status_code in (400, 422)
    assert registry.store.read(record.uuid) == record


def test_what_is_as_deep_as_allowed_is_kept(registry: Registry) -> None:
    record = registry.claimed()
    body = {"node": {"properties": {**record.properties, "a": nested(DEEPEST - 4)}}}
    answer = registry.call("PUT", f"/arvados/v1/nodes/{record.uuid}", json=body)
    assert answer.status_code == 200
    known = registry.store.read(record.uuid)
    assert known is not None
    assert known.problems == ()
    assert dump(known)


HOSTILE = {
    "deep": json.dumps(nested(500)).encode(),
    "too-deep-to-read": b'{"a":' * 20_000 + b"1" + b"}" * 20_000,
    "not-utf-8": b'{"ping_secret": "\xff\xfe secret"}',
    "no-json": b"{",
    "nan": b'{"a": NaN}',
}


@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE.keys())
@pytest.mark.parametrize("column", ["properties", "info"])
def test_an_unfit_row_is_unreadable_and_kept_and_hides_no_other(
    registry: Registry, column: str, text: bytes
) -> None:
    """T7: whoever judges it keeps it. The others are listed, and their pings answered."""
    spoilt, sound = registry.claimed(), registry.claimed()
    put(registry, spoilt.uuid, column, text)
    listed = registry.store.list_records()
    assert listed.complete
    found = {one.uuid: one for one in listed.items}
    assert found[sound.uuid] == sound
    assert [line.partition(" ")[0] for line in found[spoilt.uuid].problems] == [column]
    assert dump(found[spoilt.uuid])
    assert registry.call("GET", "/arvados/v1/nodes").json()["items_available"] == 2
    assert ping(registry, sound) == 200
    assert registry.call("GET", f"/arvados/v1/nodes/{spoilt.uuid}").status_code == 200


@pytest.mark.parametrize("column", ["hostname", "ip_address", "domain"])
def test_a_byte_that_is_no_utf_8_makes_its_row_unreadable(registry: Registry, column: str) -> None:
    spoilt, sound = registry.claimed(), registry.claimed()
    put(registry, spoilt.uuid, column, b"caf\xe9")
    found = {one.uuid: one for one in registry.store.list_records().items}
    assert found[sound.uuid] == sound
    assert bool(found[spoilt.uuid].problems) is (column != "domain")
    assert registry.call("GET", "/arvados/v1/nodes").json()["items_available"] == 2


def test_no_answer_quotes_a_row_that_can_not_be_read(registry: Registry) -> None:
    """A ping without the secret must not be told it."""
    record = registry.claimed()
    assert record.ping_secret is not None
    info = json.dumps({wire.PING_SECRET: record.ping_secret}).encode()
    put(registry, record.uuid, "info", info + b"\xff")
    answer = registry.call(
        "POST", f"/arvados/v1/nodes/{record.uuid}/ping", data={"ping_secret": "wrong"}
    )
    assert answer.status_code == 401
    assert record.ping_secret not in answer.text


def test_half_a_surrogate_pair_is_refused(registry: Registry) -> None:
    record = registry.claimed()
    for body in ('{"node": {"properties": {"a": "\\ud800"}}}', '{"node": {"hostname": "\\udfff"}}'):
        answer = registry.call(
            "PUT",
            f"/arvados/v1/nodes/{record.uuid}",
            data=body,
            headers={"Content-Type": "application/json"},
        )
        assert answer.status_code == 400
