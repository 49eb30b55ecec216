"""Connections of a server: how many, how many from one peer, and how long each may take.

uvicorn parses and answers; it has no limit on connections that it keeps open for silent clients,
none on the size of a header, and none on the time that a request takes.
"""

from __future__ import annotations

import asyncio
import ipaddress
import json
import resource
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from http import HTTPStatus

import httptools
from uvicorn.config import Config
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol
from uvicorn.server import ServerState

from nodemanager.core.reasons import Reason
from nodemanager.refusals import Refusals

MOST = 4096
_LARGE = 16 * 1024


@dataclass(frozen=True, slots=True)
class Limits:
    """`request_s` is for a whole request, from its first byte to its last, and for the silence
    before it; `answer_s` for its answer, until the client has taken it."""

    connections: int
    per_peer: int
    request_s: float = 10.0
    answer_s: float = 60.0
    header: int = 64 * 1024
    body: int = 16 * 1024 * 1024


def limits_of(share: float) -> Limits:
    """Those of a server that may take this share of the process' file descriptors."""
    soft, _hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    files = MOST / share if soft == resource.RLIM_INFINITY else soft
    connections = max(8, min(MOST, int(files * share)))
    return Limits(connections, max(4, connections // 4))


def peer_of(address: str) -> str:
    """Whom connections from `address` are counted for: of IPv6, its network of 64 bits."""
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
    """One that was let in; `end` closes it at once."""

    peer: str
    end: Callable[[], object] = field(default=lambda: None)


class Gate:
    """Lets connections in, and ends those that take too long or that others need the place of.

    Of a peer with too many, and of all when there are too many, the one that has waited longest
    without a whole request makes room: a ping that arrives whole is always answered. Used by one
    event loop.
    """

    def __init__(self, limits: Limits, refusals: Refusals) -> None:
        self.limits = limits
        self.refusals = refusals
        self._peers: Counter[str] = Counter()
        # Both by the time since which they do, the longest first.
        self._waiting: dict[Connection, float] = {}
        self._answering: dict[Connection, float] = {}

    def __len__(self) -> int:
        return len(self._waiting) + len(self._answering)

    def admit(self, peer: str) -> Connection | None:
        """The connection, or None where it may not be."""
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
        """It has no whole request now: from here on it is given `request_s`."""
        if self._forget_times(connection):
            self._waiting[connection] = time.monotonic()

    def begins(self, connection: Connection) -> None:
        """The first byte of a request came."""
        if connection in self._waiting:
            self.waits(connection)

    def answers(self, connection: Connection) -> None:
        """Its request is here as a whole."""
        if self._forget_times(connection):
            self._answering[connection] = time.monotonic()

    def forget(self, connection: Connection) -> None:
        """It is closed; idempotent."""
        if not self._forget_times(connection):
            return
        self._peers[connection.peer] -= 1
        if not self._peers[connection.peer]:
            del self._peers[connection.peer]

    def sweep(self) -> None:
        """End what takes too long."""
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
                self._end(connection, Reason.TOO_SLOW)

    def end_all(self) -> None:
        for connection in [*self._waiting, *self._answering]:
            self.forget(connection)
            connection.end()

    def _make_room(self, peer: str | None) -> bool:
        for connection in self._waiting:
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
        was_here = self._waiting.pop(connection, None) or self._answering.pop(connection, None)
        return was_here is not None


class _Joined(asyncio.WriteTransport):
    """What is written in one turn of the loop, as a header and its body, leaves in one call."""

    def __init__(self, transport: asyncio.Transport, loop: asyncio.AbstractEventLoop) -> None:
        self._transport = transport
        self._loop = loop
        self._held: list[bytes] = []

    def write(self, data: bytes) -> None:  # type: ignore[override]  # uvicorn writes bytes only
        if not self._held:
            self._loop.call_soon(self._flush)
        self._held.append(data)
        if len(data) > _LARGE:
            # The client's pace is to be known before the next.
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
    """uvicorn's, with the limits of `gate`. `user` is who is at the other end, where known."""

    def __init__(
        self,
        config: Config,
        state: ServerState,
        loop: asyncio.AbstractEventLoop,
        gate: Gate,
        connection: Connection,
        user: str | None,
    ) -> None:
        super().__init__(config, state, {} if user is None else {"user": user}, loop)
        self._gate = gate
        self._connection = connection
        self._in_header = False
        self._header = 0
        self._came = 0

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as uvicorn's own
        super().connection_made(transport)
        self.transport = _Joined(transport, self.loop)  # type: ignore[assignment]  # all it uses
        self._connection.end = transport.abort

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        self._gate.forget(self._connection)

    def data_received(self, data: bytes) -> None:
        self._unset_keepalive_if_required()
        self._came += len(data)
        try:
            self.parser.feed_data(data)
        except httptools.HttpParserUpgrade:
            # There is nothing to change over to: it is answered, and that is all.
            self.cycle.keep_alive = False
        except httptools.HttpParserError:
            large = self._header > self._gate.limits.header
            self._refuse(
                HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE if large else HTTPStatus.BAD_REQUEST
            )
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
        super().on_headers_complete()

    def on_message_complete(self) -> None:
        super().on_message_complete()
        if not self.cycle.response_complete:
            self._gate.answers(self._connection)

    def on_response_complete(self) -> None:
        super().on_response_complete()
        if self.cycle.response_complete or self.cycle.more_body:
            self._gate.waits(self._connection)
        else:
            self._gate.answers(self._connection)

    def _count_header(self, size: int) -> None:
        self._header += size
        if self._header > self._gate.limits.header:
            raise ValueError("the header is too large")

    def _refuse(self, status: HTTPStatus) -> None:
        """Answer what is no request, and close."""
        bad = status is HTTPStatus.BAD_REQUEST
        reason = Reason.NOT_HTTP if bad else Reason.TOO_LARGE
        self._gate.refusals.note(reason, self._connection.peer)
        self.pipeline.clear()
        cycle = self.cycle
        if cycle is not None and not cycle.response_complete:
            if not cycle.more_body:
                # Behind a request that is being answered: it gets its answer, and no more comes.
                cycle.keep_alive = False
                self.flow.pause_reading()
                return
            cycle.disconnected = True
        said = status.phrase
        body = json.dumps({"title": said, "errors": [said]}).encode()
        head = [f"HTTP/1.1 {status.value} {said}".encode()]
        head += [name + b": " + value for name, value in self.server_state.default_headers]
        head += [
            b"content-type: application/json",
            b"content-length: %d" % len(body),
            b"connection: close",
        ]
        self.transport.write(b"\r\n".join([*head, b"", body]))
        self.transport.close()
