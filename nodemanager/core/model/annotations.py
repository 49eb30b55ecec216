"""Operators' orders on nodes, records and the pool: by whom, since when, and why."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from nodemanager.core.model.reasons import Reason


@dataclass(frozen=True, slots=True)
class Mark:
    """An operator's order that stands until it is undone or carried out; `at` is epoch seconds.

    `incarnation` is that of the node, because some clouds use an id again.
    """

    by: str
    at: float
    reason: str = ""
    incarnation: str | None = None

    def measures(self, wall: float) -> dict[str, Any]:
        """Who, why, and for how long at `wall` (epoch seconds), as the measures of a verdict."""
        told: dict[str, Any] = {"by": self.by}
        if self.reason:
            told["cause"] = self.reason
        return {**told, "age_s": max(0.0, wall - self.at)}


@dataclass(frozen=True, slots=True)
class HandClean:
    """A record that an operator wants freed now; `forced` are the rules they break, by id (O3).

    It is judged once, by the next plan.
    """

    by: str
    at: float
    reason: str = ""
    forced: tuple[str, ...] = ()

    def measures(self) -> dict[str, Any]:
        told: dict[str, Any] = {"by": self.by}
        if self.reason:
            told["cause"] = self.reason
        return {**told, "forced": ",".join(self.forced)} if self.forced else told

    def breaks(self, reason: Reason) -> bool:
        """Whether the operator breaks the rule that keeps the record for this reason."""
        return BROKEN_AS.get(reason) in self.forced


UNVERIFIABLE = "unverifiable"

FORCIBLE: Mapping[str, str] = {
    "C2": "its node's latest fresh ping says busy or idle",
    "C3": "it had a sign of life inside `node_stale_after`",
    "C5": "its node's absence is too new, or was seen in too few listings",
    "S5": "it was leaked before the first start, with too many others",
    UNVERIFIABLE: "only its own tag is known to ask the cloud for its node by (C11)",
}
"""The rules that an operator may break by name, and what keeps the record by each (O3)."""

BROKEN_AS: Mapping[Reason, str] = {
    Reason.BUSY: "C2",
    Reason.IDLE: "C2",
    Reason.WITHIN_WINDOW: "C3",
    Reason.NOT_SETTLED: "C5",
    Reason.BACKLOG_HELD: "S5",
    Reason.UNVERIFIABLE: UNVERIFIABLE,
}
"""The rule that an operator must break, by the reason that keeps the record.

The window of a claim that never pinged (C21) can't be broken: its node may be on its way.
"""


@dataclass(frozen=True, slots=True)
class Marks:
    """All marks that stand, by id; `paused` is the pool's. `holds` are here only to be shown."""

    holds: Mapping[str, Mark] = field(default_factory=dict)
    drains: Mapping[str, Mark] = field(default_factory=dict)
    kills: Mapping[str, Mark] = field(default_factory=dict)
    paused: Mark | None = None


NO_MARKS = Marks()
