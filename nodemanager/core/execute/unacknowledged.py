"""Writes of unknown outcome to a store that can't compare versions (SAFETY.md A4, C12, U2).

A request that timed out may reach the store late, and overwrite newer data there. It does so within
`node_stale_after` of when we stopped waiting for it, or never (A4). Until then the record is not
reused, and the fence before a clean of unknown outcome stays. A fence that came up late is lifted
as soon as a listing shows it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from nodemanager.core.execute.pre_write_check import CleanEvidence, confirm_clean
from nodemanager.core.model.reasons import Kind, Reason
from nodemanager.core.model.settings import Settings
from nodemanager.core.model.verdict import Verdict, keep
from nodemanager.core.model.world import Record
from nodemanager.core.observe.snapshot import LateWrite, Snapshot
from nodemanager.core.safety.orders import CleanOrder

Late = Mapping[str, LateWrite]


def with_late(late: Late, uuid: str, at: float, *, clean: bool = False) -> Late:
    """With one more write of unknown outcome to the record, `at` CLOCK_BOOTTIME."""
    known = late.get(uuid)
    clean_at = known.clean_at if known is not None else None
    if clean:
        clean_at = at if clean_at is None else max(at, clean_at)
    if known is not None:
        at = max(at, known.at)
    return {**late, uuid: LateWrite(at, clean_at)}


def still_late(late: Late, now: float, settings: Settings) -> Late:
    """Without the writes that by now took effect or never will (A4)."""
    return {uuid: one for uuid, one in late.items() if now - one.at <= settings.node_stale_after}


@dataclass(frozen=True, slots=True)
class Unknown:
    """A clean that was written behind a fence, with unknown outcome.

    `judged` is the record before its fence, `since` the CLOCK_BOOTTIME of the last such write.
    """

    order: CleanOrder
    judged: Record
    since: float


def after_unknown(
    unknown: Unknown, found: CleanEvidence, snapshot: Snapshot, settings: Settings
) -> tuple[CleanOrder, Verdict]:
    """The order as it stands now, and what to do about a clean of unknown outcome (C12).

    KEEP with HOLDS_NOTHING: the clean took effect. CLEAN: only our own late writes changed the
    record, and the cloud denies its node again: write it once more; where a late write took the
    fence away, the order is not `fenced`, and the fence goes up again first. LIFT: the clean will
    never take effect, or the record is another's by now. Other KEEP: the fence stays for now.
    """
    order, record = replace(unknown.order, fenced=True), found.record
    if found.error is not None:
        return order, keep(order.uuid, Reason.EVIDENCE_MISSING, error=found.error)
    if record is None or record.incarnation not in (None, order.incarnation):
        return order, _lift(order, "the record is another's by now")
    if not record.holds_anything or record.incarnation != order.incarnation:
        return order, keep(order.uuid, Reason.HOLDS_NOTHING)
    if not _lives_on(unknown.judged, record):
        order = replace(order, version=record.version)
    verdict = confirm_clean(order, found, snapshot, settings)
    if verdict.kind is Kind.CLEAN:
        return replace(order, fenced=record.fenced), verdict
    waited_s = snapshot.now - unknown.since
    if waited_s > settings.node_stale_after:
        return order, _lift(order, verdict.reason.value, waited_s, settings)
    return order, verdict


def _lift(
    order: CleanOrder, why: str, waited_s: float | None = None, settings: Settings | None = None
) -> Verdict:
    limit_s = settings.node_stale_after if settings is not None else None
    measures = {"age_s": waited_s, "limit_s": limit_s, "detail": why}
    return Verdict(Kind.LIFT, Reason.FENCE_LEFT, order.uuid, measures)


def _lives_on(judged: Record, found: Record) -> bool:
    """Whether a ping changed the record since it was judged."""
    return (
        judged.last_ping_at != found.last_ping_at
        or judged.first_ping_at != found.first_ping_at
        or judged.instance_id != found.instance_id
    )
