"""What the head of a request must be: versions, hosts, lengths."""

from __future__ import annotations

from http import HTTPStatus

import pytest

from nodemanager.httpserver.connections import LONGEST_URL, Header, problem_of

HOST = (b"host", b"nodes.example:8080")


def most(path: bytes) -> int:
    return 10 if path.endswith(b"/ping") else 1000


def asked(
    *headers: Header, version: str = "1.1", url: bytes = b"/x", host: bytes | None = None
) -> HTTPStatus | None:
    first = () if host == b"" else ((b"host", host),) if host is not None else (HOST,)
    return problem_of(version, url, [*first, *headers], most)


@pytest.mark.parametrize("version", ["0.9", "2.0", "3.0", ""])
def test_a_version_that_is_not_spoken_here_is_505(version: str) -> None:
    assert asked(version=version) is HTTPStatus.HTTP_VERSION_NOT_SUPPORTED


def test_only_http_1_0_does_without_a_host() -> None:
    assert asked(version="1.0", host=b"") is None
    assert asked(host=b"") is HTTPStatus.BAD_REQUEST
    assert asked(HOST) is HTTPStatus.BAD_REQUEST


@pytest.mark.parametrize(
    "host", ["a", "a.b-c_d", "10.0.0.1:80", "[::1]", "[fe80::1]:8080", "xn--caf-dma.example"]
)
def test_a_host_is_taken(host: str) -> None:
    assert asked(host=host.encode()) is None


@pytest.mark.parametrize(
    "host",
    ["a:b", "a:", "a:b:c", "[", "[::1", "[::1]x", "a b", "a/b", "a:" + "9" * 6, "caf\xe9", "a@b:c"],
)
def test_what_is_no_host_is_400(host: str) -> None:
    assert asked(host=host.encode("latin-1")) is HTTPStatus.BAD_REQUEST


def test_a_url_has_its_limit() -> None:
    assert asked(url=b"/" + b"a" * (LONGEST_URL - 1)) is None
    assert asked(url=b"/?" + b"a" * LONGEST_URL) is HTTPStatus.REQUEST_URI_TOO_LONG


@pytest.mark.parametrize(
    ("url", "length", "expected"),
    [
        (b"/x", b"1000", None),
        (b"/x", b"1001", HTTPStatus.REQUEST_ENTITY_TOO_LARGE),
        (b"/x?of=/ping", b"11", None),
        (b"/a/ping", b"10", None),
        (b"/a/ping?x=/x", b"11", HTTPStatus.REQUEST_ENTITY_TOO_LARGE),
        (b"/a/ping", b"99999999999999999999", HTTPStatus.REQUEST_ENTITY_TOO_LARGE),
    ],
)
def test_each_path_has_the_limit_of_its_body(
    url: bytes, length: bytes, expected: HTTPStatus | None
) -> None:
    assert asked((b"content-length", length), url=url) is expected
