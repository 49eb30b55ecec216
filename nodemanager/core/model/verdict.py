"""The verdict on one record or node."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

from nodemanager.core.model.reasons import Kind, Reason


class Verdict(NamedTuple):
    """What to do with the record or node `id`, and why; `measures` has values and thresholds.

    `rule` is that of the check that said so, None where no check did: then the reason names it.
    """

    kind: Kind
    reason: Reason
    id: str
    measures: Mapping[str, Any] | None = None
    rule: str | None = None


class Objection(NamedTuple):
    """What forbids an action, whatever it is about; `rule` is that of the check that says so."""

    reason: Reason
    measures: Mapping[str, Any] = {}
    rule: str | None = None

    def to(self, id: str) -> Verdict:
        """The verdict that keeps the record or node `id` for it."""
        return Verdict(Kind.KEEP, self.reason, id, self.measures or None, self.rule)


NOTHING_BEFORE: Mapping[str, Verdict] = MappingProxyType({})
"""The verdicts of the plan before, by id, where there was none.

A judge that comes to a common verdict again returns that one, and need not make another. So who
tells of verdicts (the journal, the log) sees without a comparison that most are still the same.
"""


def keep(id: str, reason: Reason, **measures: Any) -> Verdict:
    """The verdict that keeps the record or node `id`."""
    return Verdict(Kind.KEEP, reason, id, measures or None)
