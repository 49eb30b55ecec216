"""The translation of the Arvados API's errors to ours.

No message contains a URL, since a ping's query contains its secret.
"""

from __future__ import annotations

import email.utils
import http.client
import ssl
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import httplib2
from googleapiclient.errors import Error as GoogleError
from googleapiclient.errors import HttpError

from nodemanager.errors import NoFreeSlot, NoSuchRecord, StoreError, StoreRefused
from nodemanager.lib import foreign, redact

# Refusals for which the same request may succeed later.
_NOT_NOW = frozenset({408, 409, 423, 425, 429})
_MOST_TEXT = 200


@contextmanager
def translated(what: str, *, of_record: bool = False, slot_asked: bool = False) -> Iterator[None]:
    """Translate what the Arvados client raises in the block to StoreError or a subclass.

    `what` names the request in the error's text. With `of_record`, a 404 in the API's own form is
    NoSuchRecord; with `slot_asked`, a 422 whose text mentions slots is NoFreeSlot.
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
        raise StoreError(f"{what}: {type(error).__name__}: the answer was cut off") from None
    except (GoogleError, ValueError, KeyError, RecursionError) as error:
        told = StoreError(f"{what}: an answer that is not Arvados' ({type(error).__name__})")
        raise told from None
    except (TypeError, AttributeError) as error:
        # The client lacks methods and parameters that the discovery document does not declare.
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
        return StoreRefused(f"{text}; [Arvados] token must be a valid administrator's token")
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
    """The API's error messages, shortened and without secrets; None for another server's answer."""
    try:
        body = foreign.loads(content)
    except ValueError:
        return None
    errors = body.get("errors") if isinstance(body, dict) else None
    if not isinstance(errors, list):
        return None
    return redact.text("; ".join(str(error) for error in errors))[:_MOST_TEXT]


def retry_after(headers: Mapping[str, str], wall: Callable[[], float] = time.time) -> float | None:
    """Seconds to wait by a Retry-After header with seconds or a date; None without one."""
    given = str(headers.get("retry-after", "")).strip()
    if given.isascii() and given.isdigit():
        return float(given[:9])
    until = date_of(given)
    if until is None:
        return None
    told = date_of(headers.get("date"))
    return max(0.0, until - (wall() if told is None else told))


def date_of(header: Any) -> float | None:
    """Whole epoch seconds of an HTTP date; None for any other text."""
    try:
        return email.utils.parsedate_to_datetime(str(header)).timestamp()
    except (ValueError, TypeError, OverflowError):
        return None


def _text(error: Exception) -> str:
    said = getattr(error, "strerror", None) or (error.args[-1] if error.args else "")
    return redact.text(str(said or type(error).__name__).partition("\n")[0])[:_MOST_TEXT]
