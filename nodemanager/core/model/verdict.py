"""The verdict on one record or node."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from nodemanager.core.model.reasons import Kind, Reason


class Verdict(NamedTuple):
    """What to do with the record or node `id`, and why; `measures` has values and thresholds."""

    kind: Kind
    reason: Reason
    id: str
    measures: Mapping[str, Any] | None = None


def keep(id: str, reason: Reason, **measures: Any) -> Verdict:
    """The verdict that keeps the record or node `id`."""
    return Verdict(Kind.KEEP, reason, id, measures or None)
