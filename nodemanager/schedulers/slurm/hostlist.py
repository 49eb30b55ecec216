"""Names of nodes as Slurm shortens them: `c[1-3,7],d2`."""

from __future__ import annotations

import re
from collections.abc import Iterator

MAX_NAMES = 10_000
"""More names than any pool has slots."""
_PART = re.compile(r"(?:[^,\[\]\s]|\[[^\[\]\s]*\])+")
_BRACKET = re.compile(r"\[([^\[\]]*)\]")
_RANGE = re.compile(r"(\d+)(?:-(\d+))?")


def names_of(text: str) -> tuple[str, ...]:
    """The names that `text` stands for; raises ValueError for what is no such list."""
    names: list[str] = []
    at = 0
    while at < len(text):
        found = _PART.match(text, at)
        at = len(text) if found is None else found.end() + 1
        if found is None or text[at - 1 : at] not in ("", ","):
            raise ValueError(f"{text[:60]!r} is no list of nodes")
        for name in _expanded(found[0]):
            names.append(name)
            if len(names) > MAX_NAMES:
                raise ValueError(f"{text[:60]!r} has over {MAX_NAMES} nodes")
    return tuple(dict.fromkeys(names))


def _expanded(part: str) -> Iterator[str]:
    bracket = _BRACKET.search(part)
    if bracket is None:
        yield part
        return
    for number in _numbers(bracket[1]):
        for rest in _expanded(part[bracket.end() :]):
            yield f"{part[: bracket.start()]}{number}{rest}"


def _numbers(text: str) -> Iterator[str]:
    """The numbers of `1-3,007`, each as wide as the first of its range is written."""
    for one in text.split(","):
        found = _RANGE.fullmatch(one)
        if found is None:
            raise ValueError(f"{text[:60]!r} is no list of numbers")
        first, last = found[1], found[2] or found[1]
        for number in range(int(first), int(last) + 1):
            yield f"{number:0{len(first)}d}"
