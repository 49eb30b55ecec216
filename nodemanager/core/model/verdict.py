"""The verdict on one record or node."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

from nodemanager.core.model.reasons import Kind, Reason


class Verdict(NamedTuple):
    """What to do with the record or node `id`, and why; `measures` has values and thresholds."""

    kind: Kind
    reason: Reason
    id: str
    measures: Mapping[str, Any] | None = None


NOTHING_BEFORE: Mapping[str, Verdict] = MappingProxyType({})
"""The verdicts of the plan before, by id, where there was none.

A judge that comes to a common verdict again returns that one, and need not make another. So who
tells of verdicts (the journal, the log) sees without a comparison that most are still the same.
"""


def keep(id: str, reason: Reason, **measures: Any) -> Verdict:
    """The verdict that keeps the record or node `id`."""
    return Verdict(Kind.KEEP, reason, id, measures or None)
