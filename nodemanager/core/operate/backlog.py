"""What a backlog plan proposes, and how each of its items stands when it is applied (S5, D11).

An operator reads the plan, edits it, and gives it back, perhaps days later. Each item names the
version that was judged. It is compared with the newest decision, and let go only if nothing
changed. Letting go frees nothing: the record is then judged, checked and written like any other
(C0-C12).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from nodemanager.core.judge.records import is_touched
from nodemanager.core.model.reasons import PASSES, Kind, Reason, having
from nodemanager.core.model.verdict import Verdict
from nodemanager.core.model.world import Record
from nodemanager.core.observe.pairing import Pairs
from nodemanager.core.observe.signs import newest_sign
from nodemanager.core.observe.snapshot import Snapshot
from nodemanager.core.plan.plan import Plan
from nodemanager.core.safety.rate_limits import name_of


class ItemAction(StrEnum):
    """The action on an item."""

    CLEAN = "clean"
    ADOPT = "adopt"


class Stand(StrEnum):
    """How an item stands at one decision."""

    HELD = "held"
    UNDER_WAY = "under_way"
    WAITS = "waits"
    DONE = "done"
    CHANGED = "changed"


PASSING = having(PASSES)
"""Reasons that say nothing about the item itself: it waits until they are over."""


@dataclass(frozen=True, slots=True)
class Item:
    """One line of a plan: `id` is a record's uuid or a node's id, `version` what was judged.

    `record` is the record that a node to adopt is to be paired with, empty where none is named.
    """

    deed: ItemAction
    id: str
    version: str
    record: str = ""

    @property
    def key(self) -> str:
        return f"{self.deed.value} {self.id}"


@dataclass(frozen=True, slots=True)
class ItemStatus:
    """How an item stands, why, and what was measured."""

    stand: Stand
    reason: Reason
    measures: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class IndexedPlan:
    """One decision, indexed by the ids of what was judged."""

    snapshot: Snapshot
    records: Mapping[str, Record]
    verdicts: Mapping[str, Verdict]
    pairs: Pairs


def standing_of(item: Item, seen: IndexedPlan) -> ItemStatus:
    """How a record stands that a backlog plan wants cleaned at the item's version."""
    record = seen.records.get(item.id)
    flight = seen.snapshot.record_flights.get(item.id)
    if flight is not None:
        # Our own fence changes the version, too (C12): judge it when this is over.
        return ItemStatus(Stand.WAITS, Reason.IN_FLIGHT, {"action": flight.kind})
    if is_touched(item.id, seen.snapshot):
        return ItemStatus(Stand.WAITS, Reason.CHANGED_SINCE_LISTING)
    if record is None:
        return ItemStatus(Stand.CHANGED, Reason.RECORD_GONE)
    if record.version != item.version:
        if not record.holds_anything and not record.problems:
            return ItemStatus(Stand.DONE, Reason.HOLDS_NOTHING)
        measures = {"version": record.version, "judged": item.version}
        return ItemStatus(Stand.CHANGED, Reason.CHANGED_SINCE_PLAN, measures)
    verdict = seen.verdicts[item.id]
    measures = dict(verdict.measures or {})
    if verdict.kind in (Kind.CLEAN, Kind.DEFER):
        return ItemStatus(Stand.UNDER_WAY, verdict.reason, measures)
    if verdict.reason is Reason.BACKLOG_HELD:
        return ItemStatus(Stand.HELD, verdict.reason, measures)
    if verdict.reason is Reason.HOLDS_NOTHING:
        return ItemStatus(Stand.DONE, verdict.reason, measures)
    stand = Stand.WAITS if verdict.reason in PASSING else Stand.CHANGED
    return ItemStatus(stand, verdict.reason, measures)


@dataclass(frozen=True, slots=True)
class Candidate:
    """One line of a plan, with the evidence. Times are epoch seconds of the store.

    A line that is not `chosen` is shown, but left out until an operator chooses it. `asked` is the
    cloud's newest answer by id or tag, None if it was not asked; C11 asks again before the write.
    """

    item: Item
    chosen: bool
    standing: ItemStatus
    slot: int | None = None
    host: str | None = None
    node: str | None = None
    claimed_by: str | None = None
    last_sign_at: float | None = None
    asked: str | None = None
    name: str | None = None
    state: str | None = None
    created_at: float | None = None
    then: str | None = None
    """What will be done with a node once it is adopted."""


@dataclass(frozen=True, slots=True)
class Proposal:
    """What an operator is asked to decide. `freeing` counts the records that go without that."""

    candidates: tuple[Candidate, ...]
    freeing: int = 0


def proposal(seen: IndexedPlan) -> Proposal:
    """The records held back and the unverifiable ones; chosen and longest quiet first (C11, S5)."""
    held = [*_held_back(seen)]
    freeing = sum(verdict.kind in (Kind.CLEAN, Kind.DEFER) for verdict in seen.verdicts.values())
    held.sort(key=lambda one: (not one.chosen, one.last_sign_at or 0.0, one.item.id))
    return Proposal(tuple(held), freeing)


def _held_back(seen: IndexedPlan) -> Iterator[Candidate]:
    backlog = seen.snapshot.backlog
    for uuid, record in seen.records.items():
        verdict = seen.verdicts[uuid]
        held = verdict.reason is Reason.BACKLOG_HELD or name_of(record) in backlog
        if not held and verdict.reason is not Reason.UNVERIFIABLE:
            continue
        item = Item(ItemAction.CLEAN, uuid, record.version)
        standing = standing_of(item, seen)
        if standing.stand in (Stand.UNDER_WAY, Stand.DONE):
            continue
        yield Candidate(
            item,
            standing.stand is not Stand.CHANGED,
            standing,
            slot=record.slot_number,
            host=record.hostname,
            node=record.instance_id,
            claimed_by=record.claim.manager if record.claim is not None else None,
            last_sign_at=newest_sign(record),
            asked=_answer(record, seen),
        )


def _answer(record: Record, seen: IndexedPlan) -> str | None:
    asked = seen.snapshot.history.asked
    found = asked.get(record.instance_id or "") or asked.get(record.uuid)
    if found is None:
        return None
    if not found.nodes:
        return "no such node"
    return ",".join(sorted({node.state.value for node in found.nodes}))


def indexed_plan(made: Plan, snapshot: Snapshot) -> IndexedPlan | None:
    """The decision by the ids of what was judged; None where none could be taken."""
    listing = made.history.records
    if made.aborted is not None or listing is None:
        return None
    return IndexedPlan(
        snapshot,
        {record.uuid: record for record in listing.items},
        {verdict.id: verdict for verdict in made.records},
        made.pairs,
    )
