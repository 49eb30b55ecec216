"""Limits for a whole HTTP answer, for sessions of requests: its time (see `deadline`), its size."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from requests import Response, Session
from requests.adapters import HTTPAdapter
from requests.exceptions import ContentDecodingError
from urllib3 import HTTPConnectionPool, HTTPSConnectionPool, ProxyManager
from urllib3.connection import HTTPConnection, HTTPSConnection

from nodemanager.lib.deadline import Bounded

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
