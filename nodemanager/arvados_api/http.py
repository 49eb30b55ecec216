"""The HTTP layer of the Arvados client: sends each request once, with a time limit for all of it.

httplib2 0.32 itself repeats a request, even a create, when the connection ends before an answer,
whatever its RETRIES says. It also keeps connections that the server may have closed, and limits
each read of the socket but not the whole answer.
"""

from __future__ import annotations

import http.client
from collections.abc import Mapping
from typing import Any

import httplib2

from nodemanager.lib.deadline import Bounded


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


class _Once(Bounded):
    """Mix-in for our two connection classes; a connection lives for one request."""

    def getresponse(self) -> http.client.HTTPResponse:
        try:
            answer: http.client.HTTPResponse = super().getresponse()  # type: ignore[misc]  # as above
        except (http.client.BadStatusLine, http.client.ResponseNotReady) as error:
            # httplib2 takes these two for a stale connection and would send the request again.
            raise ConnectionResetError("the connection ended without an answer") from error
        return answer


class _Http(_Once, httplib2.HTTPConnectionWithTimeout):  # type: ignore[misc]  # no types
    pass


class _Https(_Once, httplib2.HTTPSConnectionWithTimeout):  # type: ignore[misc]  # no types
    pass
