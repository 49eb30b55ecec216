"""Which seats a node may be had for: what the record says, and what the scheduler says (D16).

A seat is powered up by the scheduler, and a boot is only for one that it wants up. So what
min_nodes and spare nodes lack is an order to the scheduler, of a seat that is switched off and that
nobody sets aside; its wish for the node is demand like any other.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import StrEnum

from nodemanager.core.model.scheduling import SchedulerNode
from nodemanager.core.model.seats import may_take, seat_of
from nodemanager.core.model.settings import Settings
from nodemanager.core.model.world import Record, Size, WorkerState
from nodemanager.core.observe.snapshot import Snapshot


class SeatUse(StrEnum):
    """What a seat is, whose record is free."""

    OFF = "seat_off"
    WANTED = "seat_wanted"
    UNTOLD = "seat_untold"
    ELSEWHERE = "seat_elsewhere"
    RESERVED = "seat_reserved"
    DRAINED = "seat_drained"
    DOWN = "seat_down"
    CHANGING = "seat_changing"
    UP = "seat_up"


FREE = frozenset({SeatUse.OFF, SeatUse.WANTED})
"""A boot may get one of these: at once, or once the scheduler was told to power it up."""


class FreeSeats:
    """The seats that boots may get, each once; `uses` are those of the free `records`, by uuid."""

    def __init__(self, records: Iterable[Record], uses: Mapping[str, SeatUse]) -> None:
        self._left = [record for record in records if uses[record.uuid] in FREE]
        self._off = {uuid for uuid, use in uses.items() if use is SeatUse.OFF}

    def count_for(self, host: str) -> int:
        """How many boots the seat of that name may get: one or none."""
        return sum(seat_of(one) == host for one in self._left)

    def find(self, size: Size, host: str | None) -> Record | None:
        """The seat `host`; where None is given, one of that size that may be powered up."""
        fits = (one for one in self._left if may_take(one, size, host))
        return next((one for one in fits if host is not None or one.uuid in self._off), None)

    def take(self, seat: Record) -> None:
        self._left.remove(seat)


def uses_of(
    records: Iterable[Record], snapshot: Snapshot, settings: Settings
) -> Mapping[str, SeatUse]:
    """What the seats of the free `records` are, by uuid; none for a slot that takes any node."""
    listing = snapshot.history.scheduler
    is_fresh = (
        listing is not None and snapshot.now - listing.started_at <= settings.poll_stale_after
    )
    nodes = {node.name: node for node in listing.items} if listing is not None and is_fresh else {}
    return {
        record.uuid: use_of(nodes.get(seat))
        for record in records
        if not record.holds_anything and (seat := seat_of(record)) is not None
    }


def use_of(node: SchedulerNode | None) -> SeatUse:
    """What a seat is that no record of ours holds, by the scheduler's word on it."""
    if node is None:
        return SeatUse.UNTOLD
    if node.elsewhere:
        return SeatUse.ELSEWHERE
    if node.wanted:
        return SeatUse.WANTED
    if node.reserved:
        return SeatUse.RESERVED
    if node.draining:
        return SeatUse.DRAINED
    if node.given_up or (node.state is WorkerState.DOWN and not node.suspended):
        return SeatUse.DOWN
    if node.off:
        return SeatUse.OFF
    return SeatUse.CHANGING if node.suspended else SeatUse.UP
