"""What the head of a request must be before an application sees the request."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from http import HTTPStatus

LONGEST_URL = 8 * 1024
"""Each application reads a query before it knows who asks. A longer list query goes as a POST."""
_VERSIONS = ("1.0", "1.1")
_HOST = re.compile(rb"(?:\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._~!$&'()*+,;=%-]*)(?::\d{1,5})?")

Header = tuple[bytes, bytes]


def problem_of(
    version: str, url: bytes, headers: Sequence[Header], most: Callable[[bytes], int]
) -> HTTPStatus | None:
    """With which status such a request is refused; None for a proper one.

    `most` gives how many bytes a request of that path, without its query, may have as its body.
    """
    if version not in _VERSIONS:
        return HTTPStatus.HTTP_VERSION_NOT_SUPPORTED
    if len(url) > LONGEST_URL:
        return HTTPStatus.REQUEST_URI_TOO_LONG
    hosts = [value for name, value in headers if name == b"host"]
    if len(hosts) > 1 or (not hosts and version == "1.1"):
        return HTTPStatus.BAD_REQUEST
    if hosts and not _HOST.fullmatch(hosts[0]):
        return HTTPStatus.BAD_REQUEST
    declared = [value for name, value in headers if name == b"content-length"]
    if declared and int(declared[0]) > most(url.partition(b"?")[0]):
        return HTTPStatus.REQUEST_ENTITY_TOO_LARGE
    return None
