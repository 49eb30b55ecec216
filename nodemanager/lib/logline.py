"""The rendering of an event's fields as one line of text: logfmt or JSON.

The result is one line whatever the fields hold, and a logfmt line parses back into the same keys.
A value is quoted unless it is plain, and every invisible character (newline, control character,
direction mark, lone surrogate) is escaped.
"""

from __future__ import annotations

import json
import math
import re
import time
from collections.abc import Callable, Mapping
from datetime import datetime
from enum import Enum
from typing import Any

Fields = Mapping[str, Any]
"""The fields of an event, by key."""
Json = dict[str, Any]
"""A JSON object."""

MEASURES = {
    "idle_s": "quiet",
    "stale_s": "quiet",
    "word_s": "last ping",
    "word": "worker state",
    "was": "kept before as",
    "slot_kept": "slot kept for",
    "raw_state": "the cloud says",
    "worker_state": "the node says",
    "unjoined_s": "never up for",
    "denied_s": "denied by the cloud for",
    "retry_s": "again in",
    "ram_mb": "memory in MB",
    "scratch_mb": "scratch in MB",
}
"""Measures that other words say better than their key, on every screen."""

# The journal splits lines longer than 48 KiB (LineMax=). A library's message may be a thread dump.
LONGEST_VALUE = 2_000
LONGEST = {"message": 20_000, "traceback": 20_000}

CAUSE = " <- "
"""What stands between an error and its cause."""

_PLAIN = re.compile(r"[!#-<>-\[\]-~]+")
_LIBRARYS_LINK = re.compile(r"\s*\(Background on this error at: \S+\)")
"""What SQLAlchemy adds to each of its messages."""
_NOT_A_KEY = re.compile(r"[^A-Za-z0-9_.-]")
_ESCAPES = {"\\": "\\\\", '"': '\\"', "\n": "\\n", "\r": "\\r", "\t": "\\t"}


def timestamp(at: float) -> str:
    """Epoch seconds as RFC 3339 in UTC, with milliseconds."""
    milliseconds = math.floor(at * 1000)
    seconds, rest = divmod(milliseconds, 1000)
    return f"{time.strftime('%Y-%m-%dT%H:%M:%S', time.gmtime(seconds))}.{rest:03d}Z"


def logfmt(fields: Fields) -> str:
    """`key=value key="other value"`; leaves out None."""
    return " ".join(
        f"{_NOT_A_KEY.sub('_', key) or '_'}={_quoted(_text(value, key))}"
        for key, value in fields.items()
        if value is not None
    )


def as_json(fields: Fields) -> str:
    """One JSON object, ASCII only; leaves out None and turns values that JSON lacks into text."""
    return json.dumps(
        {key: _jsonable(value, key) for key, value in fields.items() if value is not None},
        separators=(",", ":"),
        allow_nan=False,
    )


RENDERERS: Mapping[str, Callable[[Fields], str]] = {"logfmt": logfmt, "json": as_json}


def number(value: float) -> str:
    """The number with at most three decimals and without trailing zeros."""
    if not math.isfinite(value):
        return str(value)
    shown = f"{value:.3f}".rstrip("0").rstrip(".")
    return "0" if shown == "-0" else shown


def span(seconds: float) -> str:
    """A duration in its two largest units: `45s`, `3m 20s`, `2h 05m`, `3d 04h`."""
    whole = max(0, round(seconds))
    if whole < 60:
        return f"{whole}s"
    minutes, second = divmod(whole, 60)
    if minutes < 60:
        return f"{minutes}m {second:02d}s"
    hours, minute = divmod(minutes, 60)
    if hours < 24:
        return f"{hours}h {minute:02d}m"
    days, hour = divmod(hours, 24)
    return f"{days}d {hour:02d}h"


def name_of(key: str) -> str:
    return MEASURES.get(key) or key.removesuffix("_s").replace("_", " ")


def measure(key: str, value: Any) -> str:
    """A measure in words, the same on every screen: `quiet 2h 05m`, `limit 5`; empty for None."""
    if value is None:
        return ""
    name = name_of(key)
    if key.endswith("_s") and isinstance(value, (int, float)) and not isinstance(value, bool):
        return f"{name} {span(value)}"
    return f"{visible(name)} {_quoted(_text(value, key))}"


def visible(text: str) -> str:
    """`text` with every invisible character escaped."""
    if text.isprintable():
        return text
    return "".join(one if one.isprintable() else _escaped(one) for one in text)


def describe(error: BaseException) -> str:
    """The class and message of the error and of its causes (four at most), on one line.

    A cause that says nothing more than the error before it is left out.
    """
    said: list[str] = []
    link: BaseException | None = error
    while link is not None and len(said) < 4:
        name, words = type(link).__name__, _LIBRARYS_LINK.sub("", _safely(str, link)).strip()
        if not (said and name in said[-1] and words in said[-1]):
            said.append(f"{name}: {words}" if words else name)
        link = link.__cause__
    return CAUSE.join(said)


def _text(value: object, key: str) -> str:
    if isinstance(value, str):
        return _clipped(str(value), key)
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return str(value)
    if isinstance(value, float):
        return number(value)
    return _clipped(_container_or_other(value, key), key)


def _container_or_other(value: object, key: str) -> str:
    if isinstance(value, Enum):
        return _safely(str, value.value)
    if isinstance(value, (bytes, bytearray)):
        return value.decode("utf-8", "backslashreplace")
    if isinstance(value, BaseException):
        return describe(value)
    if isinstance(value, datetime):
        return timestamp(value.timestamp()) if value.tzinfo else value.isoformat()
    if isinstance(value, Mapping):
        return _safely(lambda given: json.dumps(_jsonable(given, key)), value)
    if isinstance(value, (set, frozenset)):
        return ",".join(sorted(_text(inner, key) for inner in value))
    if isinstance(value, (list, tuple)):
        return ",".join(_text(inner, key) for inner in value)
    return _safely(str, value)


def _jsonable(value: object, key: str) -> object:
    if isinstance(value, float):
        return round(value, 3) if math.isfinite(value) else str(value)
    if value is None or isinstance(value, (bool, int)):
        return value
    if isinstance(value, Mapping):
        return {str(name): _jsonable(inner, key) for name, inner in value.items()}
    if isinstance(value, (list, tuple, set, frozenset)):
        inner = [_jsonable(each, key) for each in value]
        return sorted(inner, key=str) if isinstance(value, (set, frozenset)) else inner
    return _text(value, key)


def _quoted(value: str) -> str:
    if _PLAIN.fullmatch(value):
        return value
    if value.isprintable() and '"' not in value and "\\" not in value:
        return f'"{value}"' if not value or " " in value or "=" in value else value
    return '"' + "".join(_escaped(character) for character in value) + '"'


def _escaped(character: str) -> str:
    if (short := _ESCAPES.get(character)) is not None:
        return short
    if character.isprintable():
        return character
    code = ord(character)
    if code < 0x100:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def _clipped(value: str, key: str) -> str:
    """The value within its length limit: a traceback keeps its end, others their beginning."""
    longest = LONGEST.get(key, LONGEST_VALUE)
    if len(value) <= longest:
        return value
    if key == "traceback":
        return f"(+{len(value) - longest})...{value[-longest:]}"
    return f"{value[:longest]}...(+{len(value) - longest})"


def _safely(make: Callable[..., str], value: object) -> str:
    try:
        return make(value)
    except Exception:
        # A value's own repr may raise anything; its line must be written nevertheless.
        return f"<unprintable {type(value).__name__}>"
