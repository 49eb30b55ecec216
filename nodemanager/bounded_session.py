"""A time limit for a whole HTTP answer, for sessions of requests (see `deadline`)."""

from __future__ import annotations

from typing import Any

from requests import Session
from requests.adapters import HTTPAdapter
from urllib3 import HTTPConnectionPool, HTTPSConnectionPool, ProxyManager
from urllib3.connection import HTTPConnection, HTTPSConnection

from nodemanager.deadline import Bounded


def within_its_time(session: Session) -> None:
    """Let the time-out of a request in that session end the whole answer, and not each read."""
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

    def proxy_manager_for(self, *args: Any, **kwargs: Any) -> Any:
        manager = super().proxy_manager_for(*args, **kwargs)
        # One for SOCKS has pools of its own.
        if isinstance(manager, ProxyManager):
            manager.pool_classes_by_scheme = dict(_POOLS)
        return manager


_POOLS = {"http": _Pool, "https": _TlsPool}
