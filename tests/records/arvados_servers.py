"""Servers for the Arvados adapter's tests: one that answers by script, and a wire with faults."""

from __future__ import annotations

import asyncio
import json
import socket
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qs

import pytest
import requests

from nodemanager.core.model.world import Record
from nodemanager.httpserver.server import HttpServer
from nodemanager.lib.clock import SystemClock
from nodemanager.records.arvados import ArvadosRecordStore
from nodemanager.registry import discovery
from tests.contract.stores import claim

ERRORS = {"errors": ["it said no"], "error_token": "1+abc"}
NODES = "/arvados/v1/nodes"
TOKEN = "v2/zzzzz-gj3su-0123456789abcde/thetokenthatnobodymaysee"


def open_store(url: str, **options: Any) -> ArvadosRecordStore:
    given: dict[str, Any] = {"timeout": 10.0, "insecure": False, "slots": 8, "ping_url": None}
    given |= {"ca_file": None, "clock": SystemClock(), "token": TOKEN} | options
    return ArvadosRecordStore(url, given.pop("token"), **given)


def node(number: int | str, **fields: Any) -> dict[str, Any]:
    """A record as an administrator sees it."""
    at = "2020-01-31T23:59:59.000000000Z"
    bare = ("slot_number", "hostname", "ip_address", "first_ping_at", "last_ping_at")
    uuid = f"zzzzz-7ekkf-{number:0>15}"
    shown = {"uuid": uuid, "modified_at": at, "crunch_worker_state": "down", "nameservers": []}
    return {**shown, **dict.fromkeys(bare), "properties": {}, "info": {}, **fields}


@dataclass
class Asked:
    """One request as it came."""

    method: str
    path: str
    params: dict[str, str]
    token: str | None

    def json(self, name: str) -> Any:
        return json.loads(self.params[name])


@dataclass
class Reply:
    body: Any
    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)


@pytest.fixture(scope="module")
def scripted() -> Iterator[ScriptedApi]:
    with ScriptedApi() as api:
        yield api


class ScriptedApi:
    """An HTTP server that answers discovery, and everything else as `script` says."""

    def __init__(self) -> None:
        self._server = HttpServer(self._serve, "127.0.0.1", 0, option="")

    def __enter__(self) -> ScriptedApi:
        self._server.start()
        self.url = self._server.url
        return self.reset()

    def reset(self) -> ScriptedApi:
        """As it is at first: one for all tests of a module is enough."""
        self.script: Callable[[Asked], Reply] = listing([])
        self.asked: list[Asked] = []
        self.document: Any = discovery.document("http://127.0.0.1:1/", "")
        self.document["uuidPrefix"] = "abcde"
        return self

    def __exit__(self, *_: object) -> None:
        self._server.stop()

    async def _serve(self, scope: dict[str, Any], receive: Any, send: Any) -> None:
        headers = dict(scope["headers"])
        query = scope["query_string"].decode()
        token = headers.get(b"authorization")
        asked = Asked(
            scope["method"],
            scope["path"],
            {name: given[-1] for name, given in parse_qs(query).items()},
            None if token is None else token.decode(),
        )
        # A script may wait for something.
        reply = await asyncio.to_thread(self._reply, asked)
        raw = reply.body if isinstance(reply.body, bytes) else json.dumps(reply.body).encode()
        told = [(name.encode(), value.encode()) for name, value in reply.headers.items()]
        start = {"type": "http.response.start", "status": reply.status, "headers": told}
        await send(start)
        await send({"type": "http.response.body", "body": raw})

    def _reply(self, asked: Asked) -> Reply:
        if asked.path.startswith("/discovery/"):
            return self.document if isinstance(self.document, Reply) else Reply(self.document)
        self.asked.append(asked)
        return self.script(asked)


def listing(items: list[Any], *, cap: int = 1000, **obeys: bool) -> Callable[[Asked], Reply]:
    """A script that lists `items`, at most `cap` a page.

    It obeys filters, order and limit, and counts, but for those said to be False.
    """

    def answer(asked: Asked) -> Reply:
        found = list(items)
        for _, _, last in asked.json("filters") if obeys.get("filters", True) else []:
            found = [item for item in found if item["uuid"] > last]
        counted = len(found)
        if obeys.get("order", True):
            found.sort(key=lambda item: item["uuid"])
        body: dict[str, Any] = {"items": found[: min(cap, int(asked.params["limit"]))]}
        if obeys.get("count", True) and asked.params.get("count") != "none":
            body["items_available"] = counted
        return Reply(body)

    return answer


Fault = Callable[["Wire", socket.socket, bytes], None]


class Wire:
    """A TCP proxy before `upstream`; `faults` maps the begin of a request to what befalls it.

    A fault gets the client's socket and upstream's whole answer, so that what was asked is done.
    """

    def __init__(self, upstream: tuple[str, int]) -> None:
        self._upstream = upstream
        self.faults: dict[str, Fault] = {}
        self.after: dict[str, Callable[[], None]] = {}
        self.requests: list[str] = []
        self.ended = threading.Event()
        self._listening = socket.create_server(("127.0.0.1", 0))
        self._threads: list[threading.Thread] = []

    def __enter__(self) -> Wire:
        self._start(self._accept)
        self.url = f"http://127.0.0.1:{self._listening.getsockname()[1]}"
        return self

    def __exit__(self, *_: object) -> None:
        self.ended.set()
        self._listening.shutdown(socket.SHUT_RDWR)
        self._listening.close()
        for thread in self._threads:
            thread.join(timeout=10)

    def count(self, begin: str) -> int:
        return sum(request.startswith(begin) for request in self.requests)

    def _start(self, run: Callable[..., None], *given: Any) -> None:
        thread = threading.Thread(target=run, args=given, daemon=True)
        self._threads.append(thread)
        thread.start()

    def _accept(self) -> None:
        while not self.ended.is_set():
            try:
                client, _ = self._listening.accept()
            except OSError:
                return
            self._start(self._carry, client)

    def _carry(self, client: socket.socket) -> None:
        with client:
            request = _request(client)
            line = request.partition(b"\r\n")[0].decode()
            self.requests.append(line)
            with socket.create_connection(self._upstream, timeout=10) as server:
                server.sendall(
                    request.replace(b"\r\nConnection: keep-alive", b"\r\nConnection: close")
                )
                answer = b"".join(iter(lambda: server.recv(65536), b""))
            for begin in [begin for begin in self.after if line.startswith(begin)]:
                self.after.pop(begin)()
            for begin, fault in self.faults.items():
                if line.startswith(begin):
                    fault(self, client, answer)
                    return
            client.sendall(answer)


def _request(client: socket.socket) -> bytes:
    got = b""
    while b"\r\n\r\n" not in got:
        got += client.recv(65536)
    head, _, body = got.partition(b"\r\n\r\n")
    lines = head.decode().lower().split("\r\n")
    length = next((int(line[15:]) for line in lines if line.startswith("content-length:")), 0)
    while len(body) < length:
        body += client.recv(65536)
    return head + b"\r\n\r\n" + body


def swallow(wire: Wire, client: socket.socket, answer: bytes) -> None:
    """The connection ends before a byte of the answer."""


def cut(wire: Wire, client: socket.socket, answer: bytes) -> None:
    """The connection ends within the body."""
    client.sendall(answer[:-5])


def hang(wire: Wire, client: socket.socket, answer: bytes) -> None:
    """No answer, and no end."""
    wire.ended.wait(30)


def drip(wire: Wire, client: socket.socket, answer: bytes) -> None:
    """A byte now and then, so that no single read takes long."""
    for number in range(len(answer)):
        try:
            client.sendall(answer[number : number + 1])
        except OSError:
            return
        if wire.ended.wait(0.05):
            return


def drip_body(wire: Wire, client: socket.socket, answer: bytes) -> None:
    head, _, body = answer.partition(b"\r\n\r\n")
    client.sendall(head + b"\r\n\r\n")
    drip(wire, client, body)


def undated(wire: Wire, client: socket.socket, answer: bytes) -> None:
    client.sendall(answer.replace(b"\r\ndate: ", b"\r\nx-date: "))


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
