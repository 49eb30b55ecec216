"""The rates that open the breaker (SAFETY.md B1, B3), and how long a server may delay us (D6)."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import replace

from nodemanager.core.model.breaker import Breaker, Cause
from nodemanager.core.model.settings import (
    ELIGIBLE_FLOOR,
    ELIGIBLE_FRACTION,
    ELIGIBLE_WINDOW_S,
    WRITE_FAILURES,
    Settings,
)
from nodemanager.core.model.world import Record
from nodemanager.core.observe.history import History
from nodemanager.core.observe.snapshot import Snapshot
from nodemanager.core.safety.breaker import opened, with_part

LONG_AGO = float("-inf")
"""The time for records that do not count as newly eligible: an operator was told of them (S5)."""


def capped_retry_after(asked_s: float | None, longest_s: float) -> float | None:
    """The seconds to wait as a server asked, at most `longest_s`; None if it named no time (D6)."""
    if asked_s is None or math.isnan(asked_s) or asked_s < 0:
        return None
    return min(asked_s, longest_s)


def eligible_limit(slots: int | None) -> float:
    """The most records that may become eligible within ELIGIBLE_WINDOW_S (B1)."""
    return max(ELIGIBLE_FLOOR, ELIGIBLE_FRACTION * (slots or 0))


def name_of(record: Record) -> str:
    """The name of an eligible record, with its version, so that a new life has another name."""
    return f"{record.uuid}@{record.version}"


def _uuid_in(name: str) -> str:
    return name.partition("@")[0]


def eligible_seen(snapshot: Snapshot, eligible: Iterable[Record], known: Iterable[str]) -> History:
    """Fold in which records only cap, breaker or lease keep from being freed now (B1).

    An operator was told of those in `known`, by name. A record becomes eligible once: an outage
    that hides the evidence for a while does not make it newly eligible while its version stays.
    """
    history, now, named = snapshot.history, snapshot.now, frozenset(known)
    before = history.eligible
    old = {_uuid_in(name) for name, at in before.items() if now - at > ELIGIBLE_WINDOW_S}
    listed: frozenset[str] = frozenset()
    if old:
        listed = frozenset(name_of(one) for one in history.listed_records if one.uuid in old)
    since = {
        name: at
        for name, at in before.items()
        if now - at <= ELIGIBLE_WINDOW_S or name in listed or _is_under_way(name, snapshot)
    }
    for record in eligible:
        name = name_of(record)
        since.setdefault(name, LONG_AGO if name in named else now)
    return history if since == before else replace(history, eligible=since)


def _is_under_way(name: str, snapshot: Snapshot) -> bool:
    uuid = _uuid_in(name)
    return uuid in snapshot.record_flights or uuid in snapshot.touched


def after_eligible(breaker: Breaker, history: History, slots: int | None, at: float) -> Breaker:
    """The breaker, open if too many distinct records became eligible within ELIGIBLE_WINDOW_S (B1).

    Records do not count if an L3 episode explains the loss of them or of their node, or if they
    were eligible when an operator last reset the breaker, in this run or an earlier one.
    """
    if breaker.part(Cause.CLEAN_RATE) is not None:
        return breaker
    limit = eligible_limit(slots)
    new = frozenset(
        name
        for name, since in history.eligible.items()
        if at - since <= ELIGIBLE_WINDOW_S and since > breaker.looked_at
    )
    if not len(new) > limit:
        return breaker
    new -= breaker.looked
    if not len(new) > limit:
        return breaker
    new -= _lost(breaker, history.listed_records)
    if not len(new) > limit:
        return breaker
    detail: Mapping[str, int] = {"count": len(new), "limit": int(limit)}
    return opened(breaker, Cause.CLEAN_RATE, new, at, detail)


def _lost(breaker: Breaker, records: Iterable[Record]) -> frozenset[str]:
    """The names of records whose own loss, or whose node's, a collapse explains."""
    gone = set(breaker.gone)
    for part in breaker.parts:
        if part.cause is Cause.CLOUD_COLLAPSED:
            gone |= part.confirmed
    if not gone:
        return frozenset()
    return frozenset(name_of(one) for one in records if one.uuid in gone or one.instance_id in gone)


def after_failed_write(breaker: Breaker, failures: int, at: float) -> Breaker:
    """The breaker, open once `failures` writes to the store in a row reach WRITE_FAILURES (B1)."""
    if failures < WRITE_FAILURES or breaker.part(Cause.WRITES_FAIL) is not None:
        return breaker
    return opened(breaker, Cause.WRITES_FAIL, frozenset(), at, {"count": failures})


def after_write(breaker: Breaker) -> Breaker:
    """The breaker after a successful write: not open for failed writes (B3)."""
    if breaker.part(Cause.WRITES_FAIL) is None:
        return breaker
    return with_part(breaker, Cause.WRITES_FAIL, None)


def may_try_writes(breaker: Breaker, at: float, settings: Settings) -> bool:
    """Whether a heartbeat at `at` closes it, or, on a store without one, a real write may (B3).

    Not within max_poll_time of its opening: a heartbeat may pass where other writes fail, and with
    every poll those that opened the breaker would be tried again.
    """
    part = breaker.part(Cause.WRITES_FAIL)
    return part is not None and at - part.opened_at > settings.max_poll_time
