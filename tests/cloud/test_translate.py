"""What a library's exceptions become, and what their text may show."""

from __future__ import annotations

import base64
import ssl

import pytest
import requests
from libcloud.common.exceptions import BaseHTTPError, RateLimitReachedError
from libcloud.common.types import InvalidCredsError, MalformedResponseError, ProviderError

from nodemanager.cloud.refusal import http_status, retry_after, tells_secrets, translate
from nodemanager.errors import BadRequest, CloudError, QuotaExceeded, Throttled, Unauthorized
from tests.cases import cases

SECRET = "https://records.example.org/nodes/u/ping?ping_secret=verysecret"


@cases(
    ("raised", "kind", "definite"),
    {
        "rate-limit": (RateLimitReachedError(), Throttled, True),
        "429": (BaseHTTPError(429, "slow down"), Throttled, True),
        "provider-429": (ProviderError("slow down", 429), Throttled, True),
        "credentials": (InvalidCredsError(), Unauthorized, True),
        "401": (BaseHTTPError(401, "who?"), Unauthorized, True),
        "403": (BaseHTTPError(403, "no"), Unauthorized, True),
        "400": (BaseHTTPError(400, "no such image"), BadRequest, True),
        "404": (BaseHTTPError(404, "no such thing"), BadRequest, True),
        "408": (BaseHTTPError(408, "too slow"), CloudError, False),
        "409": (BaseHTTPError(409, "conflict"), CloudError, False),
        "500": (BaseHTTPError(500, "oh"), CloudError, False),
        "503": (BaseHTTPError(503, "oh"), CloudError, False),
        "time-out": (requests.ReadTimeout(), CloudError, False),
        "connection": (requests.ConnectionError(), CloudError, False),
        "socket-time-out": (TimeoutError(), CloudError, False),
        "cut": (ConnectionResetError(), CloudError, False),
        "tls": (ssl.SSLError("bad certificate"), CloudError, False),
        "malformed": (MalformedResponseError("no xml"), CloudError, False),
        "surprise": (AttributeError("surprise"), CloudError, False),
    },
)
def test_every_exception_becomes_one_of_ours(
    raised: Exception, kind: type[CloudError], definite: bool
) -> None:
    ours = translate(raised, "create compute1")
    assert type(ours) is kind
    assert ours.definite is definite
    assert str(ours).startswith("create compute1: ")
    assert "\n" not in str(ours)


def test_an_error_of_ours_stays_what_it_is() -> None:
    ours = QuotaExceeded("no more")
    assert translate(ours, "create") is ours


@pytest.mark.parametrize(
    ("headers", "expected"),
    [({"retry-after": "30"}, 30.0), ({}, None), (None, None), ({"retry-after": "soon"}, None)],
    ids=["named", "not-named", "no-headers", "nonsense"],
)
def test_retry_after_is_passed_on(headers: dict[str, str] | None, expected: float | None) -> None:
    assert retry_after(BaseHTTPError(503, "later", headers)) == expected
    assert translate(BaseHTTPError(503, "later", headers), "list").retry_after == expected


def test_a_status_is_found_wherever_a_library_keeps_it() -> None:
    answer = requests.Response()
    answer.status_code = 403
    assert http_status(requests.HTTPError(response=answer)) == 403
    assert http_status(ProviderError("no", 404)) == 404
    assert http_status(OSError(111, "refused")) is None


def test_a_secret_of_several_lines_is_hidden_where_a_library_folds_them() -> None:
    secret = "#cloud-config\n  token:\tverysecret\n"
    for quoted in (secret, " ".join(secret.split())):
        error = BaseHTTPError(400, f"bad user data: {quoted} at line 2")
        assert "verysecret" not in str(translate(error, "create", [secret]))
        assert tells_secrets(error, [secret])


@cases(
    "text",
    {
        "plain": f"user data {SECRET} refused",
        "base64": f"UserData={base64.b64encode(SECRET.encode()).decode()}",
        "query": "url: /?Action=Run&UserData=verysecret (Caused by x)",
    },
)
def test_no_secret_reaches_the_text(text: str) -> None:
    error = BaseHTTPError(400, text)
    shown = str(translate(error, "create", [SECRET]))
    assert "verysecret" not in shown
    assert base64.b64encode(SECRET.encode()).decode() not in shown
    assert tells_secrets(error, [SECRET])
    assert not tells_secrets(BaseHTTPError(400, "no such image"), [SECRET])
