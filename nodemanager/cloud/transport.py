"""What our own requests need of a libcloud connection: raw answers, each request sent once,
with the token that all threads share."""

from __future__ import annotations

import http.client
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from email.utils import parsedate_to_datetime
from typing import Any, Generic, TypeVar

from libcloud.common.base import Connection

from nodemanager.cloud.declared import Endpoint
from nodemanager.cloud.refusal import CodedRefusal
from nodemanager.errors import CloudError, ForeignAnswer, IncompleteListing, Throttled
from nodemanager.lib import foreign
from nodemanager.lib.bounded_session import within_its_time

T = TypeVar("T")

EARLY_S = 300.0
"""A token is renewed so long before it ends. A metadata server gives a new one from then on."""


class TokenSource(Generic[T]):
    """Gives all threads the token that is valid now, which is kept in memory alone. `ask` gets a
    new one, and the seconds that it lasts.

    libcloud asks for one as soon as a driver is made, for each driver anew. Here it is asked for
    when it is needed.

    It is renewed `early` seconds before its end. The monotonic clock counts, so that a wrong clock
    of this machine does no harm.
    """

    def __init__(self, ask: Callable[[], tuple[T, float]], early: float = EARLY_S) -> None:
        self._ask = ask
        self._early = early
        self._lock = threading.Lock()
        self._token: T | None = None
        self._until = 0.0
        self._failures = 0

    @property
    def access_token(self) -> T:
        """As libcloud's connection asks for it. Raises Unauthorized where it is refused."""
        before = self._failures
        with self._lock:
            if self._token is not None and time.monotonic() < self._until:
                return self._token
            if self._failures != before:
                # Or each thread would wait for its own time-out, one after the other.
                raise CloudError("no access token was to be had a moment ago")
            try:
                asked_at = time.monotonic()
                token, life = self._ask()
                self._token = token
                # A token that is about to end may be all there is for some seconds.
                self._until = asked_at + max(life - self._early, min(life / 2, 10.0))
                return token
            except Exception:
                # Whatever it was, those who waited for this token learn that there is none.
                self._failures += 1
                raise

    def refused(self, which: Callable[[T], bool] = lambda token: True) -> None:
        """Note that the token was refused: the next request asks for a new one, unless that one is
        known no more."""
        with self._lock:
            if self._token is not None and which(self._token):
                self._token = None


P = TypeVar("P")

MOST_PAGES = 10_000


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
        transport.session.auth = keep_signature
        if self.trust is not None:
            transport.ca_cert = self.trust


class EndpointAnswers(WholeAnswers):
    """The same at an address of ours, without libcloud's own sign-in and retries.

    `tokens` are for a cloud whose requests carry a token that all threads share.
    """

    endpoint: Endpoint
    tokens: TokenSource[str] | None = None

    def __init__(self, *_args: Any, timeout: float | None = None, **_settings: Any) -> None:
        here: Any = self
        where = self.endpoint
        Connection.__init__(
            here, secure=where.secure, host=where.host, port=where.port, timeout=timeout
        )
        here.user_id = here.key = None
        here.request_path = where.path

    def request(self, *args: Any, **kwargs: Any) -> Any:
        answer = Connection.request(self, *args, retry_failed=False, **kwargs)
        if answer.status == http.client.UNAUTHORIZED and self.tokens is not None:
            self.tokens.refused()
        return answer


def keep_signature(request: Any) -> Any:
    return request


def json_of(
    answer: Answer,
    doing: str,
    refusal: type[CodedRefusal],
    said: Callable[[Mapping[str, Any]], tuple[str, str]],
) -> Any:
    """The JSON of a success; `doing` begins with the request's method.

    Raises the `refusal` for an error answer's object in which `said` finds a code, with a message
    beside it; a CloudError for an error without a code, and for what is no whole JSON.
    """
    try:
        content = foreign.loads(answer.content)
    except ValueError as error:
        raise without_code(answer, doing, "no whole JSON") from error
    if 200 <= answer.status < 300:
        return content
    code, message = said(content) if isinstance(content, dict) else ("", "")
    if code:
        raise refusal(code, message, answer.status, answer.wait_asked_for)
    raise without_code(answer, doing, "an error without a code")


def json_object(content: object, doing: str) -> dict[str, Any]:
    """What was told, which must be an object; raises ForeignAnswer for anything else."""
    if not isinstance(content, dict):
        raise ForeignAnswer(f"{doing}: the answer is a {type(content).__name__}")
    return content


def each_page(
    ask: Callable[[str | None], P], next_of: Callable[[P], object], doing: str
) -> Iterator[P]:
    """Every page: `ask` gets what the last one, by `next_of`, tells of the next; None at first.

    Ends after a page that tells of none. Raises IncompleteListing for pages that repeat (L2).
    """
    mark: str | None = None
    seen: set[str] = set()
    while True:
        page = ask(mark)
        yield page
        following = next_of(page)
        if not following:
            return
        if not isinstance(following, str) or following in seen or len(seen) >= MOST_PAGES:
            raise IncompleteListing(f"{doing}: the pages repeat endlessly")
        seen.add(following)
        mark = following


def without_code(answer: Answer, doing: str, found: str) -> CloudError:
    """The error for an answer without any of the cloud's codes: a proxy's, or a broken one.

    `doing` begins with the request's method, or the name of its action.
    """
    text = f"{doing}: HTTP {answer.status}, {found}"
    if answer.status == 200 and doing.startswith(("GET", "Describe")):
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
