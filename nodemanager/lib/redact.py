"""Removes secrets from everything that is about to be shown.

It looks for three things: keys whose names say that their values are secret, the shapes of secrets
in free text (a library's message, a URL, a header), and the values that the program was told to
hide.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache

MASK = "***"
FENCING_TOKEN = "token"  # noqa: S105 - a key
"""Under this name alone a number is shown: it counts the holders of a lease. Secrets are texts."""

_WORDS = (
    r"ping_?secret|secret|token|password|passwd|passphrase|authorization|credentials?"
    r"|private_?key|access_?key|api_?key|signature"
)
_SECRET_KEY = re.compile(_WORDS, re.IGNORECASE)

# `name=value`, `name: value`, `'name': 'value'`, also with escaped quotes, as in JSON inside JSON.
# A quoted value without a closing quote (the text was cut) extends to the end.
_ASSIGNED = re.compile(
    rf"""(?P<head>(?:{_WORDS})[\w.-]*\\*['"]?\s*[=:]\s*)
         (?:\\+(?P<quote>["'])(?:(?!\\+(?P=quote)).)*(?:\\+(?P=quote)|\Z)
           |"(?:[^"\\]|\\.)*(?:"|\Z)
           |'(?:[^'\\]|\\.)*(?:'|\Z)
           |(?:(?:bearer|oauth2|basic|token)\s+)?[^\s&,;'"<>)}}\]]+)""",
    re.IGNORECASE | re.VERBOSE,
)
_SCHEME = re.compile(
    r"\b(?P<head>(?:(?:bearer|oauth2)|basic(?=\s+\S*[\d=]))\s+)[\w.~+/=:-]{6,}", re.IGNORECASE
)
_USERINFO = re.compile(r"(?P<head>://[^/\s:@]*:)[^/\s]+(?=@)")
_ARVADOS = re.compile(r"(?P<head>\bv2/[a-z0-9]{5}-gj3su-[a-z0-9]{15}/)\w+")
_PEM = re.compile(r"(?P<head>-----BEGIN [A-Z ]*PRIVATE KEY-----).*?(?:-----END|\Z)", re.DOTALL)
_HINT = re.compile(rf"{_WORDS}|bearer|oauth2|basic|://|v2/|PRIVATE", re.IGNORECASE)

_SHORTEST = 6


class Hidden:
    """The values that must never be shown anywhere."""

    def __init__(self) -> None:
        self._values: frozenset[str] = frozenset()

    def add(self, *values: str | None) -> None:
        """Hide `values` from now on, but not short ones, which would mask innocent text."""
        self._values |= {value for value in values if value and len(value) >= _SHORTEST}

    def mask(self, text: str) -> str:
        for value in self._values:
            if value in text:
                text = text.replace(value, MASK)
        return text


HIDDEN = Hidden()


@lru_cache(maxsize=1000)
def is_secret(key: str) -> bool:
    """Whether values under this key must never be shown."""
    return _SECRET_KEY.search(key) is not None


def text(given: str) -> str:
    """`given` with everything masked that looks like a secret or is a hidden value."""
    given = HIDDEN.mask(given)
    if _HINT.search(given) is None:
        return given
    for shape in (_PEM, _ASSIGNED, _SCHEME, _USERINFO, _ARVADOS):
        given = shape.sub(lambda found: found["head"] + MASK, given)
    return given


def value(key: str, given: object) -> object:
    """`given` with its secrets masked, to be shown under `key`; works through containers."""
    if given is None:
        return None
    if key == FENCING_TOKEN and isinstance(given, int):
        return given
    if is_secret(key):
        return MASK
    if isinstance(given, str):
        # A member of a StrEnum is one of our own words, never a secret.
        return text(given) if type(given) is str else given
    if isinstance(given, Mapping):
        return {str(name): value(str(name), inner) for name, inner in given.items()}
    if isinstance(given, (list, tuple, set, frozenset)):
        return [value(key, inner) for inner in given]
    return given
