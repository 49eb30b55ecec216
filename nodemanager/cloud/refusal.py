"""What the errors of a cloud, and of its library, mean to us: the same for every adapter."""

from __future__ import annotations

import base64
import http.client
import re
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import ClassVar, TypeVar

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


T = TypeVar("T")
_LONGEST_REFUSAL = 400


def words(text: str) -> frozenset[str]:
    """The words of a text, such as a cloud's codes, in any order."""
    return frozenset(text.split())


class CodedRefusal(Exception):
    """A refused request, or an operation that failed; `message` is one line."""

    MEANINGS: ClassVar[Sequence[tuple[Collection[str], type[CloudError]]]] = ()
    """The cloud's codes, and the error that they mean (D6). The first row that has the code counts;
    without one it is the HTTP status."""
    FULL_THERE: ClassVar[Collection[str]] = ()
    """Further codes that say of one place alone that it has no room."""
    NOT_FOUND: ClassVar[str | None] = None
    """The cloud's own "no such thing"; a proxy's 404 has no code of the cloud's."""

    def __init__(
        self, code: str, message: str, status: int, retry_after: float | None = None
    ) -> None:
        super().__init__()
        self.code = code
        self.message = " ".join(message.split())
        self.status = status
        self.retry_after = retry_after

    def __str__(self) -> str:
        return f"{self.code}: {self.message}"

    @property
    def meaning(self) -> type[CloudError]:
        for codes, meaning in self.MEANINGS:
            if self.code in codes:
                return meaning
        if self.status == 429:
            return Throttled
        if self.status in (401, 403):
            return Unauthorized
        return CloudError if self.status >= 500 or self.status in (408, 409) else BadRequest

    @property
    def is_not_found(self) -> bool:
        return self.code == self.NOT_FOUND

    def typed(self, doing: str) -> CloudError:
        """The CloudError for it, which says what was refused in the cloud's own words."""
        text = f"{doing}: {without_secrets(str(self))[:_LONGEST_REFUSAL]}"
        return self.meaning(text, retry_after=self.retry_after)

    def hide(self, secrets: Iterable[str]) -> None:
        self.message = without_secrets(self.message, secrets)


def unless_missing(ask: Callable[[], T]) -> T | None:
    """The answer; None for the cloud's own "no such thing" alone."""
    try:
        return ask()
    except CodedRefusal as refusal:
        if refusal.is_not_found:
            return None
        raise
