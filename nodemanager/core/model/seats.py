"""Records whose slot is one certain seat: a node of the scheduler, of a certain name and size.

A registry's slot takes any node. Where the store's slots are the scheduler's own nodes, a boot for
one of them must take that record and no other.
"""

from __future__ import annotations

from nodemanager.core.model.world import Record, Size

SEAT, SEAT_SIZE = "nodemanager_seat", "nodemanager_seat_size"
"""The properties with the seat's name, and with the names of its size where it takes one only."""


def seat_of(record: Record) -> str | None:
    """The name of the node that the record is in the scheduler; None where its slot is any."""
    seat = record.properties.get(SEAT)
    return seat if isinstance(seat, str) else None


def host_of(record: Record) -> str | None:
    """The record's hostname; of a free seat, the name that its node would have."""
    return record.hostname or seat_of(record)


def may_take(record: Record, size: Size, host: str | None) -> bool:
    """Whether a boot of that size, for the node `host` if it is for one, may claim the record."""
    if host is not None and seat_of(record) != host:
        return False
    named = record.properties.get(SEAT_SIZE) or ()
    return not named or not set(size.names).isdisjoint(named)
