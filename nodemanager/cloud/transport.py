"""What our own requests need of a libcloud connection: raw answers, each request sent once."""

from __future__ import annotations

import http.client
import time
from collections.abc import Mapping
from email.utils import parsedate_to_datetime
from typing import Any

from requests import Session
from requests.adapters import HTTPAdapter
from urllib3 import HTTPConnectionPool, HTTPSConnectionPool, ProxyManager
from urllib3.connection import HTTPConnection, HTTPSConnection

from nodemanager.deadline import Bounded
from nodemanager.errors import CloudError, ForeignAnswer, Throttled


class Answer:
    """The server's raw answer; libcloud's own response classes would raise by HTTP status."""

    def __init__(self, response: Any, connection: Any = None) -> None:
        self.status: int = response.status_code
        self.headers: Mapping[str, str] = response.headers
        self.content: bytes = response.content

    @property
    def wait_asked_for(self) -> float | None:
        """Seconds to wait by its Retry-After header."""
        return wait_asked_for(self.headers.get("retry-after"))

    def of_a_proxy(self, text: str) -> CloudError:
        """The error for an answer in which the cloud itself says nothing, with that message."""
        if self.status == http.client.TOO_MANY_REQUESTS:
            return Throttled(text, retry_after=self.wait_asked_for)
        if self.status >= 500:
            return CloudError(text, retry_after=self.wait_asked_for)
        return ForeignAnswer(text)


class WholeAnswers:
    """Mix-in for a libcloud connection class: gives raw answers and never sends twice.

    `trust` is the path of the certificates that the server is verified by, False for no
    verification, None for the system's certificates.
    """

    responseCls = Answer
    trust: str | bool | None = None

    def connect(self, *args: Any, **kwargs: Any) -> None:
        # libcloud has no types: the type checker sees neither this method nor the connection.
        super().connect(*args, **kwargs)  # type: ignore[misc]
        transport: Any = self.connection  # type: ignore[attr-defined]
        # A redirect would send the request a second time, even a create.
        transport.session.max_redirects = 0
        within_its_time(transport.session)
        # Otherwise requests replaces the signature with credentials from ~/.netrc.
        transport.session.auth = _keep_signature
        if self.trust is not None:
            transport.ca_cert = self.trust


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
        self.poolmanager.pool_classes_by_scheme = _POOLS

    def proxy_manager_for(self, *args: Any, **kwargs: Any) -> Any:
        manager = super().proxy_manager_for(*args, **kwargs)
        # One for SOCKS has pools of its own.
        if isinstance(manager, ProxyManager):
            manager.pool_classes_by_scheme = _POOLS
        return manager


_POOLS = {"http": _Pool, "https": _TlsPool}


def _keep_signature(request: Any) -> Any:
    return request


def wait_asked_for(header: str | None) -> float | None:
    """Seconds to wait by a Retry-After header (a number or a date); None where it is neither."""
    if header is None:
        return None
    try:
        seconds = float(header)
    except ValueError:
        try:
            seconds = parsedate_to_datetime(header).timestamp() - time.time()
        except (ValueError, OverflowError, OSError):
            # No date, or one outside the clock's range.
            return None
    return seconds if 0 < seconds < float("inf") else None
