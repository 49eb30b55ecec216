"""A logged event as the journal keeps it."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any


@dataclass(frozen=True, slots=True)
class LoggedEvent:
    """One logged event; `at` is epoch seconds.

    `record`, `slot`, `host`, `node` and `name` (the node's) identify its subject and the subject's
    pair; `incarnation` identifies the record's life. `more` has all other fields of the log line.
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

    @property
    def level(self) -> str:
        """How bad it is, in lower case."""
        level: str = self.more.get(LEVEL, "info")
        return level


LEVEL = "level"
"""The key in `more` of an event's level above INFO, in lower case."""

COLUMNS = tuple(one.name for one in fields(LoggedEvent))
"""The columns of the table `logged`, where `more` is JSON."""


def event_of_row(row: Sequence[Any]) -> LoggedEvent:
    return LoggedEvent(**{**dict(zip(COLUMNS, row, strict=True)), "more": json.loads(row[-1])})
