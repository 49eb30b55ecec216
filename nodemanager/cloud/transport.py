"""What our own requests need of a libcloud connection: raw answers, each request sent once."""

from __future__ import annotations

import time
from collections.abc import Mapping
from email.utils import parsedate_to_datetime
from typing import Any


class Answer:
    """The server's raw answer; libcloud's own response classes would raise by HTTP status."""

    def __init__(self, response: Any, connection: Any) -> None:
        self.status: int = response.status_code
        self.headers: Mapping[str, str] = response.headers
        self.content: bytes = response.content


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
        # Otherwise requests replaces the signature with credentials from ~/.netrc.
        transport.session.auth = _keep_signature
        if self.trust is not None:
            transport.ca_cert = self.trust


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
