"""What jobs ask of a node besides cores, memory and disk: features and generic resources.

Slurm's own notations are read here: `-C` (`gpu&(rack1|rack2)`) and `--gres` (`gpu:tesla:2`). A file
writes a size's resources in the second one, too.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

Alternatives = tuple[tuple[str, ...], ...]
"""Sets of features: a node must have all features of one of them. Without any, every node does."""
Gres = tuple[tuple[str, int], ...]
"""Generic resources with their counts, sorted by name."""

SIZE_FEATURE = "instancetype="
"""The feature `instancetype=NAME` is the size of a node, or the one that a job asks for."""
MAX_ALTERNATIVES = 64
_TOKEN = re.compile(r"\s*(?:([&,])|(\|)|([(\[])|([)\]])|([^&|,()\[\]*\s]+))")
_GRES = re.compile(
    r"(?:gres[:/])?([A-Za-z]\w*(?::[A-Za-z_][\w.-]*)?)(?:[:=](\d+)([KMG]?))?(?:\(.*\))?"
)
_MANY = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30}


def alternatives_of(constraint: str) -> Alternatives:
    """The sets of features of `a&(b|c)`, each sorted; raises ValueError for what is none.

    Counts (`a*2`) ask for different nodes for one job: that is no question to one size.
    """
    tokens = []
    at, text = 0, constraint.strip()
    while at < len(text):
        found = _TOKEN.match(text, at)
        if found is None:
            raise ValueError(f"{constraint[:60]!r} is no constraint that one size can meet")
        tokens.append((found.lastindex, found[0].strip()))
        at = found.end()
    sets, left = _either(tokens)
    if left:
        raise ValueError(f"{constraint[:60]!r} is no constraint")
    return tuple(dict.fromkeys(tuple(sorted(one)) for one in sets))


_AND, _OR, _OPENS, _CLOSES, _NAME = 1, 2, 3, 4, 5
_Tokens = list[tuple[int | None, str]]
_Sets = list[frozenset[str]]


def _either(tokens: _Tokens) -> tuple[_Sets, _Tokens]:
    sets, left = _both(tokens)
    while left and left[0][0] == _OR:
        more, left = _both(left[1:])
        sets = sets + more
    return sets, left


def _both(tokens: _Tokens) -> tuple[_Sets, _Tokens]:
    sets, left = _one(tokens)
    while left and left[0][0] == _AND:
        more, left = _one(left[1:])
        sets = [one | other for one in sets for other in more]
        if len(sets) > MAX_ALTERNATIVES:
            raise ValueError("a constraint with too many alternatives")
    return sets, left


def _one(tokens: _Tokens) -> tuple[_Sets, _Tokens]:
    if not tokens:
        raise ValueError("a constraint that ends with an operator")
    (kind, text), left = tokens[0], tokens[1:]
    if kind == _NAME:
        return [frozenset({text})], left
    if kind == _OPENS:
        sets, left = _either(left)
        if left and left[0][0] == _CLOSES:
            return sets, left[1:]
    raise ValueError("a constraint with a bracket too few or too many")


def gres_of(text: str) -> Gres:
    """The resources of `gpu:tesla:2,license`; raises ValueError for anything else.

    A type counts for its kind, too: `gpu:tesla:2` is also `gpu` 2.
    """
    counts: dict[str, int] = {}
    for part in filter(None, (one.strip() for one in text.split(","))):
        found = _GRES.fullmatch(part)
        if found is None:
            raise ValueError(f"{part[:60]!r} is no resource; write gpu:2 or gpu:tesla:2")
        count = int(found[2] or 1) * _MANY[found[3] or ""]
        for name in dict.fromkeys((found[1], found[1].partition(":")[0])):
            counts[name] = counts.get(name, 0) + count
    return tuple(sorted(counts.items()))


def has_features(features: Iterable[str], asked: Alternatives) -> bool:
    """Whether a node with these features has all of one alternative."""
    there = frozenset(features)
    return not asked or any(there.issuperset(one) for one in asked)


def has_gres(there: Gres, asked: Gres) -> bool:
    """Whether a node with `there` has each asked resource, and enough of it."""
    counts = dict(there)
    return all(counts.get(name, 0) >= count for name, count in asked)


def shown(asked: Alternatives) -> str:
    """The alternatives as one text, for people."""
    return "|".join("&".join(one) for one in asked)


def shown_gres(gres: Gres) -> str:
    """The resources as one text that `gres_of` reads, for people."""
    typed = {name.partition(":")[0] for name, _ in gres if ":" in name}
    return ",".join(f"{name}:{count}" for name, count in gres if name not in typed)
