"""Which event tells of a verdict."""

from __future__ import annotations

from nodemanager.core.reasons import Event, Kind, Reason


def event_of_record(kind: Kind) -> Event:
    """What a line about a record's verdict begins with."""
    if kind is Kind.CLEAN:
        return Event.RECORD_CLEAN
    return Event.RECORD_KEEP if kind is Kind.KEEP else Event.RECORD_DEFERRED


def event_of_node(kind: Kind, reason: Reason) -> Event:
    """What a line about a node's verdict begins with."""
    if kind is Kind.SHUTDOWN:
        return Event.NODE_SHUTDOWN_STARTED
    return Event.NODE_FOREIGN if reason is Reason.FOREIGN_NODE else Event.NODE_KEEP
