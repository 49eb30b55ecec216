"""What `make test` plays of a long list, and `make proof NAME=worlds` (pyproject.toml, `proof`)."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
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
    return [
        row
        if newest[kind(row)] == at
        else pytest.param(*row.values, id=row.id, marks=[*row.marks, pytest.mark.proof])
        for at, row in enumerate(rows)
    ]
