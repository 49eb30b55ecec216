"""A ping past falcon is answered as it is through it."""

from __future__ import annotations

import re
import socket
from typing import Any
from urllib.parse import quote

import falcon.asgi
import pytest
import requests

from tests.registry.conftest import Registry

THROUGH_FALCON = "X-HTTP-Method-Override: POST"
"""No override at all, but a header that the door leaves to falcon."""
FORM = "Content-Type: application/x-www-form-urlencoded"
JSON = "Content-Type: application/json"
CASES = {
    "form": ([FORM], "ping_secret={secret}&worker_state=busy"),
    "query": ([], None),
    "both": ([FORM], "worker_state=idle"),
    "json": ([JSON], '{{"ping_secret": "{secret}", "total_cpu_cores": 8}}'),
    "json-charset": ([f"{JSON}; charset=utf-8"], '{{"ping_secret": "{secret}"}}'),
    "no-type": ([], "ping_secret={secret}&total_ram_mb=2000+MB"),
    "percent": ([FORM], "ping_secret={secret}&worker_state=idle%2A"),
    "blank": ([FORM], "  \r\n"),
    "no-utf8": ([FORM], "ping_secret={secret}&worker_state=%ff"),
    "raw-bytes": ([FORM], "ping_secret=\xff"),
    "no-json": ([JSON], "{{"),
    "no-object": ([JSON], "[]"),
    "other-type": (["Content-Type: text/plain"], "ping_secret={secret}"),
    "no-secret": ([FORM], "worker_state=busy"),
    "wrong-secret": ([FORM], "ping_secret=guessed"),
    "other-instance": ([FORM], "ping_secret={secret}&instance_id=i-2"),
    "odd-word": ([FORM], "ping_secret={secret}&worker_state=a%0Ab"),
    "chunks": ([FORM, "Transfer-Encoding: chunked"], "2\r\na=\r\n0\r\n\r\n"),
}
IN_QUERY = ("query", "both", "blank", "no-json", "no-object")


@pytest.mark.parametrize("name", CASES)
def test_a_ping_is_answered_alike_by_door_and_falcon(registry: Registry, name: str) -> None:
    record = registry.claimed()
    secret = str(record.ping_secret)
    url = registry.ping_url(record)
    first = {"ping_secret": secret, "instance_id": "i-1"}
    assert requests.post(url, data=first, timeout=10).status_code == 200
    query = f"?ping_secret={quote(secret)}" if name in IN_QUERY else ""
    answers = [
        exchanged(registry, f"/arvados/v1/nodes/{record.uuid}/ping{query}", name, secret, more)
        for more in ([], [THROUGH_FALCON])
    ]
    assert answers[0] == answers[1]
    refused = CASES[name][1] is not None and name not in ("both", "blank", "form", "percent")
    accepted = ("json", "json-charset", "no-type")
    assert answers[0].startswith("HTTP/1.1 200") is (not refused or name in accepted)


@pytest.mark.parametrize(
    "path", ["zzzzz-7ekkf-000000000000000/ping", "nobody/ping", "zzzzz-7ekkf-00000000000000A/ping"]
)
def test_an_unknown_record_is_so_by_either_way(registry: Registry, path: str) -> None:
    whole = f"/arvados/v1/nodes/{path}"
    found = [exchanged(registry, whole, "form", "x", more) for more in ([], [THROUGH_FALCON])]
    assert found[0] == found[1]
    assert found[0].startswith("HTTP/1.1 404")


def test_a_ping_that_is_answered_does_without_falcon(
    registry: Registry, monkeypatch: pytest.MonkeyPatch
) -> None:
    record = registry.claimed()
    url = registry.ping_url(record)

    async def never(*_: Any) -> None:
        raise AssertionError

    monkeypatch.setattr(falcon.asgi.App, "__call__", never)
    data = {"ping_secret": record.ping_secret}
    assert requests.post(url, data=data, timeout=10).status_code == 200
    override = dict([THROUGH_FALCON.split(": ")])
    assert requests.post(url, data=data, headers=override, timeout=10).status_code == 500


def test_a_body_in_parts_is_read_to_its_end(registry: Registry) -> None:
    record = registry.claimed()
    url = registry.ping_url(record)
    parts = [f"ping_secret={record.ping_secret}&".encode(), b"worker_state=", b"busy"]
    headers = {"Content-Type": "application/x-www-form-urlencoded"}
    answer = requests.post(url, data=iter(parts), headers=headers, timeout=10)
    assert answer.json()["info"]["worker_state"] == "busy"


def exchanged(registry: Registry, path: str, name: str, secret: str, more: list[str]) -> str:
    """The answer to one request, without what differs from one to the next."""
    given, text = CASES[name]
    body = (text or "").format(secret=secret).encode("latin-1")
    headers = ["Host: x", "Connection: close", *given, *more]
    if name != "chunks":
        headers.append(f"Content-Length: {len(body)}")
    head = "\r\n".join([f"POST {path} HTTP/1.1", *headers, "", ""])
    with socket.create_connection(("127.0.0.1", registry.server.port), timeout=10) as client:
        client.sendall(head.encode() + body)
        got = b""
        while came := client.recv(65536):
            got += came
    status, *shown = got.partition(b"\r\n\r\n")[0].decode().split("\r\n")
    said = got.partition(b"\r\n\r\n")[2].decode()
    changing = r'"(etag|modified_at|last_ping_at|error_token)":("[^"]*")'
    said = re.sub(changing, r'"\1":0', said)
    shown = [line for line in shown if not line.startswith(("date:", "content-length:"))]
    return "\n".join([status, *sorted(shown), said])
