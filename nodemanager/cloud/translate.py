"""The translation of a cloud library's exceptions to ours, the same for every adapter."""

from __future__ import annotations

import base64
import http.client
import re
from collections.abc import Iterable

from libcloud.common.exceptions import BaseHTTPError, RateLimitReachedError
from libcloud.common.types import InvalidCredsError, LibcloudError

from nodemanager.errors import BadRequest, CloudError, Throttled, Unauthorized

REFUSED = frozenset({400, 404, 405, 406, 410, 411, 413, 414, 415, 422})
"""HTTP statuses that mean that the server did nothing; 408 and 409 don't mean that."""

_QUERY = re.compile(r"\?[^\s'\"<>)\]]*")
_BASE64 = re.compile(r"[A-Za-z0-9+/]{60,}={0,2}")
"""Longer than any name or id: user data, which an operation may quote minutes after its order."""
_LONGEST = 300


def translate(error: Exception, doing: str, secrets: Iterable[str] = ()) -> CloudError:
    """The CloudError for an exception that a library raised while `doing` something.

    Time-outs, cut connections, 5xx and all unknown errors become a plain CloudError, which is
    not definite: the request may have taken effect (SAFETY.md U6). `secrets` never appear in
    the text, neither plain nor in base64; nor does any URL's query, since libcloud sends user
    data and signatures there.
    """
    if isinstance(error, CloudError):
        return error
    text = f"{doing}: {describe(error, secrets)}"
    status = http_status(error)
    wait = retry_after(error)
    if isinstance(error, RateLimitReachedError) or status == http.client.TOO_MANY_REQUESTS:
        return Throttled(text, retry_after=wait)
    if isinstance(error, InvalidCredsError) or status in (401, 403):
        return Unauthorized(text)
    if status in REFUSED:
        return BadRequest(text)
    return CloudError(text, retry_after=wait)


def http_status(error: Exception) -> int | None:
    """The HTTP status of a library's exception; None where it carries none."""
    response = getattr(error, "response", None)
    for value in (
        getattr(error, "http_code", None),
        getattr(error, "code", None),
        getattr(response, "status_code", None),
    ):
        if isinstance(value, int) and not isinstance(value, bool):
            return int(value)
    return None


def retry_after(error: Exception) -> float | None:
    """The seconds that the server asked us to wait; None where it named none (libcloud's 0)."""
    headers = getattr(error, "headers", None)
    named = headers.get("retry-after") if isinstance(headers, dict) else None
    for value in (getattr(error, "retry_after", None), named):
        try:
            # None and other values that are no number raise the TypeError below.
            seconds = float(value)  # type: ignore[arg-type]
        except (TypeError, ValueError):
            continue
        if 0 < seconds < float("inf"):
            return seconds
    return None


def describe(error: Exception, secrets: Iterable[str] = ()) -> str:
    """One line for the log: the error's class and its text without secrets."""
    said = error.value if isinstance(error, LibcloudError) else error
    text = without_secrets(" ".join(str(said).split()), secrets)
    kind = type(error).__name__
    status = http_status(error) if isinstance(error, BaseHTTPError) else None
    kind = f"{kind} {status}" if status is not None else kind
    return f"{kind}: {text[:_LONGEST]}" if text else kind


def without_secrets(text: str, secrets: Iterable[str] = ()) -> str:
    """`text` with every secret, every URL's query and whatever is long in base64 taken out.

    A secret is also found in base64, and where its lines were folded into one.
    """
    for secret in secrets:
        coded = base64.b64encode(secret.encode()).decode("ascii")
        for form in (secret, " ".join(secret.split()), coded):
            text = text.replace(form, "[secret]") if form else text
    return _BASE64.sub("[data]", _QUERY.sub("?[query]", text))


def tells_secrets(error: Exception, secrets: Iterable[str] = ()) -> bool:
    """Whether the exception's text contains a secret; then no traceback may show it."""
    text = str(error)
    return without_secrets(text, secrets) != text
