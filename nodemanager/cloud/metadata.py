"""The metadata server of a machine of a cloud, which gives it a token for its own identity."""

from __future__ import annotations

import http.client
from collections.abc import Container, Mapping
from typing import Any

import requests
from urllib3.exceptions import NewConnectionError

from nodemanager import foreign
from nodemanager.bounded_session import within_its_time
from nodemanager.cloud.transport import Answer
from nodemanager.errors import CloudError, Unauthorized


def from_metadata(
    url: str,
    what: str,
    *,
    headers: Mapping[str, str],
    params: Mapping[str, str] | None = None,
    timeout: float,
    without: str,
    refused: str,
    passing: Container[int] = (),
) -> str:
    """What the metadata server of the machine that this runs on answers, asked for `what`.

    Raises Unauthorized, with `without` where there is no such server, and with `refused` where it
    does not tell. A fault on the way, a server's error and one of the statuses of `passing` say
    nothing about the machine's role: they are a CloudError, and 429 is Throttled.
    """
    with requests.Session() as session:
        # Neither a proxy nor ~/.netrc is for this server.
        session.trust_env = False
        within_its_time(session)
        try:
            found = session.get(
                url,
                headers=headers,
                params=params,
                timeout=timeout,
                allow_redirects=False,
            )
        except requests.RequestException as error:
            kind = Unauthorized if _nobody_there(error) else CloudError
            raise kind(f"{without}: {type(error).__name__}") from error
    answer = Answer(found)
    if answer.status == http.client.OK:
        return found.text
    text = f"this instance's metadata server tells no {what}: HTTP {answer.status}"
    if answer.status in passing:
        raise CloudError(text, retry_after=answer.wait_asked_for)
    if answer.status == http.client.TOO_MANY_REQUESTS or answer.status >= 500:
        raise answer.of_a_proxy(text)
    raise Unauthorized(f"{text}; {refused}")


def _nobody_there(error: requests.RequestException) -> bool:
    """Whether the request reached no server at all."""
    why = getattr(error.args[0], "reason", None) if error.args else None
    return isinstance(error, requests.ConnectTimeout) or isinstance(why, NewConnectionError)


def as_token(answer: str) -> Mapping[str, Any]:
    """A metadata server's answer to the question for a token. Raises CloudError for no JSON."""
    try:
        told: Mapping[str, Any] = foreign.loads(answer)
    except ValueError as error:
        raise CloudError("the metadata server's answer is no JSON") from error
    return told
