"""What OpenStack's refusals mean to us (SAFETY.md D6, U6).

OpenStack has few error codes. The HTTP status decides, and for 403 the message: nova answers
so for a quota that is used up and for a missing right. The messages are those of nova's and
neutron's sources (`exception.py` of each).
"""

from __future__ import annotations

import re
from typing import Any

from nodemanager import errors
from nodemanager.cloud.refusal import CodedRefusal
from nodemanager.cloud.transport import Answer
from nodemanager.lib import foreign

QUOTA = re.compile(
    r"quota exceeded|over (a|the) (limit|quota)|maximum number of (ports|floating ips|security)"
    r"|OverQuota",
    re.IGNORECASE,
)
WRONG_ORDER = re.compile(r"volume-backed|maximum number of metadata", re.IGNORECASE)
"""Refused with 403, but by no missing right."""
CAPACITY = re.compile(
    r"no valid host was found|not enough hosts available|exhausted all hosts available",
    re.IGNORECASE,
)

_LONGEST = 300


class Refusal(CodedRefusal):
    """An error answer of one of OpenStack's services, in its own words.

    `code` is nova's name of it; other services have other names or none.
    """

    NOT_FOUND = "itemNotFound"
    """A 404 without that name is another service's, or for a wrong path."""

    def __str__(self) -> str:
        return f"HTTP {self.status}: {self.message}" if self.message else f"HTTP {self.status}"

    @property
    def meaning(self) -> type[errors.CloudError]:
        status, message = self.status, self.message
        if status == 413 and self.retry_after is not None:
            # Older rate limits answer so, and 413 is also a request that is too big.
            return errors.Throttled
        if status in (403, 409, 413) and QUOTA.search(message):
            return errors.QuotaExceeded
        if CAPACITY.search(message):
            return errors.CapacityUnavailable
        if status == 409 or (status == 403 and WRONG_ORDER.search(message)):
            return errors.BadRequest
        return errors.CloudError if status == 300 else super().meaning


def is_no_room(fault: str) -> bool:
    """Whether a server's fault says that nova had no host for it."""
    return CAPACITY.search(fault) is not None


def error_of(
    answer: Answer, doing: str, *, of_a_service: bool = False
) -> Refusal | errors.CloudError:
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
        body = foreign.loads(content)
    except ValueError:
        return Refusal("", text_of(content), status, retry_after)
    kind, message = _found(body)
    return Refusal(kind, message[:_LONGEST], status, retry_after)


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
