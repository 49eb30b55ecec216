"""Tables of a cloud's own words, such as its error codes."""

from __future__ import annotations


def words(text: str) -> frozenset[str]:
    """The words of a text, in any order."""
    return frozenset(text.split())
