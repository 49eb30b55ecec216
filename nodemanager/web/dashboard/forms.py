"""Forms that browsers send: from our own pages only, and small."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

import falcon
from falcon.asgi import Request

LARGEST = 16 * 1024
_SAME = frozenset({"same-origin"})


async def sent(request: Request) -> Mapping[str, Any]:
    """The form of a POST. Raises falcon's 403 for another site's, 411, 413, 415 or 400."""
    check_origin(request)
    if (request.content_type or "").partition(";")[0].strip() != falcon.MEDIA_URLENCODED:
        raise falcon.HTTPUnsupportedMediaType(description="send a form")
    length = request.content_length
    if length is None:
        raise falcon.HTTPLengthRequired(title="no length", description="send Content-Length")
    if length > LARGEST:
        raise falcon.HTTPContentTooLarge(title="too large", description="no form is so large")
    form = await request.get_media(default_when_empty={})
    if not isinstance(form, dict):
        raise falcon.HTTPBadRequest(title="bad request", description="send a form")
    return form


def text(form: Mapping[str, Any], key: str, longest: int = 1000) -> str:
    """The text of one field, empty where there is none. Raises falcon's 400."""
    value = form.get(key, "")
    if not isinstance(value, str) or len(value) > longest:
        description = f"{key} must be one text of at most {longest} characters"
        raise falcon.HTTPBadRequest(title="bad request", description=description)
    return value


def several(form: Mapping[str, Any], key: str) -> tuple[str, ...]:
    value = form.get(key, [])
    return tuple(map(str, value)) if isinstance(value, list) else (str(value),)


def check_origin(request: Request) -> None:
    """Refuse what a page of another site sends, as the browser tells it."""
    site, origin = request.get_header("Sec-Fetch-Site"), request.get_header("Origin")
    foreign = site is not None and site not in _SAME
    if origin is not None and _netloc(origin) != request.netloc.lower():
        foreign = True
    if foreign:
        raise falcon.HTTPForbidden(
            title="another site's form", description="send it from the dashboard itself"
        )


def _netloc(origin: str) -> str | None:
    """The host and port of an origin; None for what is none."""
    try:
        return urlsplit(origin).netloc.lower()
    except ValueError:
        return None
