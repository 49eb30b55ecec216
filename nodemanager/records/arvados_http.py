"""The HTTP layer of the Arvados client: sends each request once, with a time limit for all of it.

httplib2 0.32 itself repeats a request, even a create, when the connection ends before an answer,
whatever its RETRIES says. It also keeps connections that the server may have closed, and limits
each read of the socket but not the whole answer.
"""

from __future__ import annotations

import http.client
import io
import time
from collections.abc import Callable, Mapping
from typing import Any

import httplib2

_LEAST_S = 0.001


class OneShotHttp(httplib2.Http):  # type: ignore[misc]  # httplib2 has no types
    """An httplib2.Http with a new connection per request, without repeats and redirects.

    `timeout` in seconds limits a request from connect to the last byte. Certificates are checked
    against `ca_file` (PEM) unless `insecure`. The environment's proxies are not used.
    """

    def __init__(self, *, timeout: float, insecure: bool, ca_file: str) -> None:
        super().__init__(
            timeout=timeout,
            ca_certs=ca_file,
            disable_ssl_certificate_validation=insecure,
            proxy_info=None,
        )
        self.follow_redirects = False

    def request(
        self,
        uri: str,
        method: str = "GET",
        body: Any = None,
        headers: Mapping[str, str] | None = None,
        redirections: int = 0,
        connection_type: Any = None,
    ) -> tuple[httplib2.Response, bytes]:
        kind = _Https if uri.lower().startswith("https:") else _Http
        once = {**(headers or {}), "connection": "close"}
        try:
            answer: tuple[httplib2.Response, bytes] = super().request(
                uri, method, body, once, redirections, kind
            )
            return answer
        finally:
            self.close()


class _Once:
    """Mix-in for our two connection classes; a connection lives for one request."""

    _ends_at = 0.0
    sock: Any

    @property
    def timeout(self) -> float:
        """The seconds that are left for the request."""
        return max(_LEAST_S, self._ends_at - time.monotonic())

    @timeout.setter
    def timeout(self, seconds: float) -> None:
        self._ends_at = time.monotonic() + seconds

    def send(self, data: Any) -> None:
        if self.sock is not None:
            self.sock.settimeout(self.timeout)
        super().send(data)  # type: ignore[misc]  # of http.client's connection, beside this class

    def getresponse(self) -> http.client.HTTPResponse:
        try:
            answer: http.client.HTTPResponse = super().getresponse()  # type: ignore[misc]  # as above
        except (http.client.BadStatusLine, http.client.ResponseNotReady) as error:
            # httplib2 takes these two for a stale connection and would send the request again.
            raise ConnectionResetError("the connection ended without an answer") from error
        return answer

    def response_class(self, sock: Any, **more: Any) -> http.client.HTTPResponse:
        answer = http.client.HTTPResponse(sock, **more)
        raw = answer.fp.detach()
        answer.fp = io.BufferedReader(_Until(raw, lambda: self._bound(sock)))
        return answer

    def _bound(self, sock: Any) -> None:
        if time.monotonic() >= self._ends_at:
            raise TimeoutError("no whole answer in time")
        sock.settimeout(self.timeout)


class _Http(_Once, httplib2.HTTPConnectionWithTimeout):  # type: ignore[misc]  # no types
    pass


class _Https(_Once, httplib2.HTTPSConnectionWithTimeout):  # type: ignore[misc]  # no types
    pass


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
