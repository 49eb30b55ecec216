"""A clean to carry out: what was judged, and until when that stands (SAFETY.md C11, C12)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from nodemanager.core.model.annotations import HandClean
from nodemanager.core.model.evidence import Grounds, grounds_of
from nodemanager.core.model.reasons import Reason
from nodemanager.core.model.settings import ORDER_TTL_S, Settings
from nodemanager.core.model.verdict import Verdict
from nodemanager.core.model.world import Record
from nodemanager.core.plan.snapshot import Snapshot


@dataclass(frozen=True, slots=True)
class CleanOrder:
    """One clean to carry out: what was judged, and until when the judgement stands (C11).

    An exception is AFTER_SHUTDOWN (C20) or CREATE_REFUSED (U6), whose own conditions take the
    place of the waived ones; then `version` is None and the version judged is the one re-read. So
    it is for PINGER_DENIED (P6), whose every ping makes a new one.
    `fenced` says that the node is locked out already and the fence has stood (C12), since
    `fenced_at`. `not_after` and that are CLOCK_BOOTTIME. `instance_id` is the node destroyed, or
    the one that pinged; `created_at` is the launch of the one destroyed, on the cloud's clock.
    `grounds` is what the plan judged, for the proof afterwards. `hand` is the operator's order
    that it carries out, and the rules they broke (O3).
    """

    uuid: str
    reason: Reason
    plan_id: str
    breaker_generation: int
    not_after: float
    version: str | None
    incarnation: str | None
    instance_id: str | None
    slot: int | None = None
    hostname: str | None = None
    measures: Mapping[str, Any] = field(default_factory=dict)
    fenced: bool = False
    fenced_at: float | None = None
    grounds: Grounds | None = None
    hand: HandClean | None = None
    created_at: float | None = None

    @property
    def is_exception(self) -> bool:
        return self.reason in (Reason.AFTER_SHUTDOWN, Reason.CREATE_REFUSED)


def order_clean(
    record: Record, verdict: Verdict, snapshot: Snapshot, settings: Settings, place: int = 0
) -> CleanOrder:
    """The order that a CLEAN verdict calls for, the cycle's `place`th from 0 (C10)."""
    return CleanOrder(
        uuid=record.uuid,
        reason=verdict.reason,
        plan_id=snapshot.plan_id,
        breaker_generation=snapshot.breaker.generation,
        not_after=snapshot.now + ORDER_TTL_S,
        version=None if verdict.reason is Reason.PINGER_DENIED else record.version,
        incarnation=record.incarnation,
        instance_id=record.instance_id,
        slot=record.slot_number,
        hostname=record.hostname,
        measures=verdict.measures or {},
        grounds=grounds_of(record, snapshot, settings, place),
        hand=snapshot.by_hand.get(record.uuid),
    )


def order_release(
    uuid: str,
    reason: Reason,
    snapshot: Snapshot,
    *,
    incarnation: str | None,
    instance_id: str | None,
    slot: int | None = None,
    hostname: str | None = None,
    created_at: float | None = None,
) -> CleanOrder:
    """The clean that follows a shutdown of ours (C20) or a refused create (U6)."""
    return CleanOrder(
        uuid=uuid,
        reason=reason,
        plan_id=snapshot.plan_id,
        breaker_generation=snapshot.breaker.generation,
        not_after=snapshot.now + ORDER_TTL_S,
        version=None,
        incarnation=incarnation,
        instance_id=instance_id,
        slot=slot,
        hostname=hostname,
        created_at=created_at,
    )


def fenced_order(
    order: CleanOrder, judged: Record, fenced: Record, now: float
) -> CleanOrder | None:
    """The order as it stands behind the fence, or None when something moved before it (C12).

    The fence was the first write: not-after binds it, counted to its answer, and nothing after it.
    What must not have changed from here on is the fenced version.
    """
    if now > order.not_after:
        return None
    if (
        judged.last_ping_at != fenced.last_ping_at
        or judged.first_ping_at != fenced.first_ping_at
        or judged.slot_number != fenced.slot_number
        or judged.hostname != fenced.hostname
        or judged.ip_address != fenced.ip_address
        or judged.instance_id != fenced.instance_id
        or judged.claim != fenced.claim
    ):
        return None
    return replace(
        order, version=fenced.version, not_after=float("inf"), fenced=True, fenced_at=now
    )
