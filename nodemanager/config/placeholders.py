"""Values that the samples only stand for: whoever copies a sample must write his own."""

from __future__ import annotations

import re

from nodemanager.config.reader import Draft
from nodemanager.config.values import Secret, ServerAddress

_STANDS_FOR = re.compile(
    r"""SECRET | TOKEN | .*\.\.\. | example | zzzzz
      | .*0123456789abcdef.*
      | (?:.*@)?my-project(?:\..*)? | .*/example\.pem
      | Publisher:Product:Plan | /subscriptions/ID/.*
      | 00000000-0000-0000-0000-000000000000 | 11111111-2222-4333-8444-555555555555
      | (?:.*[./@])?example\.(?:com|net|org)(?:[:/].*)?""",
    re.VERBOSE,
)
"""Ids that no cloud gives, names that only stand for one, and domains that nobody can have
(RFC 2606)."""

_DECLARED = (("Arvados", "host"), ("Arvados", "token"), ("Registry", "domain"))
"""The options with declarations whose samples' values are nobody's."""


def is_placeholder(value: str) -> bool:
    """Whether the value only stands for one."""
    return _STANDS_FOR.fullmatch(value) is not None


def warn_of_placeholders(draft: Draft) -> None:
    """Warn of each value that a sample only stands for."""
    for section, keys in draft.keys.items():
        for key, value in keys.items():
            _warn(draft, section, key, value)
    for section, option in _DECLARED:
        value = draft.value(section, option)
        if isinstance(value, Secret):
            value = value.reveal()
        elif isinstance(value, ServerAddress):
            value = value.url
        _warn(draft, section, option, value or "")


def _warn(draft: Draft, section: str, key: str, value: str) -> None:
    if is_placeholder(value):
        draft.report.warn(draft.place(section, key), "is only a sample's value; write your own")
