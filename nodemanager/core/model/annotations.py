"""The marks that operators set on nodes, records and the pool: who, when and why."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from nodemanager.core.model.reasons import FORCED, Reason
from nodemanager.core.model.world import CloudNode

PAUSE, ROTATE_PAUSE, PARK = "pause", "rotate_pause", "park"
"""The kinds of marks on the whole pool."""


@dataclass(frozen=True, slots=True)
class Mark:
    """An operator's order that stands until it is undone or carried out; `at` is epoch seconds.

    `incarnation` is the incarnation in the marked node's tags: some clouds reuse a node's id.
    A drain with `kept` is a cordon: the node takes no more work, and is not destroyed (O5).
    """

    by: str
    at: float
    reason: str = ""
    incarnation: str | None = None
    kept: bool = False

    def is_on(self, incarnation: str | None) -> bool:
        """Whether it is on the node of its id whose tags say this incarnation.

        A cordon stays where tags were taken or given since: only another incarnation says that it
        is another node. A drain or a kill needs its own.
        """
        is_unsaid = incarnation is None or self.incarnation is None
        return incarnation == self.incarnation or (self.kept and is_unsaid)

    def measures(self, wall: float) -> dict[str, Any]:
        """The measures that a verdict shows of this mark at `wall`, epoch seconds."""
        shown: dict[str, Any] = {"by": self.by}
        if self.reason:
            shown["cause"] = self.reason
        return {**shown, "age_s": max(0.0, wall - self.at)}


def of_node(marks: Mapping[str, Mark], node: CloudNode) -> Mark | None:
    """The mark on this node, but not one on an earlier node with the same id."""
    mark = marks.get(node.id)
    return mark if mark is not None and mark.is_on(node.tags.incarnation) else None


@dataclass(frozen=True, slots=True)
class HandClean:
    """An operator's order to free a record now; only the next plan judges it (O3).

    `at` is epoch seconds. `forced` names the rules, keys of FORCIBLE, that the operator overrides.
    """

    by: str
    at: float
    reason: str = ""
    forced: tuple[str, ...] = ()

    def measures(self) -> dict[str, Any]:
        shown: dict[str, Any] = {"by": self.by}
        if self.reason:
            shown["cause"] = self.reason
        return {**shown, "forced": ",".join(self.forced)} if self.forced else shown

    def breaks(self, reason: Reason) -> bool:
        """Whether the operator overrides the rule that keeps the record for `reason`."""
        return broken_as(reason) in self.forced


UNVERIFIABLE = "unverifiable"

FORCIBLE: Mapping[str, str] = {
    "C2": "its node's latest fresh ping says busy or idle",
    "C3": "it had a sign of life inside `node_stale_after`",
    "C5": "its node's absence is too new, or was seen in too few listings",
    "S5": "it was leaked before the first start, with too many others",
    UNVERIFIABLE: "only its own tag is known to ask the cloud for its node by (C11)",
}
"""The rules that an operator may override, and what each then no longer protects (O3)."""


def broken_as(reason: Reason) -> str | None:
    """The name in FORCIBLE of the rule that keeps a record for this; None where none may be broken.

    So for CLAIM_WITHIN_WINDOW: the node of a claim that never pinged may still be coming (C21).
    """
    if FORCED not in reason.row.means:
        return None
    return UNVERIFIABLE if reason is Reason.UNVERIFIABLE else reason.rule


@dataclass(frozen=True, slots=True)
class Marks:
    """All standing marks by id, and in `pool` those of the whole pool, by kind.

    `drains` has the cordons, too.
    """

    holds: Mapping[str, Mark] = field(default_factory=dict)
    drains: Mapping[str, Mark] = field(default_factory=dict)
    kills: Mapping[str, Mark] = field(default_factory=dict)
    pool: Mapping[str, Mark] = field(default_factory=dict)

    @property
    def by_kind(self) -> Mapping[str, Mapping[str, Mark]]:
        """The marks on nodes and records, by the word for each."""
        return {
            "hold": self.holds,
            "cordon": {id: one for id, one in self.drains.items() if one.kept},
            "drain": {id: one for id, one in self.drains.items() if not one.kept},
            "kill": self.kills,
        }

    def with_newer(self, marks: Marks) -> Marks:
        """These marks and `marks`, which go before them."""
        return Marks(
            {**self.holds, **marks.holds},
            {**self.drains, **marks.drains},
            {**self.kills, **marks.kills},
            {**self.pool, **marks.pool},
        )


NO_MARKS = Marks()
