"""What our own requests need of a libcloud connection: raw answers, each request sent once."""

from __future__ import annotations

import http.client
import time
from collections.abc import Mapping
from email.utils import parsedate_to_datetime
from typing import Any

from libcloud.common.base import Connection

from nodemanager.cloud.endpoint import Endpoint
from nodemanager.cloud.token import TokenSource
from nodemanager.deadline import within_its_time
from nodemanager.errors import CloudError, ForeignAnswer, IncompleteListing, Throttled


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


class TokenAnswers(WholeAnswers):
    """The same for a cloud whose requests carry a token that all threads share; a subclass sets the
    two attributes. It replaces libcloud's own sign-in, and libcloud's retries."""

    endpoint: Endpoint
    tokens: TokenSource

    def __init__(self, *_args: Any, timeout: float | None = None, **_settings: Any) -> None:
        here: Any = self
        where = self.endpoint
        Connection.__init__(
            here, secure=where.secure, host=where.host, port=where.port, timeout=timeout
        )
        here.user_id = here.key = None
        here.request_path = where.path

    def request(self, *args: Any, **kwargs: Any) -> Any:
        return Connection.request(self, *args, retry_failed=False, **kwargs)


def _keep_signature(request: Any) -> Any:
    return request


def without_code(answer: Answer, doing: str, found: str) -> CloudError:
    """The error for an answer without any of the cloud's codes: a proxy's, or a broken one.

    `doing` begins with the request's method.
    """
    text = f"{doing}: HTTP {answer.status}, {found}"
    if answer.status == 200 and doing.startswith("GET"):
        return IncompleteListing(text)
    return answer.of_a_proxy(text)


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
