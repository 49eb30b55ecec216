"""The HTTP session by which the vendors' libraries sign in: each request once, in our time-out.

google-auth, azure-identity and keystoneauth1 have waits, repetitions and time-outs of their own, of
minutes in sum. None of them goes on after an error that is not its own, such as ours.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any
from urllib.parse import urlsplit

import libcloud.security
import requests
from urllib3.exceptions import NewConnectionError

from nodemanager.cloud.refusal import describe, without_secrets
from nodemanager.cloud.transport import Answer, keep_signature
from nodemanager.errors import CloudError, ForeignAnswer, Unauthorized
from nodemanager.lib import foreign
from nodemanager.lib.bounded_session import within_its_time

PASSING = frozenset({"internal_failure", "server_error", "temporarily_unavailable"})
"""Errors of a sign-in (OAuth 2.0) that say nothing about the credentials."""
_LONGEST = 300


class SignInSession(requests.Session):
    """A session for one sign-in, in one thread.

    Leaves to the library what is its server's own word: a success, or a refusal of the credentials.
    Raises a CloudError for everything else, Throttled for a 429.

    `without` is for a cloud whose machines have a metadata server, over plain http: what to say
    where nobody is there. No proxy is asked for such a server. `trust` is as WholeAnswers has it.
    """

    RENEWED: frozenset[int] = frozenset()
    """What that server answers while it is renewed, which says nothing about the machine."""

    def __init__(
        self, timeout: float, without: str | None = None, trust: str | bool | None = None
    ) -> None:
        super().__init__()
        within_its_time(self)
        self.auth = keep_signature
        self.last: Answer | None = None
        """The newest answer."""
        self._without = without
        # [Daemon] certs_file is there, for libcloud's own connections.
        trust = libcloud.security.CA_CERTS_PATH or True if trust is None else trust
        self._ours = {
            "timeout": timeout,
            "verify": trust,
            "allow_redirects": False,
            "stream": False,
        }

    def request(  # type: ignore[override]  # the libraries name what they give
        self, method: str, url: str, **kwargs: Any
    ) -> requests.Response:
        where = urlsplit(url)
        metadata = self._without is not None and where.scheme == "http"
        # Neither a proxy nor ~/.netrc is for a metadata server.
        self.trust_env = not metadata
        self.last = None
        try:
            found = super().request(method, url, **{**kwargs, **self._ours})
        except requests.RequestException as error:
            if metadata and _nobody_there(error):
                raise Unauthorized(f"{self._without}: {type(error).__name__}") from error
            raise CloudError(f"sign-in at {where.netloc}: {type(error).__name__}") from error
        self.last = answer = Answer(found)
        if metadata and answer.status in self.RENEWED:
            raise CloudError(f"sign-in at {where.netloc}: HTTP {answer.status}")
        _check(answer, f"sign-in at {where.netloc}: HTTP {answer.status}", metadata)
        return found

    def failed(self, error: Exception, doing: str, secrets: Iterable[str] = ()) -> CloudError:
        """Ours for an error that a library raised: Unauthorized, but after a success, which then
        was no token. No text has one of the `secrets` in it."""
        cause: BaseException | None = error
        while cause is not None:
            if isinstance(cause, CloudError):
                return cause
            cause = cause.__cause__
        if self.last is None:
            return Unauthorized(f"{doing}: {describe(error, secrets)}")
        if self.last.status < 300:
            return ForeignAnswer(f"{doing}: the answer is no token ({type(error).__name__})")
        content = _content_of(self.last)
        said = " ".join(str(content.get(key, "")) for key in ("error", "error_description")).split()
        text = without_secrets(" ".join(said), secrets)[:_LONGEST]
        kind = type(error).__name__
        return Unauthorized(f"{doing}: HTTP {self.last.status}, {text or 'no reason'} ({kind})")


def _check(answer: Answer, text: str, metadata: bool) -> None:
    """Raise the error for an answer in which nobody speaks about the credentials."""
    if answer.status < 300:
        return
    error = _content_of(answer).get("error")
    if answer.status == 408 or str(error) in PASSING:
        raise CloudError(text, retry_after=answer.wait_asked_for)
    if answer.status == 429 or answer.status >= 500 or not (error or metadata):
        raise answer.of_a_proxy(text)


def _content_of(answer: Answer) -> dict[str, Any]:
    """The JSON object of an answer; empty where it has none."""
    try:
        content = foreign.loads(answer.content)
    except ValueError:
        return {}
    return content if isinstance(content, dict) else {}


def _nobody_there(error: requests.RequestException) -> bool:
    """Whether the request reached no server at all."""
    why = getattr(error.args[0], "reason", None) if error.args else None
    return isinstance(error, requests.ConnectTimeout) or isinstance(why, NewConnectionError)
