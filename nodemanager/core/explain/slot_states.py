"""The slots of a decision by what they are good for: used, idle, leaked or free."""

from __future__ import annotations

from dataclasses import dataclass

from nodemanager.core.plan.plan import Plan
from nodemanager.core.plan.slots import Holder


@dataclass(frozen=True, slots=True)
class SlotStates:
    """The number of slots in each state; their sum is the number of all slots.

    `idle` have a node that says it is idle, `leaked` are held for nothing past their windows
    (SAFETY.md U7), `used` are all others that are held, other pools' too. `free` is None if the
    store does not tell how many slots there are.
    """

    used: int
    idle: int
    leaked: int
    free: int | None


def slot_states(made: Plan) -> SlotStates | None:
    """The slots by state, or None where the decision was aborted and counted none."""
    slots = made.slots
    if slots is None:
        return None
    held = sum(slots.held_by.values())
    leaked = sum(leak.leaked for leak in slots.leaks)
    idle = min(made.counts.get("nodes_idle", 0), slots.held_by.get(Holder.LISTED_NODE.value, 0))
    free = None if slots.total is None else max(0, slots.total - held)
    return SlotStates(max(0, held - leaked - idle), idle, leaked, free)
