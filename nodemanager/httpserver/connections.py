"""Limits on a server's connections: their number, their number per peer, and their time.

uvicorn parses requests and sends answers. It limits neither the connections that it keeps open
for silent clients, nor the size of a header, nor the time that a request takes. A refused client
waits for its answer, so that refusals cost the others nothing.
"""

from __future__ import annotations

import asyncio
import ipaddress
import json
import re
import resource
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from email.utils import formatdate
from http import HTTPStatus

import httptools
from uvicorn.config import Config
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol
from uvicorn.server import ServerState

from nodemanager.core.model.reasons import Reason
from nodemanager.httpserver.refusals import Refusals

LONGEST_URL = 8 * 1024
"""Each application reads a query before it knows who asks. A longer list query goes as a POST."""
_VERSIONS = ("1.0", "1.1")
_HOST = re.compile(rb"(?:\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._~!$&'()*+,;=%-]*)(?::\d{1,5})?")

Header = tuple[bytes, bytes]


def problem_of(
    version: str, url: bytes, headers: Sequence[Header], most: Callable[[bytes], int]
) -> HTTPStatus | None:
    """With which status such a request is refused; None for a proper one.

    `most` gives how many bytes a request of that path, without its query, may have as its body.
    """
    if version not in _VERSIONS:
        return HTTPStatus.HTTP_VERSION_NOT_SUPPORTED
    if len(url) > LONGEST_URL:
        return HTTPStatus.REQUEST_URI_TOO_LONG
    hosts = [value for name, value in headers if name == b"host"]
    if len(hosts) > 1 or (not hosts and version == "1.1"):
        return HTTPStatus.BAD_REQUEST
    if hosts and not _HOST.fullmatch(hosts[0]):
        return HTTPStatus.BAD_REQUEST
    declared = [value for name, value in headers if name == b"content-length"]
    if declared and int(declared[0]) > most(url.partition(b"?")[0]):
        return HTTPStatus.REQUEST_ENTITY_TOO_LARGE
    return None


# How long a refused client waits for its answer, so that refusals cost the others nothing.


@dataclass(frozen=True, slots=True)
class Rate:
    """How many refusals are answered at once, and then each second."""

    at_once: int
    per_s: float


PEER = Rate(200, 50.0)
ALL = Rate(800, 200.0)
LONGEST_S = 20.0
"""No client waits longer: its connection costs little, and counts for its peer meanwhile."""
_MOST_PEERS = 10_000


@dataclass(slots=True)
class Pace:
    """The pace of one server. `now` gives seconds of a clock that never steps. For one thread."""

    now: Callable[[], float]
    _peers: dict[str, float] = field(default_factory=dict)
    _all: float = 0.0

    def wait(self, peer: str) -> float:
        """Count a refusal of `peer`; gives the seconds that its answer must wait."""
        now = self.now()
        if len(self._peers) > _MOST_PEERS:
            self._peers = {one: due for one, due in self._peers.items() if due > now}
        own = _next(self._peers.get(peer, 0.0), now, PEER)
        self._peers[peer] = own
        self._all = _next(self._all, now, ALL)
        late = max(own - PEER.at_once / PEER.per_s, self._all - ALL.at_once / ALL.per_s) - now
        return min(LONGEST_S, max(0.0, late))


def _next(due: float, now: float, rate: Rate) -> float:
    """When the refusals counted so far, and one more, would be over at `rate`."""
    longest = now + rate.at_once / rate.per_s + LONGEST_S
    return min(longest, max(due, now) + 1 / rate.per_s)


MOST = 4096
CONNECTION = "connection"
"""The key in the `state` of a request's scope for the Connection that it came over."""
_LARGE = 16 * 1024
_TOO_LARGE = frozenset(
    {
        HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
        HTTPStatus.REQUEST_URI_TOO_LONG,
        HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE,
    }
)


@dataclass(frozen=True, slots=True)
class ServerLimits:
    """The limits of one server.

    `request_s` limits a whole request, from its first byte to its last, and the silence before
    it. `answer_s` limits the answer, until the client has taken it. `header` and `body` are bytes;
    `body_at` gives the limit for the body of a request of one path, where that differs.
    """

    connections: int
    per_peer: int
    request_s: float = 10.0
    answer_s: float = 60.0
    header: int = 64 * 1024
    body: int = 16 * 1024 * 1024
    body_at: Callable[[bytes], int] | None = None

    def most(self, path: bytes) -> int:
        """The bytes that the body of a request of that path may have."""
        return self.body if self.body_at is None else min(self.body, self.body_at(path))


def limits_of(share: float) -> ServerLimits:
    """The limits of a server that may use this share of the process's file descriptors."""
    soft, _hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    files = MOST / share if soft == resource.RLIM_INFINITY else soft
    connections = max(8, min(MOST, int(files * share)))
    return ServerLimits(connections, max(4, connections // 4))


def peer_of(address: str) -> str:
    """The peer that connections from `address` count for: an IPv6 address's /64 network, else the
    address."""
    try:
        parsed = ipaddress.ip_address(address)
    except ValueError:
        return address
    if parsed.version == 4:
        return address
    if parsed.ipv4_mapped is not None:
        return str(parsed.ipv4_mapped)
    return str(ipaddress.ip_network((int(parsed) >> 64 << 64, 64)))


@dataclass(eq=False, slots=True)
class Connection:
    """An admitted connection; `end` closes it at once. `rests` between two requests.

    `unsent` tells how many bytes of its answers the client has not taken yet.
    """

    peer: str
    end: Callable[[], object] = field(default=lambda: None)
    unsent: Callable[[], int] = field(default=lambda: 0)
    rests: bool = False


class Gate:
    """Admits connections and ends those that are too slow or must make room for new ones.

    When a peer, or the server, has too many connections, the gate ends one whose refusal is held
    back, or else the one that has waited longest without a complete request. So a ping that arrives
    complete is always answered. For use by one event loop.
    """

    def __init__(self, limits: ServerLimits, refusals: Refusals) -> None:
        self.limits = limits
        self.refusals = refusals
        self._peers: Counter[str] = Counter()
        # Both map to the start of the wait, the longest wait first.
        self._waiting: dict[Connection, float] = {}
        self._answering: dict[Connection, float] = {}
        self._held: dict[Connection, float] = {}
        self.pace = Pace(time.monotonic)

    def __len__(self) -> int:
        return len(self._waiting) + len(self._answering) + len(self._held)

    def admit(self, peer: str) -> Connection | None:
        """A new connection of `peer`; None where it must be refused."""
        if self._peers[peer] >= self.limits.per_peer and not self._make_room(peer):
            return None
        if len(self) >= self.limits.connections and not self._make_room(None):
            return None
        connection = Connection(peer)
        self._peers[peer] += 1
        self._waiting[connection] = time.monotonic()
        return connection

    def make_room(self) -> None:
        """End the connection that has waited longest."""
        self._make_room(None)

    def waits(self, connection: Connection) -> None:
        """Note that it has no complete request; its `request_s` starts now."""
        if self._forget_times(connection):
            self._waiting[connection] = time.monotonic()

    def begins(self, connection: Connection) -> None:
        if connection in self._waiting:
            connection.rests = False
            self.waits(connection)

    def rests(self, connection: Connection) -> None:
        """Note that its answer is complete, and that no byte of another request has come."""
        connection.rests = True
        self.waits(connection)

    def answers(self, connection: Connection) -> None:
        """Note that its request is complete; its `answer_s` starts now."""
        if self._forget_times(connection):
            self._answering[connection] = time.monotonic()

    def refuses(self, connection: Connection) -> float:
        """The seconds for which the refusal of its request must be held back; it is so from now on.

        `answers` notes that the refusal goes out.
        """
        wait = self.pace.wait(connection.peer)
        if wait and self._forget_times(connection):
            self._held[connection] = time.monotonic()
        return wait

    def forget(self, connection: Connection) -> None:
        """Note that it is closed; idempotent."""
        if not self._forget_times(connection):
            return
        self._peers[connection.peer] -= 1
        if not self._peers[connection.peer]:
            del self._peers[connection.peer]

    def sweep(self) -> None:
        """End the connections that have exceeded their time."""
        now = time.monotonic()
        for times, longest in (
            (self._waiting, self.limits.request_s),
            (self._answering, self.limits.answer_s),
        ):
            late = []
            for connection, since in times.items():
                if now - since < longest:
                    break
                late.append(connection)
            for connection in late:
                if connection.rests and connection in self._waiting and not connection.unsent():
                    # Browsers keep connections for their next request: that is no slow one.
                    self.forget(connection)
                    connection.end()
                else:
                    self._end(connection, Reason.TOO_SLOW)

    def end_all(self) -> None:
        for connection in [*self._held, *self._waiting, *self._answering]:
            self.forget(connection)
            connection.end()

    def _make_room(self, peer: str | None) -> bool:
        for connection in (*self._held, *self._waiting):
            if peer is None or connection.peer == peer:
                self._end(connection, Reason.TOO_MANY_CONNECTIONS)
                return True
        self.refusals.note(Reason.TOO_MANY_CONNECTIONS, peer or "")
        return False

    def _end(self, connection: Connection, reason: Reason) -> None:
        self.forget(connection)
        self.refusals.note(reason, connection.peer)
        connection.end()

    def _forget_times(self, connection: Connection) -> bool:
        all_times = (self._waiting, self._answering, self._held)
        return any(times.pop(connection, None) is not None for times in all_times)


class _Joined(asyncio.WriteTransport):
    """A transport that sends all writes of one loop iteration (a header and its body) at once."""

    def __init__(self, transport: asyncio.Transport, loop: asyncio.AbstractEventLoop) -> None:
        self._transport = transport
        self._loop = loop
        self._held: list[bytes] = []

    def write(self, data: bytes) -> None:  # type: ignore[override]  # uvicorn writes bytes only
        if not self._held:
            self._loop.call_soon(self._flush)
        self._held.append(data)
        if len(data) > _LARGE:
            # Flow control must see how fast the client reads before more is written.
            self._flush()

    def is_closing(self) -> bool:
        return self._transport.is_closing()

    def close(self) -> None:
        self._flush()
        self._transport.close()

    def _flush(self) -> None:
        held, self._held = self._held, []
        if held and not self._transport.is_closing():
            self._transport.writelines(held)


class GuardedProtocol(HttpToolsProtocol):
    """uvicorn's HTTP protocol with the limits of `gate`. `user` is the client's user, if known."""

    def __init__(
        self,
        config: Config,
        state: ServerState,
        loop: asyncio.AbstractEventLoop,
        gate: Gate,
        connection: Connection,
        user: str | None,
    ) -> None:
        known: dict[str, object] = {CONNECTION: connection} if user is None else {"user": user}
        super().__init__(config, state, known, loop)
        self._gate = gate
        self._connection = connection
        self._wrong: HTTPStatus | None = None
        self._is_refused = False
        self._in_header = False
        self._header = 0
        self._came = 0

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as uvicorn's own
        super().connection_made(transport)
        self.transport = _Joined(transport, self.loop)  # type: ignore[assignment]  # all it uses
        self._connection.end = transport.abort
        self._connection.unsent = transport.get_write_buffer_size

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        self._gate.forget(self._connection)

    def data_received(self, data: bytes) -> None:
        if self._is_refused:
            return
        self._unset_keepalive_if_required()
        self._came += len(data)
        try:
            self.parser.feed_data(data)
        except httptools.HttpParserUpgrade:
            # We support no other protocol: answer the request, then close.
            self.cycle.keep_alive = False
        except httptools.HttpParserError:
            self._refuse(self._wrong or HTTPStatus.BAD_REQUEST)
            return
        limits = self._gate.limits
        if self._in_header and self._came > limits.header:
            self._refuse(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE)
        elif self._came > limits.header + limits.body:
            self._refuse(HTTPStatus.REQUEST_ENTITY_TOO_LARGE)

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self._in_header, self._header, self._came = True, 0, 0
        self._gate.begins(self._connection)

    def on_url(self, url: bytes) -> None:
        self._count_header(len(url))
        super().on_url(url)

    def on_header(self, name: bytes, value: bytes) -> None:
        self._count_header(len(name) + len(value) + 4)
        super().on_header(name, value)

    def on_headers_complete(self) -> None:
        self._in_header = False
        version, most = self.parser.get_http_version(), self._gate.limits.most
        self._wrong = problem_of(version, self.url, self.headers, most)
        if self._wrong is not None:
            raise ValueError(self._wrong.phrase)
        super().on_headers_complete()
        self.cycle.default_headers = self._default_headers()

    def on_message_complete(self) -> None:
        super().on_message_complete()
        if not self.cycle.response_complete:
            self._gate.answers(self._connection)

    def on_response_complete(self) -> None:
        super().on_response_complete()
        if self.cycle.response_complete:
            self._gate.rests(self._connection)
        elif self.cycle.more_body:
            self._gate.waits(self._connection)
        else:
            self._gate.answers(self._connection)

    def _default_headers(self) -> list[tuple[bytes, bytes]]:
        """With the time of this request: clients measure our clock by it (records/arvados.py)."""
        date = formatdate(time.time(), usegmt=True).encode()
        return [(b"date", date), *self.server_state.default_headers]

    def _count_header(self, size: int) -> None:
        self._header += size
        if self._header > self._gate.limits.header:
            self._wrong = HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE
            raise ValueError("the header is too large")

    def _refuse(self, status: HTTPStatus) -> None:
        """Answer a malformed request with `status` and close the connection."""
        reason = Reason.TOO_LARGE if status in _TOO_LARGE else Reason.NOT_HTTP
        self._gate.refusals.note(reason, self._connection.peer)
        self._is_refused = True
        self.pipeline.clear()
        cycle = self.cycle
        if cycle is not None and not cycle.response_complete:
            if not cycle.more_body:
                # An earlier request is being answered: it gets its answer, then we close.
                cycle.keep_alive = False
                self.flow.pause_reading()
                return
            cycle.disconnected = True
        said = status.phrase
        body = json.dumps({"title": said, "errors": [said]}).encode()
        head = [f"HTTP/1.1 {status.value} {said}".encode()]
        head += [name + b": " + value for name, value in self._default_headers()]
        head += [
            b"content-type: application/json",
            b"content-length: %d" % len(body),
            b"connection: close",
        ]
        wait = self._gate.refuses(self._connection)
        if not wait:
            self._give_up(b"\r\n".join([*head, b"", body]))
            return
        # What it still sends is not read meanwhile.
        self.flow.pause_reading()
        self.loop.call_later(wait, self._give_up, b"\r\n".join([*head, b"", body]))

    def _give_up(self, answer: bytes) -> None:
        if not self.transport.is_closing():
            self._gate.answers(self._connection)
            self.transport.write(answer)
            self.transport.close()
