"""What jobs ask of a node besides cores, memory and disk: features and generic resources.

Slurm's own notations are read here: `-C` (`gpu&(rack1|rack2)`) and `--gres` (`gpu:tesla:2`). A file
writes a size's resources in the second one, too.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

Alternatives = tuple[tuple[str, ...], ...]
"""Sets of features: a node must have all features of one of them. Without any, every node does."""
Gres = tuple[tuple[str, int], ...]
"""Generic resources with their counts, sorted by name."""

SIZE_FEATURE = "instancetype="
"""The feature `instancetype=NAME` is the size of a node, or the one that a job asks for."""
MAX_ALTERNATIVES = 64
MAX_CONSTRAINT = 1000
"""Characters: reading one takes the square of its length, and any user may write one."""
MAX_BRACKETS = 50
_TOKEN = re.compile(r"\s*(?:([&,])|(\|)|([(\[])|([)\]])|\*(\d+)|([^&|,()\[\]*\s]+))")
_COUNT = re.compile(r"(\d+)([kmgtp]?)", re.IGNORECASE)
_NAME_OF_GRES = re.compile(r"[A-Za-z_][\w.-]*")
_TYPE_OF_GRES = re.compile(r"\w[\w.+-]*")
_MANY = {"": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30, "t": 1 << 40, "p": 1 << 50}
_NO_CONSUME = "no_consume"
_OTHER_TRES = re.compile(r"(?:cpu|mem|node|billing|energy|pages|vmem)[:=]|(?:bb|fs|ic|license)/")
"""What else Slurm counts as a trackable resource."""


@dataclass(frozen=True, slots=True)
class Constraint:
    """What `-C` asks for. `counted`: of some of the job's nodes only, each kind with its count."""

    sets: Alternatives
    counted: bool = False


def constraint_of(text: str) -> Constraint:
    """The sets of features of `a&(b|c)`, each sorted; raises ValueError for what is none.

    As Slurm does, it reads from left to right: `a|b&c` needs `c` and one of the others. Of what is
    counted (`a*2`) each node is to have all.
    """
    if len(text) > MAX_CONSTRAINT or text.count("(") + text.count("[") > MAX_BRACKETS:
        raise ValueError(f"{text[:60]!r}... is too long a constraint")
    tokens = []
    at, whole = 0, text.strip()
    while at < len(whole):
        found = _TOKEN.match(whole, at)
        if found is None:
            raise ValueError(f"{text[:60]!r} is no constraint")
        tokens.append((found.lastindex, found[0].strip()))
        at = found.end()
    sets, left = _joined([one for one in tokens if one[0] != _TIMES])
    if left:
        raise ValueError(f"{text[:60]!r} is no constraint")
    _check_counts(tokens, text)
    counts = sum(kind == _TIMES for kind, _ in tokens)
    each_once = tuple(dict.fromkeys(tuple(sorted(one)) for one in sets))
    return Constraint(each_once, counted=counts > 1)


_AND, _OR, _OPENS, _CLOSES, _TIMES, _NAME = 1, 2, 3, 4, 5, 6
_Tokens = list[tuple[int | None, str]]
_Sets = list[frozenset[str]]


def _check_counts(tokens: _Tokens, text: str) -> None:
    """A count stands behind a name or a bracket."""
    for (before, _), (kind, _) in zip([(None, ""), *tokens], tokens, strict=False):
        if kind == _TIMES and before not in (_NAME, _CLOSES):
            raise ValueError(f"{text[:60]!r} is no constraint")


def _joined(tokens: _Tokens) -> tuple[_Sets, _Tokens]:
    sets, left = _one(tokens)
    while left and left[0][0] in (_AND, _OR):
        is_and = left[0][0] == _AND
        more, left = _one(left[1:])
        sets = [one | other for one in sets for other in more] if is_and else sets + more
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
        sets, left = _joined(left)
        if left and left[0][0] == _CLOSES:
            return sets, left[1:]
    raise ValueError("a constraint with a bracket too few or too many")


def gres_of(text: str) -> Gres:
    """The resources of `gpu:tesla:2,nv-link`; raises ValueError for anything else.

    It reads what gres.conf(5), slurm.conf(5) and squeue write: with or without a type, `no_consume`
    and `gres:` or `gres/` before it; counts with K, M, G, T or P; notes in parentheses. Of other
    trackable resources (`cpu=2`, `license/x`) it takes no notice. A type counts for its kind, too:
    `gpu:tesla:2` is also `gpu` 2.
    """
    counts: dict[str, int] = {}
    bare = re.sub(r"\([^()]*\)", "", text)
    for part in filter(None, (one.strip() for one in bare.split(","))):
        found = _resource(part)
        if found is None:
            continue
        (name, type), count = found
        for key in (f"{name}:{type}", name) if type else (name,):
            counts[key] = counts.get(key, 0) + count
    return tuple(sorted(counts.items()))


def _resource(part: str) -> tuple[tuple[str, str], int] | None:
    """Name, type ("" for none) and count of one resource; None for what is no generic one."""
    is_gres = re.match("gres[:/]", part)
    name, *rest = re.split("[:=]", part[is_gres.end() :] if is_gres else part)
    if _OTHER_TRES.match(part):
        return None
    rest = [one for one in rest if one.lower() != _NO_CONSUME]
    count, number = 1, _COUNT.fullmatch(rest[-1]) if rest else None
    if number is not None:
        count = int(number[1]) * _MANY[number[2].lower()]
        rest.pop()
    types_ok = all(_TYPE_OF_GRES.fullmatch(one) and not _COUNT.fullmatch(one) for one in rest)
    if not _NAME_OF_GRES.fullmatch(name) or len(rest) > 1 or not types_ok:
        raise ValueError(f"{part[:60]!r} is no resource; write gpu:2 or gpu:tesla:2")
    return (name, rest[0] if rest else ""), count


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
