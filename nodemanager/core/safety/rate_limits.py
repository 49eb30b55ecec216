"""Too much at once, and too many failures: what else opens the breaker (SAFETY.md B1, B3).

And how long a server may make us wait (D6).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import replace

from nodemanager.core.model.settings import (
    ELIGIBLE_FLOOR,
    ELIGIBLE_FRACTION,
    ELIGIBLE_WINDOW_S,
    WRITE_FAILURES,
    Settings,
)
from nodemanager.core.model.world import Record
from nodemanager.core.observe.history import History
from nodemanager.core.plan.snapshot import Snapshot
from nodemanager.core.safety.breaker import Breaker, Cause, opened, with_part

LONG_AGO = float("-inf")
"""When a record became eligible that is not newly so: an operator was told of it (S5)."""


def heeded(asked_s: float | None, longest_s: float) -> float | None:
    """How long to wait where a server asked for that; None where it named no time (D6)."""
    if asked_s is None or math.isnan(asked_s) or asked_s < 0:
        return None
    return min(asked_s, longest_s)


def eligible_limit(slots: int | None) -> float:
    """So many records may become eligible in ten minutes."""
    return max(ELIGIBLE_FLOOR, ELIGIBLE_FRACTION * (slots or 0))


def name_of(record: Record) -> str:
    """How a record that may be freed is named: by this version of it, so that a new life is new."""
    return f"{record.uuid}@{record.version}"


def _uuid_in(name: str) -> str:
    return name.partition("@")[0]


def eligible_seen(snapshot: Snapshot, eligible: Iterable[Record], known: Iterable[str]) -> History:
    """Fold in which records may be freed by now, but for cap, breaker and lease.

    Those `known`, by name, an operator has been told of. One became so once: while it is listed as
    it was then, an outage that hides the evidence in between makes it no newer.
    """
    history, now, told = snapshot.history, snapshot.now, frozenset(known)
    before = history.eligible
    old = {_uuid_in(name) for name, at in before.items() if now - at > ELIGIBLE_WINDOW_S}
    listed: frozenset[str] = frozenset()
    if old and history.records is not None:
        listed = frozenset(name_of(one) for one in history.records.items if one.uuid in old)
    since = {
        name: at
        for name, at in before.items()
        if now - at <= ELIGIBLE_WINDOW_S or name in listed or _is_under_way(name, snapshot)
    }
    for record in eligible:
        name = name_of(record)
        since.setdefault(name, LONG_AGO if name in told else now)
    return history if since == before else replace(history, eligible=since)


def _is_under_way(name: str, snapshot: Snapshot) -> bool:
    uuid = _uuid_in(name)
    return uuid in snapshot.record_flights or uuid in snapshot.touched


def after_eligible(breaker: Breaker, history: History, slots: int | None, at: float) -> Breaker:
    """Opens when too many distinct records became eligible within ten minutes (B1).

    Those are not counted whose node, or which themselves, an L3 episode confirmed lost; nor what
    was so when an operator last looked, in this run or a former one.
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
    new -= _lost(breaker, history.records.items if history.records is not None else ())
    if not len(new) > limit:
        return breaker
    detail: Mapping[str, int] = {"count": len(new), "limit": int(limit)}
    return opened(breaker, Cause.CLEAN_RATE, new, at, detail)


def _lost(breaker: Breaker, records: Iterable[Record]) -> frozenset[str]:
    """Names of records whose loss, or whose node's, a collapse is known to explain."""
    gone = set(breaker.gone)
    for part in breaker.parts:
        if part.cause is Cause.CLOUD_COLLAPSED:
            gone |= part.confirmed
    if not gone:
        return frozenset()
    return frozenset(name_of(one) for one in records if one.uuid in gone or one.instance_id in gone)


def after_failed_write(breaker: Breaker, failures: int, at: float) -> Breaker:
    """Opens on the fifth write to the record store in a row that failed (B1)."""
    if failures < WRITE_FAILURES or breaker.part(Cause.WRITES_FAIL) is not None:
        return breaker
    return opened(breaker, Cause.WRITES_FAIL, frozenset(), at, {"count": failures})


def after_write(breaker: Breaker) -> Breaker:
    """A write succeeded: a probe, or one of those that go on (B3)."""
    if breaker.part(Cause.WRITES_FAIL) is None:
        return breaker
    return with_part(breaker, Cause.WRITES_FAIL, None)


def may_try_writes(breaker: Breaker, at: float, settings: Settings) -> bool:
    """Whether a heartbeat of that time closes it; or, on a store that has none, a real write may.

    Once every max_poll_time (B3): a heartbeat may go through where nothing else does, and what
    opened the breaker would be tried again with every poll.
    """
    part = breaker.part(Cause.WRITES_FAIL)
    return part is not None and at - part.opened_at > settings.max_poll_time
