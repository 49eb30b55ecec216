"""The log event of each verdict."""

from __future__ import annotations

from typing import Any

from nodemanager.core.model.reasons import Event, Kind, Reason
from nodemanager.core.model.world import Record

CLEANED, LIFTED, EXPIRED = "cleaned", "lifted", "expired"
"""Outcomes of cleans that are no reason codes."""


def record_fields(record: Record | None, uuid: str) -> dict[str, Any]:
    """The log fields that name a record."""
    if record is None:
        return {"record": uuid}
    return {"record": uuid, "slot": record.slot_number, "host": record.hostname}


def event_of_record(kind: Kind) -> Event:
    """The log event of a verdict of this kind on a record."""
    if kind is Kind.CLEAN:
        return Event.RECORD_CLEAN
    return Event.RECORD_KEEP if kind is Kind.KEEP else Event.RECORD_DEFERRED


def event_of_node(kind: Kind, reason: Reason) -> Event:
    """The log event of a verdict of this kind on a node."""
    if kind is Kind.SHUTDOWN:
        return Event.NODE_SHUTDOWN_STARTED
    return Event.NODE_FOREIGN if reason is Reason.FOREIGN_NODE else Event.NODE_KEEP
