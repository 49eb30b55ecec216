"""What others wrote: their JSON and their text, checked before anything is made of it.

Half a surrogate pair is no text: nothing that writes UTF-8 takes it. JSON that is nested without
end would lead whoever walks it into Python's limit of recursion.
"""

from __future__ import annotations

import json
from typing import Any

DEEPEST = 64
"""So many objects and lists may hold each other; no API that we know needs a third of it."""


def loads(text: str | bytes) -> Any:
    """The value of a JSON text. Raises ValueError for any other text, and for one nested deeper
    than DEEPEST."""
    try:
        value = json.loads(text)
    except RecursionError:
        # Not chained: its traceback has a thousand useless frames.
        raise ValueError(_TOO_DEEP) from None
    if may_be_deep(text) and is_deep(value):
        raise ValueError(_TOO_DEEP)
    return value


def strict_loads(text: str) -> Any:
    """The value of a client's JSON text, as `loads` gives it; ValueError for half a surrogate pair
    and for NaN and Infinity, too."""
    value = loads(text)
    if "\\u" in text or not text.isascii() or "N" in text or "I" in text:
        # Only these can be in a text that has something to refuse.
        json.dumps(value, ensure_ascii=False, allow_nan=False).encode()
    return value


def is_deep(value: object) -> bool:
    """Whether objects and lists are nested deeper than DEEPEST in it."""
    level = [value]
    for _ in range(DEEPEST):
        level = [inner for one in level for inner in _inside(one)]
        if not level:
            return False
    return True


def may_be_deep(text: str | bytes) -> bool:
    """Whether JSON of that text may be nested deeper than DEEPEST; much cheaper than `is_deep`."""
    if isinstance(text, str):
        return text.count("{") + text.count("[") > DEEPEST
    return text.count(b"{") + text.count(b"[") > DEEPEST


def is_text(text: str) -> bool:
    """Whether it can be written as UTF-8: it holds no half of a surrogate pair."""
    if text.isascii():
        return True
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def shown(text: str) -> str:
    """The text, with an escape in place of each half of a surrogate pair."""
    return text if text.isascii() else text.encode("utf-8", "backslashreplace").decode()


_TOO_DEEP = f"is nested too deep, over {DEEPEST} levels"


def _inside(value: object) -> list[Any]:
    """The objects and lists right in an object or list."""
    if isinstance(value, dict):
        return [one for one in value.values() if isinstance(one, (dict, list))]
    if isinstance(value, list):
        return [one for one in value if isinstance(one, (dict, list))]
    return []
