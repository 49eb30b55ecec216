"""Sums that the numbers of one decision must satisfy: counts of one thing, made in two ways."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass

from nodemanager.core.observe.nodes_by_record import each_once
from nodemanager.core.observe.snapshot import Snapshot
from nodemanager.core.plan.counts import place_of
from nodemanager.core.plan.plan import Plan
from nodemanager.core.plan.slots import CLAIM_WITHOUT_SLOT


@dataclass(frozen=True, slots=True)
class Sum:
    """A number and what must make it up; with `at_most` the parts may come to less."""

    name: str
    whole: int
    parts: Mapping[str, int]
    at_most: bool = False

    @property
    def is_possible(self) -> bool:
        total = sum(self.parts.values())
        if any(count < 0 for count in self.parts.values()):
            return False
        return total <= self.whole if self.at_most else total == self.whole

    @property
    def measures(self) -> dict[str, object]:
        """The sum as it is told."""
        relation = "at most" if self.at_most else "exactly"
        return {"sum": self.name, relation.replace(" ", "_"): self.whole, **self.parts}


def sums(
    made: Plan, snapshot: Snapshot, nodes: Mapping[str, int], pending: Collection[str]
) -> Iterator[Sum]:
    """The sums of a decision; `nodes` counts the listed ones, `pending` are records of future ones.

    The plan's own counts are made by other code than `nodes`.
    """
    cloud, records = snapshot.history.cloud, snapshot.history.records
    assert cloud is not None
    assert records is not None
    listed = len(each_once(cloud.items, snapshot.history.nodes_twice))
    yield Sum("nodes listed", listed, nodes)
    ours = {name: count for name, count in nodes.items() if name not in ("foreign", "gone")}
    yield Sum("nodes of the pool", made.counts.get("nodes", 0), ours)
    booting = sum(place_of(view) == "booting" for view in made.views)
    coming = {"listed": booting, "claims": len(pending), "set-ups": len(snapshot.boots_unclaimed)}
    yield Sum("nodes booting", made.counts.get("nodes_booting", 0), coming)
    paired = [view.record.uuid for view in made.views if place_of(view) and view.record is not None]
    yield Sum("pairs", made.counts.get("nodes_paired", 0), {"records": len(set(paired))})
    if made.slots is None:
        return
    held = sum(record.slot_number is not None for record in records.items)
    holders = {
        name: count for name, count in made.slots.held_by.items() if name != CLAIM_WITHOUT_SLOT
    }
    yield Sum("slots held", held, holders)
    if snapshot.slots is not None:
        yield Sum("slots", snapshot.slots, {"held": held}, at_most=True)
