"""A verdict: what is called for, why, and what was measured."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from nodemanager.core.model.reasons import Kind, Reason


class Verdict(NamedTuple):
    """What one record or node calls for. `measures` holds each value beside its threshold."""

    kind: Kind
    reason: Reason
    id: str
    measures: Mapping[str, Any] | None = None


def keep(id: str, reason: Reason, **measures: Any) -> Verdict:
    return Verdict(Kind.KEEP, reason, id, measures or None)
