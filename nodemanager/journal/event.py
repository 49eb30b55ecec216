"""One event that the log told, as the journal keeps it."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any


@dataclass(frozen=True, slots=True)
class Told:
    """One event that the log told; `at` is epoch seconds.

    `record`, `slot`, `host`, `node` and its `name` are who it is about, those of its pair too;
    `incarnation` says which life of the record. `more` are all other fields of the line.
    """

    at: float
    event: str
    reason: str | None = None
    record: str | None = None
    slot: int | None = None
    host: str | None = None
    node: str | None = None
    name: str | None = None
    incarnation: str | None = None
    plan: str | None = None
    more: Mapping[str, Any] = field(default_factory=dict)


COLUMNS = tuple(one.name for one in fields(Told))
"""Those of the table `told`; `more` is JSON there."""


def told_from(row: Sequence[Any]) -> Told:
    """A row of those columns."""
    return Told(**{**dict(zip(COLUMNS, row, strict=True)), "more": json.loads(row[-1])})
