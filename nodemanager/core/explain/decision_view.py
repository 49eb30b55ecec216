"""What status, metrics, `explain` and `nodes` are made from after each decision."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from nodemanager.core.explain.explain import APPLY
from nodemanager.core.model.annotations import NO_MARKS, Marks
from nodemanager.core.model.settings import Settings
from nodemanager.core.model.world import LeftoverKind
from nodemanager.core.observe.snapshot import Snapshot
from nodemanager.core.plan.leftovers import LedgerState
from nodemanager.core.plan.plan import Plan


@dataclass(frozen=True)
class DecisionView:
    """One decision, the snapshot it was taken from, and what else is shown. Never changed.

    `took_s` is how long the decision took. `leftovers` counts what is still to be released.
    `account` and `store` are blank until cloud and store have told them (L5).
    """

    snapshot: Snapshot
    made: Plan
    settings: Settings
    mode: str = APPLY
    took_s: float = 0.0
    marks: Marks = NO_MARKS
    leftovers: Mapping[tuple[LeftoverKind, LedgerState], int] = field(default_factory=dict)
    account: str = ""
    store: str = ""
