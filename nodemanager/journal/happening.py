"""One thing that happened, as a reader of the journal is told it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from nodemanager.core.reasons import Event, Reason


@dataclass(frozen=True, slots=True)
class Happening:
    """`at` is epoch seconds; `record` and `node` are what it is about.

    `slot` and `host` are what that life of the record had then, and `incarnation` which life that
    was, where it is known. `more` are measures and details, by keys of the log. `aliases` are all
    the ids and names that it can be asked for by, those of the pair's other side among them. It
    `is_set_up` where it tells of a claim and the create on it.
    """

    at: float
    event: Event
    reason: Reason | None = None
    record: str | None = None
    slot: int | None = None
    host: str | None = None
    node: str | None = None
    plan: str | None = None
    more: Mapping[str, Any] = field(default_factory=dict)
    aliases: frozenset[str] = frozenset()
    incarnation: str | None = None
    is_set_up: bool = False

    def __lt__(self, other: Happening) -> bool:
        return self.at < other.at
