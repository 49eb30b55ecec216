"""What a written value hides: a comment that cuts it, quotes, characters that can't be seen."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator

UNSEEN = frozenset({"Cc", "Cf", "Zl", "Zp"})
"""Unicode's categories of control and format characters and of separators of lines."""


def doubts_of_comment(value: str, comment: str, *, secret: bool, file: str = "") -> Iterator[str]:
    """Why the `comment` behind the value may have been meant as a part of it.

    `comment` is its text, or empty. `file` is the name by which a file can hold the value instead.
    """
    if not comment:
        return
    begins = f"'{comment[0]}' begins a comment, so"
    if secret and value:
        instead = f"; put a secret that holds it into a file: {file}" if file else ""
        yield f"{begins} what follows it is not part of the secret{instead}"
    elif not value and not comment[1:2].isspace():
        yield f"{begins} this is blank"


def doubts_of_text(value: str, *, secret: bool) -> Iterator[str]:
    """Why the value may not be what its writer meant; shows no character of a secret."""
    if len(value) > 1 and value[0] == value[-1] and value[0] in "\"'":
        yield "the quotes are part of the value; leave them out"
    unseen = [one for one in value if unicodedata.category(one) in UNSEEN and one not in "\t\n"]
    if unseen:
        which = "" if secret else f" (U+{ord(unseen[0]):04X})"
        yield f"holds a character that can't be seen{which}"
    if value != value.strip():
        yield "begins or ends with white space"
