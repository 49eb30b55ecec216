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

SECRET = "https://records.example.org/nodes/u/ping?ping_secret=verysecret"


@pytest.mark.parametrize(
    ("raised", "kind", "definite"),
    [
        pytest.param(RateLimitReachedError(), Throttled, True, id="rate-limit"),
        pytest.param(BaseHTTPError(429, "slow down"), Throttled, True, id="429"),
        pytest.param(ProviderError("slow down", 429), Throttled, True, id="provider-429"),
        pytest.param(InvalidCredsError(), Unauthorized, True, id="credentials"),
        pytest.param(BaseHTTPError(401, "who?"), Unauthorized, True, id="401"),
        pytest.param(BaseHTTPError(403, "no"), Unauthorized, True, id="403"),
        pytest.param(BaseHTTPError(400, "no such image"), BadRequest, True, id="400"),
        pytest.param(BaseHTTPError(404, "no such thing"), BadRequest, True, id="404"),
        pytest.param(BaseHTTPError(408, "too slow"), CloudError, False, id="408"),
        pytest.param(BaseHTTPError(409, "conflict"), CloudError, False, id="409"),
        pytest.param(BaseHTTPError(500, "oh"), CloudError, False, id="500"),
        pytest.param(BaseHTTPError(503, "oh"), CloudError, False, id="503"),
        pytest.param(requests.ReadTimeout(), CloudError, False, id="time-out"),
        pytest.param(requests.ConnectionError(), CloudError, False, id="connection"),
        pytest.param(TimeoutError(), CloudError, False, id="socket-time-out"),
        pytest.param(ConnectionResetError(), CloudError, False, id="cut"),
        pytest.param(ssl.SSLError("bad certificate"), CloudError, False, id="tls"),
        pytest.param(MalformedResponseError("no xml"), CloudError, False, id="malformed"),
        pytest.param(AttributeError("surprise"), CloudError, False, id="surprise"),
    ],
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


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(f"user data {SECRET} refused", id="plain"),
        pytest.param(f"UserData={base64.b64encode(SECRET.encode()).decode()}", id="base64"),
        pytest.param("url: /?Action=Run&UserData=verysecret (Caused by x)", id="query"),
    ],
)
def test_no_secret_reaches_the_text(text: str) -> None:
    error = BaseHTTPError(400, text)
    shown = str(translate(error, "create", [SECRET]))
    assert "verysecret" not in shown
    assert base64.b64encode(SECRET.encode()).decode() not in shown
    assert tells_secrets(error, [SECRET])
    assert not tells_secrets(BaseHTTPError(400, "no such image"), [SECRET])
