"""Applies an operator's backlog plan (S5).

A run is folded over decisions, like everything else in core. Each decision lets items go or says
why not. What is let go is judged with all other records from then on, within the cap on cleans
(C10); nothing here frees anything.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from functools import cached_property
from typing import Any

from nodemanager.core.judge.preconditions import standing_block
from nodemanager.core.model.reasons import Reason
from nodemanager.core.model.settings import Settings
from nodemanager.core.operate.adoption import standing_of_node
from nodemanager.core.operate.backlog import (
    IndexedPlan,
    Item,
    ItemAction,
    ItemStatus,
    Stand,
    standing_of,
)


class Where(StrEnum):
    """How far one item of a run has come. All but the first two are final."""

    WAITING = "waiting"
    LET_GO = "let_go"
    DONE = "done"
    ALREADY = "already"
    SKIPPED = "skipped"
    STOPPED = "stopped"


OPEN = frozenset({Where.WAITING, Where.LET_GO})


@dataclass(frozen=True, slots=True)
class ItemStep:
    """How far one item is, and why it waits, was skipped, or was done."""

    where: Where = Where.WAITING
    reason: Reason | None = None
    measures: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Order:
    """What an operator wants applied; `pool`, `store` and `account` are the plan's (L5)."""

    by: str
    pool: str
    store: str
    account: str
    items: tuple[Item, ...]


@dataclass(frozen=True)
class Run:
    """The plan in progress, or the last one. `begun_at` and `ended_at` are epoch seconds."""

    id: str
    by: str
    begun_at: float
    items: tuple[Item, ...]
    steps: Mapping[str, ItemStep]
    ended_at: float | None = None
    stopped: bool = False
    waits_for: Reason | None = None
    """What forbids every free at the moment."""

    @property
    def is_open(self) -> bool:
        return self.ended_at is None

    @cached_property
    def let_go(self) -> frozenset[str]:
        """The records that are no longer held back, each as `uuid@version`."""
        gone = (Where.LET_GO, Where.DONE)
        return frozenset(
            f"{item.id}@{item.version}"
            for item in self.items
            if item.deed is ItemAction.CLEAN and self.steps[item.key].where in gone
        )

    @property
    def counts(self) -> Mapping[str, int]:
        """The number of items at each `Where`."""
        counted = Counter(step.where.value for step in self.steps.values())
        return {where.value: counted.get(where.value, 0) for where in Where}

    def done(self, deed: ItemAction) -> int:
        """The number of items with that action that were done."""
        return sum(
            self.steps[item.key].where is Where.DONE for item in self.items if item.deed is deed
        )

    def has(self, items: tuple[Item, ...]) -> bool:
        """Whether the run has all of these items, at the same versions."""
        return set(items) <= set(self.items)


def refusal(
    order: Order, *, pool: str, store: str | None, account: str | None, dry_run: bool
) -> str | None:
    """Why this manager can't apply the order, and what to do; None if it can."""
    if dry_run:
        return (
            "this daemon runs with --dry-run: it writes nothing; start it without, and apply then"
        )
    if order.pool != pool:
        return f"the plan was made for pool {order.pool}, and this manager serves {pool}"
    if store is None or account is None:
        return "the daemon has not reached cloud and store yet; try again after its first polls"
    if order.store != store:
        return f"the plan was made from store {order.store}, and the store is {store} now (L5)"
    if order.account != account:
        return f"the plan was made from {order.account}, and the cloud is {account} now (L5)"
    return None


def begun(order: Order, id: str, seen: IndexedPlan, settings: Settings) -> Run:
    """The run of an order; items that are done or changed already get their step at once."""
    items = tuple({item.key: item for item in order.items}.values())
    run = Run(
        id,
        order.by,
        seen.snapshot.wall,
        items,
        {item.key: ItemStep() for item in items},
    )
    return after_plan(run, seen, settings)


def after_plan(run: Run, seen: IndexedPlan, settings: Settings) -> Run:
    """The run after one decision: open items are compared with it, and held ones are let go."""
    if not run.is_open:
        return run
    block = standing_block(seen.snapshot, settings)
    steps = dict(run.steps)
    for item in run.items:
        step = steps[item.key]
        if step.where in OPEN:
            standing = _standing(item, seen, settings)
            step = _step(step, standing)
            goes = step.where is Where.WAITING and standing.stand is Stand.HELD and block is None
            steps[item.key] = ItemStep(Where.LET_GO) if goes else step
    waits_for = None if block is None else block.reason
    return _ended(replace(run, steps=steps, waits_for=waits_for), seen.snapshot.wall)


def _standing(item: Item, seen: IndexedPlan, settings: Settings) -> ItemStatus:
    if item.deed is ItemAction.ADOPT:
        return standing_of_node(item, seen, settings.pool)
    return standing_of(item, seen)


def due_adoptions(run: Run | None) -> tuple[Item, ...]:
    """The nodes that are let go and not adopted yet."""
    if run is None or not run.is_open:
        return ()
    return tuple(
        item
        for item in run.items
        if item.deed is ItemAction.ADOPT and run.steps[item.key].where is Where.LET_GO
    )


def after_outcome(run: Run, key: str, step: ItemStep, wall: float) -> Run:
    """The run after one of its items was written, or was left alone by the check before that."""
    if not run.is_open or key not in run.steps or run.steps[key].where not in OPEN:
        return run
    return _ended(replace(run, steps={**run.steps, key: step}), wall)


def stopped(run: Run, wall: float) -> Run:
    """The run, ended by an operator: all items that are not done are held back again."""
    if not run.is_open:
        return run
    steps = {
        key: replace(step, where=Where.STOPPED) if step.where in OPEN else step
        for key, step in run.steps.items()
    }
    return _ended(replace(run, steps=steps, stopped=True), wall)


def _step(step: ItemStep, standing: ItemStatus) -> ItemStep:
    match standing.stand:
        case Stand.CHANGED:
            return ItemStep(Where.SKIPPED, standing.reason, standing.measures)
        case Stand.DONE:
            was_ours = step.where is Where.LET_GO
            return ItemStep(Where.DONE if was_ours else Where.ALREADY, standing.reason)
        case Stand.UNDER_WAY:
            return ItemStep(Where.LET_GO, standing.reason)
        case Stand.HELD:
            return ItemStep(step.where, standing.reason)
        case Stand.WAITS:
            return ItemStep(step.where, standing.reason, standing.measures)


def _ended(run: Run, wall: float) -> Run:
    if any(step.where in OPEN for step in run.steps.values()):
        return run
    return replace(run, ended_at=wall, waits_for=None)
