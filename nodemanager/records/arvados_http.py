"""The HTTP under the Arvados client: each request is sent once, and ends in time.

httplib2 0.32 alone sends a request again when the connection ends before an answer, whatever its
RETRIES says and also for a create; keeps connections that the server may have closed by then; and
bounds each read of the socket, not the answer.
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
    """A new connection for each request, nothing sent twice, no redirect followed.

    `timeout` in seconds bounds a request from connect to the last byte. Certificates are checked
    against `ca_file` (PEM) unless `insecure`. No proxy of the environment is used.
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
    """What our two kinds of connection share; one lives for one request."""

    _ends_at = 0.0
    sock: Any

    @property
    def timeout(self) -> float:
        """The seconds that are left, for whichever step asks."""
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
            # These two httplib2 takes for a stale connection, and sends the request again.
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
    """A socket's bytes; before each read `bound` sets how long that one may take."""

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
