"""Limits for a whole HTTP answer: its time, for connections of http.client, and its size, too, for
sessions of requests.

The libraries limit each read of the socket alone: a server that sends a byte now and then would
keep a call for ever.
"""

from __future__ import annotations

import http.client
import io
import time
from collections.abc import Callable, Iterator
from typing import Any

from requests import Response, Session
from requests.adapters import HTTPAdapter
from requests.exceptions import ContentDecodingError
from urllib3 import HTTPConnectionPool, HTTPSConnectionPool, ProxyManager
from urllib3.connection import HTTPConnection, HTTPSConnection

_LEAST_S = 0.001


class Bounded:
    """Mix-in for a connection class of http.client, beside which it stands first.

    `timeout` in seconds is what is left; whoever sets it begins anew. None is no limit.
    """

    _ends_at: float | None = None
    sock: Any

    @property
    def timeout(self) -> float | None:
        if self._ends_at is None:
            return None
        return max(_LEAST_S, self._ends_at - time.monotonic())

    @timeout.setter
    def timeout(self, seconds: object) -> None:
        # urllib3 sets a word of its own for "the default" before it sets the seconds.
        limited = isinstance(seconds, (int, float))
        self._ends_at = time.monotonic() + float(seconds) if limited else None  # type: ignore[arg-type]

    def send(self, data: Any) -> None:
        if self.sock is not None:
            self.sock.settimeout(self.timeout)
        super().send(data)  # type: ignore[misc]  # of http.client's connection, beside this class

    def response_class(self, sock: Any, **more: Any) -> http.client.HTTPResponse:
        answer = http.client.HTTPResponse(sock, **more)
        raw = answer.fp.detach()
        answer.fp = io.BufferedReader(_Until(raw, lambda: self._bound(sock)))
        return answer

    def _bound(self, sock: Any) -> None:
        if self._ends_at is not None and time.monotonic() >= self._ends_at:
            raise TimeoutError("no whole answer in time")
        sock.settimeout(self.timeout)


class _Until(io.RawIOBase):
    """A socket's bytes; calls `bound` before each read, to set its time limit."""

    def __init__(self, raw: Any, bound: Callable[[], None]) -> None:
        super().__init__()
        self._raw = raw
        self._bound = bound

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int | None:
        self._bound()
        count: int | None = self._raw.readinto(buffer)
        return count

    def close(self) -> None:
        if not self.closed:
            self._raw.close()
        super().close()


LARGEST = 64 * 1024 * 1024
"""The bytes of an answer once it is unpacked: ten times a page of a thousand nodes."""


def within_its_time(session: Session) -> None:
    """Let the time-out of a request in that session end the whole answer, and not each read.

    An answer over LARGEST, which a few packed kilobytes may become, is a RequestException.
    """
    for scheme in ("http://", "https://"):
        session.mount(scheme, _WithinTime())


class _Connection(Bounded, HTTPConnection):  # type: ignore[misc]  # `timeout` is a property here
    pass


class _TlsConnection(Bounded, HTTPSConnection):  # type: ignore[misc]  # as above
    pass


class _Pool(HTTPConnectionPool):
    ConnectionCls = _Connection


class _TlsPool(HTTPSConnectionPool):
    ConnectionCls = _TlsConnection


class _WithinTime(HTTPAdapter):
    """Connections with a time limit for a whole answer, straight and through a proxy."""

    def init_poolmanager(self, *args: Any, **kwargs: Any) -> None:
        super().init_poolmanager(*args, **kwargs)
        self.poolmanager.pool_classes_by_scheme = dict(_POOLS)

    def build_response(self, *args: Any, **kwargs: Any) -> Response:
        response = super().build_response(*args, **kwargs)
        pieces = response.iter_content

        def bounded(*args: Any, **kwargs: Any) -> Iterator[bytes]:
            came = 0
            for piece in pieces(*args, **kwargs):
                came += len(piece)
                if came > LARGEST:
                    response.close()
                    raise ContentDecodingError(f"the answer has over {LARGEST} bytes")
                yield piece

        response.iter_content = bounded  # type: ignore[method-assign]  # of this answer alone
        return response

    def proxy_manager_for(self, *args: Any, **kwargs: Any) -> Any:
        manager = super().proxy_manager_for(*args, **kwargs)
        # One for SOCKS has pools of its own.
        if isinstance(manager, ProxyManager):
            manager.pool_classes_by_scheme = dict(_POOLS)
        return manager


_POOLS = {"http": _Pool, "https": _TlsPool}
