"""What OpenStack's refusals mean to us (SAFETY.md D6, U6).

OpenStack has few error codes. The HTTP status decides, and for 403 the message: nova answers
so for a quota that is used up and for a missing right. The messages are those of nova's and
neutron's sources (`exception.py` of each).
"""

from __future__ import annotations

import json
import re
from typing import Any

from nodemanager.cloud.transport import Answer
from nodemanager.errors import (
    BadRequest,
    CapacityUnavailable,
    CloudError,
    QuotaExceeded,
    Throttled,
    Unauthorized,
)

QUOTA = re.compile(
    r"quota exceeded|over (a|the) (limit|quota)|maximum number of (ports|floating ips|security)"
    r"|OverQuota",
    re.IGNORECASE,
)
WRONG_ORDER = re.compile(r"volume-backed|maximum number of metadata", re.IGNORECASE)
"""Refused with 403, but by no missing right."""
CAPACITY = re.compile(r"no valid host was found|not enough hosts available", re.IGNORECASE)

_LONGEST = 300


class Refusal(Exception):
    """An error answer of one of OpenStack's services, in its own words.

    `kind` is nova's name of it, such as `itemNotFound`; other services have other names or none.
    """

    def __init__(
        self, status: int, message: str, retry_after: float | None, kind: str = ""
    ) -> None:
        super().__init__()
        self.status = status
        self.message = message
        self.retry_after = retry_after
        self.kind = kind

    def __str__(self) -> str:
        return f"HTTP {self.status}: {self.message}" if self.message else f"HTTP {self.status}"


def typed(refusal: Refusal, text: str) -> CloudError:
    """The CloudError for the refusal, with `text` as its message."""
    return _kind(refusal)(text, retry_after=refusal.retry_after)


def _kind(refusal: Refusal) -> type[CloudError]:
    status, message = refusal.status, refusal.message
    if status == 429 or (status == 413 and refusal.retry_after is not None):
        # Older rate limits answer 413, which is also a request that is too big.
        return Throttled
    if status in (403, 409, 413) and QUOTA.search(message):
        return QuotaExceeded
    if CAPACITY.search(message):
        return CapacityUnavailable
    if status == 403 and WRONG_ORDER.search(message):
        return BadRequest
    if status in (401, 403):
        return Unauthorized
    if status >= 500 or status in (300, 408):
        return CloudError
    return BadRequest


def error_of(answer: Answer, doing: str, *, of_a_service: bool = False) -> Refusal | CloudError:
    """The error for an answer that is none of success: a service's own, or that of a proxy or a web
    server before it, which says nothing of OpenStack. `of_a_service`: no other one answers there.
    """
    is_json = "json" in answer.headers.get("content-type", "")
    # Some services answer 401 with plain text.
    if is_json or answer.status == 401 or of_a_service:
        return refusal_of(answer.status, answer.content, answer.wait_asked_for)
    said = text_of(answer.content)
    return answer.of_a_proxy(f"{doing}: HTTP {answer.status}, not from OpenStack: {said}")


def refusal_of(status: int, content: bytes, retry_after: float | None) -> Refusal:
    """The Refusal for an error's body: each service wraps its message differently."""
    try:
        body = json.loads(content)
    except ValueError:
        return Refusal(status, text_of(content), retry_after)
    kind, message = _found(body)
    return Refusal(status, " ".join(message.split())[:_LONGEST], retry_after, kind)


def text_of(content: bytes) -> str:
    """What a page of HTML or plain text says, on one line."""
    text = re.sub(r"<[^>]*>", " ", content.decode("utf-8", "replace"))
    return " ".join(text.split())[:_LONGEST]


def _found(body: Any) -> tuple[str, str]:
    if not isinstance(body, dict):
        return "", ""
    for kind, value in body.items():
        if isinstance(value, dict) and isinstance(value.get("message"), str):
            # Neutron's codes are in the message's `type`.
            return kind, f"{value.get('type') or ''} {value['message']}".strip()
    message = body.get("message")
    return "", message if isinstance(message, str) else ""
