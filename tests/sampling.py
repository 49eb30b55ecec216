"""What `make test` plays of a long list, and `make proof NAME=worlds` (pyproject.toml, `proof`)."""

from __future__ import annotations

from collections.abc import Callable, Container, Hashable, Iterable, Sequence
from typing import Any

import pytest


def first(count: int, rows: Iterable[Any]) -> list[Any]:
    """The parameters of `rows`: all but the first `count` are marked `proof`."""
    return [
        one if at < count else pytest.param(one, marks=pytest.mark.proof)
        for at, one in enumerate(rows)
    ]


def newest_of_each(rows: Sequence[Any], kind: Callable[[Any], Hashable]) -> list[Any]:
    """The parameter sets of `rows`: all but the last one of each kind are marked `proof`."""
    newest = {kind(row): at for at, row in enumerate(rows)}
    return _only(set(newest.values()), rows)


def shortest_of_each(
    rows: Sequence[Any], kind: Callable[[Any], Hashable], length: Callable[[Any], int]
) -> list[Any]:
    """The parameter sets of `rows`: all but the shortest one of each kind are marked `proof`."""
    at_by_length = sorted(range(len(rows)), key=lambda at: length(rows[at]), reverse=True)
    shortest = {kind(rows[at]): at for at in at_by_length}
    return _only(set(shortest.values()), rows)


def _only(played: Container[int], rows: Sequence[Any]) -> list[Any]:
    return [
        row
        if at in played
        else pytest.param(*row.values, id=row.id, marks=[*row.marks, pytest.mark.proof])
        for at, row in enumerate(rows)
    ]
