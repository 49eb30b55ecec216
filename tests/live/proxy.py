"""A proxy before an HTTP API, which can hang, hold single requests, and cut connections."""

from __future__ import annotations

import random
import socket
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from enum import Enum, auto
from urllib.parse import urlsplit

from tests.waiting import DEADLINE_S, busy

UPSTREAM_S = 30.0


class Fate(Enum):
    """What befalls one request."""

    CARRIED = auto()
    HUNG = auto()
    """Read, and never answered."""
    REQUEST_CUT = auto()
    """The API gets the first half of it, and nobody an answer."""
    REPLY_CUT = auto()
    """The API does what was asked, and its client gets the first half of the answer."""
    REPLY_LOST = auto()
    """The API does what was asked, and its client gets nothing."""
    REPLY_SPOILT = auto()
    """The API does what was asked, and its client is told that the gateway is bad."""
    DRIPPED = auto()
    """The API does what was asked, and its client gets a byte of the answer now and then."""
    FOREIGN = auto()
    """A web page in place of the answer; the API is not asked."""
    MISSING = auto()
    """Another server's "not found"; the API is not asked."""
    EMPTY = auto()
    """Success, and nothing in it; the API is not asked."""
    ANOTHER_API = auto()
    """A JSON object with nothing in it; the API is not asked."""
    THROTTLED = auto()
    """Too many requests: come again in RETRY_S; the API is not asked."""


RETRY_S = 7.0
DRIP_S, LONGEST_DRIP_S = 0.05, 6.0
"""Between two bytes; after the longest drip comes the rest at once."""


def _answer(status: str, body: bytes = b"", kind: str = "text/html", *headers: str) -> bytes:
    head = [f"HTTP/1.1 {status}", f"Content-Length: {len(body)}", f"Content-Type: {kind}"]
    return "\r\n".join([*head, *headers, "", ""]).encode() + body


PAGE = b"<!doctype html><html><body>Welcome</body></html>"
INSTEAD = {
    Fate.FOREIGN: _answer("200 OK", PAGE),
    Fate.MISSING: _answer("404 Not Found", PAGE),
    Fate.EMPTY: _answer("200 OK"),
    Fate.ANOTHER_API: _answer("200 OK", b"{}", "application/json"),
    Fate.THROTTLED: _answer(
        "429 Too Many Requests", PAGE, "text/html", f"Retry-After: {RETRY_S:g}"
    ),
}
"""What a client gets in place of the API's answer, which is not asked."""
BAD_GATEWAY = _answer("502 Bad Gateway", PAGE)


@dataclass
class Held:
    """A request that waits before the API: `arrived` says that there is one."""

    matches: Callable[[bytes], bool]
    arrived: threading.Event = field(default_factory=threading.Event)
    released: threading.Event = field(default_factory=threading.Event)


class Fates:
    """What befalls each request, by its kind."""

    def __init__(self) -> None:
        self.of: Callable[[str], Fate] = lambda _: Fate.CARRIED
        self.over = threading.Event()
        """Those that hang now do so until then."""

    @contextmanager
    def meeting(self, fate: Callable[[str], Fate]) -> Iterator[None]:
        """Each request meets what `fate` says of its kind; at the end those that hang are ended."""
        over, before = self.over, self.of
        self.over, self.of = threading.Event(), fate
        try:
            yield
        finally:
            self.of = before
            self.over.set()
            self.over = over


class Listener:
    """Gives each connection to `serve`, in a thread of its own, until `close`."""

    def __init__(self, listening: socket.socket, serve: Callable[[socket.socket], None]) -> None:
        self._listening = listening
        self._serve = serve
        self._accepting = threading.Thread(target=self._accept, name="listener", daemon=True)
        self._accepting.start()

    def close(self) -> None:
        # A close alone leaves the thread in its accept. After a signal the kernel calls that again
        # with the descriptor's number, which by then may be another server's: the thread would take
        # one of its connections.
        self._listening.shutdown(socket.SHUT_RDWR)
        self._accepting.join(DEADLINE_S)
        assert not self._accepting.is_alive()
        self._listening.close()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listening.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(client,), daemon=True).start()


class Proxy:
    """Plain HTTP to `upstream` (a URL), one request a connection. `kind_of` names a request."""

    def __init__(self, upstream: str, kind_of: Callable[[bytes], str]) -> None:
        parts = urlsplit(upstream)
        assert parts.hostname is not None
        assert parts.port is not None
        self._upstream = (parts.hostname, parts.port)
        self._kind_of = kind_of
        self._fates = Fates()
        self.meeting = self._fates.meeting
        self._held: Held | None = None
        self._lock = threading.Lock()
        self.met: Counter[tuple[str, Fate]] = Counter()
        """How many requests of each kind met each fate."""
        listening = socket.create_server(("127.0.0.1", 0), backlog=128)
        self.url = f"http://127.0.0.1:{listening.getsockname()[1]}"
        self._listener = Listener(listening, self._serve)

    def close(self) -> None:
        """End the hung requests and accept no more."""
        self._fates.over.set()
        self._listener.close()

    @contextmanager
    def hanging(self) -> Iterator[None]:
        """It accepts and reads, and nobody gets an answer; what came meanwhile is never asked."""
        with self.meeting(lambda _: Fate.HUNG):
            yield

    @contextmanager
    def cutting(self, share: float, seed: int) -> Iterator[None]:
        """Of each kind the first request loses its reply and the second is cut; then by chance."""
        own = random.Random(seed)

        def fate(kind: str) -> Fate:
            seen = sum(count for (other, _), count in self.met.items() if other == kind)
            if seen < 2:
                return (Fate.REPLY_CUT, Fate.REQUEST_CUT)[seen]
            if own.random() >= share:
                return Fate.CARRIED
            return own.choice((Fate.REPLY_CUT, Fate.REQUEST_CUT))

        with self.meeting(fate):
            yield

    def lose_next(self, kind: str) -> None:
        """The next request of that kind does its work, and nobody hears of it."""
        before = self._fates.of

        def fate(met: str) -> Fate:
            if met != kind:
                return before(met)
            self._fates.of = before
            return Fate.REPLY_CUT

        self._fates.of = fate

    @contextmanager
    def holding(self, matches: Callable[[bytes], bool]) -> Iterator[Held]:
        """The first request of that content waits until it is released, by the end at the latest.

        All others are carried.
        """
        self._held = held = Held(matches)
        try:
            yield held
        finally:
            self._held = None
            held.released.set()

    def _serve(self, client: socket.socket) -> None:
        with client:
            try:
                request = _request(client)
                if request:
                    self._carry(client, request)
            except OSError:
                return  # One of the two went away: the other sees its connection end.

    def _carry(self, client: socket.socket, request: bytes) -> None:
        kind, over = self._kind_of(request), self._fates.over
        with self._lock:
            fate = self._fates.of(kind)
            self.met[kind, fate] += 1
            held = self._held
            if held is not None and held.matches(request):
                self._held = None
            else:
                held = None
        if fate is Fate.HUNG:
            over.wait()
            return
        if fate in INSTEAD:
            client.sendall(_last(INSTEAD[fate]))
            return
        if held is not None:
            held.arrived.set()
            held.released.wait()
        with socket.create_connection(self._upstream, timeout=UPSTREAM_S * busy()) as server:
            if fate is Fate.REQUEST_CUT:
                server.sendall(request[: len(request) // 2])
                return
            server.sendall(request)
            answer = b""
            while more := server.recv(65536):
                answer += more
        _reply(client, _last(answer), fate, over)


def _reply(client: socket.socket, answer: bytes, fate: Fate, over: threading.Event) -> None:
    """What the client gets of the answer to what was done."""
    match fate:
        case Fate.REPLY_CUT:
            client.sendall(answer[: len(answer) // 2])
        case Fate.REPLY_SPOILT:
            client.sendall(_last(BAD_GATEWAY))
        case Fate.DRIPPED:
            drip(client, answer, over)
        case Fate.CARRIED:
            client.sendall(answer)


def drip(client: socket.socket, answer: bytes, over: threading.Event) -> None:
    """A byte now and then, so that no single read takes long."""
    until = time.monotonic() + LONGEST_DRIP_S
    sent = 0
    while sent < len(answer) and time.monotonic() < until and not over.wait(DRIP_S):
        client.sendall(answer[sent : sent + 1])
        sent += 1
    client.sendall(answer[sent:])


def _last(answer: bytes) -> bytes:
    """The answer, which says that it is the last of its connection."""
    line, _, rest = answer.partition(b"\r\n")
    return line + b"\r\nConnection: close\r\n" + rest


def _request(client: socket.socket) -> bytes:
    """One whole request, made to be the only one of its connection; empty when none came."""
    got = b""
    while b"\r\n\r\n" not in got:
        more = client.recv(65536)
        if not more:
            return b""
        got += more
    head, _, body = got.partition(b"\r\n\r\n")
    lines = [line for line in head.split(b"\r\n") if not line.lower().startswith(b"connection:")]
    length = next(
        (int(line[15:]) for line in lines if line.lower().startswith(b"content-length:")), 0
    )
    while len(body) < length:
        more = client.recv(65536)
        if not more:
            return b""
        body += more
    return b"\r\n".join([*lines, b"Connection: close", b"", b""]) + body
