"""Who holds the slots, which of them leak, and what keeps each of those (SAFETY.md U7).

A slot leaks while a record holds it that no listed node bears, and that is not claimed for a node
still to come: until the record is cleaned, nobody has any use of it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from nodemanager.core.model.reasons import Kind, Reason
from nodemanager.core.model.settings import Settings
from nodemanager.core.model.verdict import Verdict
from nodemanager.core.model.world import Record
from nodemanager.core.observe.history import freed_since_listed
from nodemanager.core.observe.nodes_by_record import node_of
from nodemanager.core.observe.signs import quiet_for
from nodemanager.core.plan.snapshot import Snapshot

NODE_TO_COME = frozenset(
    {Reason.NODE_LISTED, Reason.NODE_EXPECTED, Reason.CLAIM_WITHIN_WINDOW, Reason.OTHER_POOL}
)
"""Kept for a node that is there or may yet come, though no complete listing shows it."""


class Holder(StrEnum):
    """What a record that holds a slot holds it for."""

    OTHER_POOL = "other_pool"
    LISTED_NODE = "listed_node"
    CLAIM = "claim"
    NO_NODE = "no_node"


NODELESS = frozenset({Holder.CLAIM, Holder.NO_NODE})
"""Of these it is asked whether the slot leaks."""


@dataclass(frozen=True, slots=True)
class Leak:
    """The slots that leak for one cause: the reason code of what keeps their records now.

    `oldest_s` is how long the quietest of these records has been quiet. `free_in_s` is when, as far
    as windows tell, the first of them will be free; None when it waits for something other than
    time. Either is None where it can't be told.
    """

    cause: Reason
    count: int
    oldest_s: float | None
    free_in_s: float | None


@dataclass(frozen=True, slots=True)
class Slots:
    """The slot gate (U7). `free` is None where the store can't say how many there are.

    `held_by` counts the slots by why they are held. `earliest_free_s` is when, as far as the
    windows tell, the next one will be free. `leaks` are the leaked ones, those of the most slots
    first.
    """

    total: int | None
    free: int | None
    held_by: dict[str, int]
    earliest_free_s: float | None
    leaks: tuple[Leak, ...] = ()


def holder_of(record: Record, snapshot: Snapshot, settings: Settings) -> Holder:
    """What a record holds its slot for; one that holds none must not be asked about."""
    if record.pool is not None and record.pool != settings.pool:
        return Holder.OTHER_POOL
    history = snapshot.history
    if record.uuid in history.bearers or node_of(record, history.bearers, history.present):
        return Holder.LISTED_NODE
    if record.last_ping_at is None and record.claim is not None:
        return Holder.CLAIM
    return Holder.NO_NODE


def count_slots(
    records: Sequence[Record],
    verdicts: Sequence[Verdict],
    snapshot: Snapshot,
    settings: Settings,
) -> Slots:
    """Who holds the slots, of all pools (U7); `verdicts` are those of `records`, in their order.

    A set-up of ours takes one from its order on, before any listing shows its claim.
    """
    held: dict[Holder, int] = {}
    nodeless: list[tuple[Record, Verdict]] = []
    paired, listed = Reason.PAIRED, Holder.LISTED_NODE
    claiming = {uuid for uuid, one in snapshot.record_flights.items() if one.kind == "setup"}
    claiming |= snapshot.expected.keys()
    for record, verdict in zip(records, verdicts, strict=True):
        if record.slot_number is None:
            if record.claim is not None:
                claiming.add(record.uuid)
            continue
        if claiming:
            claiming.discard(record.uuid)
        # Most have their pair: nothing else is asked of them.
        holder = listed if verdict.reason is paired else holder_of(record, snapshot, settings)
        held[holder] = held.get(holder, 0) + 1
        if holder in NODELESS:
            nodeless.append((record, verdict))
    held_by = {holder.value: count for holder, count in held.items()}
    waiting = len(claiming) + len(snapshot.boots_unclaimed)
    if waiting:
        held_by["claim_without_slot"] = waiting
    total = snapshot.slots
    free = None if total is None else total - sum(held_by.values())
    times = [at for _, verdict in nodeless if (at := free_in_s(verdict)) is not None]
    leaks = _leaks(nodeless, snapshot) if nodeless else ()
    return Slots(total, free, held_by, min(times, default=None), leaks)


def free_in_s(verdict: Verdict) -> float | None:
    """Seconds until the record may be freed as far as its windows tell, from its own measures.

    None when no window keeps it: then it waits for a person, a listing or a deed under way.
    """
    measures: Mapping[str, float] = verdict.measures or {}
    if verdict.kind is Kind.CLEAN or verdict.kind is Kind.DEFER:
        return 0.0
    if verdict.reason in (Reason.WITHIN_WINDOW, Reason.CLAIM_WITHIN_WINDOW):
        return max(0.0, measures["window_s"] - measures["idle_s"])
    if verdict.reason is Reason.NOT_SETTLED:
        return max(0.0, measures["settle_s"] - measures["absent_s"])
    return None


def is_leaked(verdict: Verdict, snapshot: Snapshot) -> bool:
    """Whether a record whose node no complete listing shows holds its slot for nothing."""
    if verdict.reason in NODE_TO_COME or freed_since_listed(verdict.id, snapshot.history):
        return False
    flight = snapshot.record_flights.get(verdict.id)
    return flight is None or flight.kind != "setup"


def _leaks(nodeless: Sequence[tuple[Record, Verdict]], snapshot: Snapshot) -> tuple[Leak, ...]:
    clock = snapshot.history.clock
    leaked: dict[Reason, list[tuple[float | None, float | None]]] = {}
    for record, verdict in nodeless:
        if is_leaked(verdict, snapshot):
            quiet_s = None if clock is None else quiet_for(record, clock, snapshot)
            leaked.setdefault(verdict.reason, []).append((quiet_s, free_in_s(verdict)))
    leaks = [
        Leak(
            cause,
            len(these),
            max((quiet for quiet, _ in these if quiet is not None), default=None),
            min((at for _, at in these if at is not None), default=None),
        )
        for cause, these in leaked.items()
    ]
    return tuple(sorted(leaks, key=lambda leak: (-leak.count, leak.cause.value)))
