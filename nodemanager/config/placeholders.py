"""Values that the samples only stand for: whoever copies a sample must write his own."""

from __future__ import annotations

import re

from nodemanager.config.reader import Draft
from nodemanager.config.values import Secret, ServerAddress

_STANDS_FOR = re.compile(
    r"""SECRET | TOKEN | \.\.\.
      | .*0123456789abcdef.*
      | 00000000-0000-0000-0000-000000000000 | 11111111-2222-4333-8444-555555555555
      | (?:.*[./@])?example\.(?:com|net|org)(?:[:/].*)?""",
    re.VERBOSE,
)
"""Ids that no cloud gives, and hosts under the domains that nobody can have (RFC 2606)."""


def warn_of_placeholders(draft: Draft) -> None:
    """Warn of each value that a sample only stands for."""
    for section, keys in draft.keys.items():
        for key, value in keys.items():
            _warn(draft, section, key, value)
    for option in ("host", "token"):
        value = draft.value("Arvados", option)
        if isinstance(value, Secret):
            _warn(draft, "Arvados", option, value.reveal())
        elif isinstance(value, ServerAddress):
            _warn(draft, "Arvados", option, value.url)


def _warn(draft: Draft, section: str, key: str, value: str) -> None:
    if _STANDS_FOR.fullmatch(value):
        draft.report.warn(draft.place(section, key), "is only a sample's value; write your own")
