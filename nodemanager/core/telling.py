"""Which event tells of what: the same in the daemon's log and in what is read from its journal."""

from __future__ import annotations

from typing import Any

from nodemanager.core.model import Outcome, Record
from nodemanager.core.reasons import Event, Kind, Reason

CLEANED, LIFTED, CREATED, EXPIRED = "cleaned", "lifted", "created", "expired"
"""Outcomes of intents that are neither a reason code nor a destroy's Outcome."""
FAILURES = frozenset({"failed", "unknown", EXPIRED})


def record_fields(record: Record | None, uuid: str) -> dict[str, Any]:
    """What a line says of the record that it is about."""
    if record is None:
        return {"record": uuid}
    return {"record": uuid, "slot": record.slot_number, "host": record.hostname}


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


def event_of_clean(outcome: str) -> Event:
    """What became of a clean, or of the fence before one."""
    if outcome == CLEANED:
        return Event.RECORD_CLEANED
    if outcome == LIFTED:
        return Event.RECORD_UNFENCED
    return Event.RECORD_CLEAN_FAILED if outcome in FAILURES else Event.RECORD_CLEAN_SKIPPED


def event_of_create(outcome: str) -> Event:
    return Event.NODE_CREATED if outcome == CREATED else Event.NODE_SETUP_FAILED


def event_of_destroy(outcome: str) -> Event:
    if outcome == Outcome.GONE.value:
        return Event.NODE_GONE
    if outcome in FAILURES or outcome == Outcome.ACCEPTED.value:
        return Event.NODE_SHUTDOWN_FAILED
    return Event.NODE_SHUTDOWN_SKIPPED
