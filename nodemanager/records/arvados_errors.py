"""What an answer of the Arvados API that is no success means, as one of our own errors.

No URL gets into a text: a ping's query bears its secret.
"""

from __future__ import annotations

import email.utils
import http.client
import json
import ssl
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import httplib2
from googleapiclient.errors import Error as GoogleError
from googleapiclient.errors import HttpError

from nodemanager import redact
from nodemanager.errors import NoFreeSlot, NoSuchRecord, StoreError, StoreRefused

# Refusals that say nothing of the request itself: the same may succeed later.
_NOT_NOW = frozenset({408, 409, 423, 425, 429})
_MOST_TEXT = 200


@contextmanager
def translated(what: str, *, of_record: bool = False, slot_asked: bool = False) -> Iterator[None]:
    """Raise what the Arvados client raises inside as StoreError or one of its kinds.

    `what` says in the error's text what was tried. Where one record was asked for, a 404 in the
    API's own form is NoSuchRecord; where a slot was, a 422 that speaks of slots is NoFreeSlot.
    """
    try:
        yield
    except HttpError as error:
        status, headers = int(error.resp.status), error.resp
        told = refusal(
            what, status, headers, error.content, of_record=of_record, slot_asked=slot_asked
        )
        raise told from None
    except (ssl.SSLError, ssl.CertificateError) as error:
        raise StoreError(f"{what}: its certificate is not trusted ({_text(error)})") from None
    except TimeoutError:
        raise StoreError(f"{what}: no answer in time") from None
    except OSError as error:
        raise StoreError(f"{what}: {_text(error)}") from None
    except (httplib2.HttpLib2Error, http.client.HTTPException) as error:
        raise StoreError(f"{what}: {type(error).__name__}: the answer was cut or none") from None
    except (GoogleError, ValueError, KeyError, RecursionError) as error:
        told = StoreError(f"{what}: an answer that is not Arvados' ({type(error).__name__})")
        raise told from None
    except (TypeError, AttributeError) as error:
        # What the discovery document does not declare, the client does not have.
        raise StoreRefused(f"{what}: the server's API lacks it ({_text(error)})") from None


def refusal(
    what: str,
    status: int,
    headers: Mapping[str, str],
    content: bytes,
    *,
    of_record: bool = False,
    slot_asked: bool = False,
) -> StoreError:
    """The error for an answer with `status` 300 or more; see `translated`."""
    said = errors_of(content)
    text = f"{what}: {status}" + (f" {said}" if said else "")
    if status in (401, 403):
        return StoreRefused(f"{text}; [Arvados] token must be a valid one, an administrator's")
    if status == 404 and of_record and said is not None:
        return NoSuchRecord(text)
    if status == 422 and slot_asked and said is not None and "slot" in said.lower():
        return NoFreeSlot(text)
    if 400 <= status < 500 and status not in {404, *_NOT_NOW} and said is not None:
        return StoreRefused(text)
    if 300 <= status < 500 and status not in _NOT_NOW:
        return StoreError(f"{text}, which is not Arvados' answer; see [Arvados] host")
    return StoreError(text, retry_after=retry_after(headers))


def errors_of(content: bytes) -> str | None:
    """What the API says went wrong, short and without secrets; None for what is not the API's."""
    try:
        body = json.loads(content)
    except (ValueError, RecursionError):
        return None
    errors = body.get("errors") if isinstance(body, dict) else None
    if not isinstance(errors, list):
        return None
    return redact.text("; ".join(str(error) for error in errors))[:_MOST_TEXT]


def retry_after(headers: Mapping[str, str], wall: Callable[[], float] = time.time) -> float | None:
    """Seconds to wait, from a Retry-After of seconds or of a date."""
    given = str(headers.get("retry-after", "")).strip()
    if given.isascii() and given.isdigit():
        return float(given[:9])
    until = date_of(given)
    if until is None:
        return None
    told = date_of(headers.get("date"))
    return max(0.0, until - (wall() if told is None else told))


def date_of(header: Any) -> float | None:
    """Epoch seconds of an HTTP date, whole ones; None for what is none."""
    try:
        return email.utils.parsedate_to_datetime(str(header)).timestamp()
    except (ValueError, TypeError, OverflowError):
        return None


def _text(error: Exception) -> str:
    said = getattr(error, "strerror", None) or (error.args[-1] if error.args else "")
    return redact.text(str(said or type(error).__name__).partition("\n")[0])[:_MOST_TEXT]
