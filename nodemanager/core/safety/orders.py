"""Orders to clean a record: what was judged, and how long that holds (SAFETY.md C11, C12)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from nodemanager.core.model.annotations import HandClean
from nodemanager.core.model.reasons import Reason
from nodemanager.core.model.settings import ORDER_TTL_S, Settings
from nodemanager.core.model.verdict import Verdict
from nodemanager.core.model.world import Record
from nodemanager.core.observe.evidence import Grounds, grounds_of
from nodemanager.core.observe.snapshot import Snapshot

NEVER = float("-inf")
"""The not-after of an order that only puts something back, and must free nothing."""


@dataclass(frozen=True, slots=True)
class CleanOrder:
    """One clean to carry out: what was judged, and until when the judgement holds (C11).

    `version` is the version judged. It is None for an exception (C20, U6), and for PINGER_DENIED
    (P6), whose every ping makes a new version: then the version re-read before the write counts.
    `fenced` says that a fence locks the node out since `fenced_at` (C12). `not_after` and
    `fenced_at` are CLOCK_BOOTTIME seconds. `instance_id` is the record's node: the one destroyed,
    claimed for or that pinged. `created_at` is the launch of the node destroyed, by the cloud's
    clock. `grounds` is the plan's evidence, for the proof. `hand` is the operator's order that this
    clean carries out (O3).
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
        """Whether the clean follows our shutdown (C20) or a refused create (U6)."""
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
    """The order once the fence stands, or None if the fence was late or the record changed (C12).

    `judged` is the record before the fence, `fenced` after it. `not_after` binds only the fence's
    write, answered at `now`; from here on the version of `fenced` must not change.
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
