"""What is known of our own writes to the record store (SAFETY.md B1, B3, C12, U2)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from nodemanager import errors
from nodemanager.core.execute.effects import FenceRecord, FreeRecord, LiftFence, StoreWrite
from nodemanager.core.model.breaker import Breaker
from nodemanager.core.model.settings import WRITE_FAILURES, Settings
from nodemanager.core.model.world import Guarantee
from nodemanager.core.observe.history import Records
from nodemanager.core.observe.snapshot import LateWrite
from nodemanager.core.safety import rate_limits

ANSWERS = (errors.Conflict, errors.NoSuchRecord, errors.NoFreeSlot, errors.SlotTaken)
"""Errors of a store that works, and could have written."""


# Writes of unknown outcome to a store that can't compare versions (SAFETY.md A4, C12, U2).
#
# A request that timed out may reach the store late, and overwrite newer data there. It does so
# within `node_stale_after` of when we stopped waiting for it, or never (A4). Until then the record
# is not reused, and the fence before a clean of unknown outcome stays. A fence that came up late is
# lifted as soon as a listing shows it.

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
class Writes:
    """Our own writes to the store, which has that `guarantee`.

    `failed` counts failures in a row. `own_cleans` has by record uuid the version that our own
    clean wrote, and when (CLOCK_BOOTTIME). `late` are writes that may still take effect.
    """

    guarantee: Guarantee = Guarantee.CAS
    failed: int = 0
    own_cleans: Mapping[str, tuple[str, float]] = field(default_factory=dict)
    late: Late = field(default_factory=dict)

    def without_own_clean(self, uuid: str) -> Writes:
        """Without our own clean of a record that was restored (U2)."""
        left = {id: one for id, one in self.own_cleans.items() if id != uuid}
        return replace(self, own_cleans=left)

    def in_doubt(self, uuid: str, at: float, *, frees: bool = False) -> Writes:
        """With a write that may still take effect, unless the store compares and sets."""
        if self.guarantee is Guarantee.CAS:
            return self
        late = with_late(self.late, uuid, at, clean=frees)
        return self if late == self.late else replace(self, late=late)

    def inherited(self, late: Late, under_way: Iterable[tuple[str, bool]], at: float) -> Writes:
        """With a former run's late writes, and the records that it may have been writing to when it
        ended, each with whether that frees it.
        """
        writes = self
        for uuid, one in late.items():
            writes = writes.in_doubt(uuid, one.at)
            if one.clean_at is not None:
                writes = writes.in_doubt(uuid, one.clean_at, frees=True)
        for uuid, frees in under_way:
            writes = writes.in_doubt(uuid, at, frees=frees)
        return writes

    def still(self, now: float, settings: Settings) -> Writes:
        """Without late writes that can no longer take effect."""
        return replace(self, late=still_late(self.late, now, settings)) if self.late else self


def after_answer(
    writes: Writes,
    breaker: Breaker,
    effect: StoreWrite,
    answer: Any,
    error: errors.RemoteError | None,
    at: float,
) -> tuple[Writes, Breaker]:
    """What is known of our writes, and the breaker, once one more write has ended.

    Failures in a row open the breaker, and a write that worked closes it.
    """
    if error is not None:
        writes, breaker = _after_error(writes, breaker, error, at)
    elif not (isinstance(effect, LiftFence) and answer is None):
        writes, breaker = _after_success(writes, breaker)
    if not isinstance(effect, FenceRecord | LiftFence | FreeRecord):
        return writes, breaker
    uuid, frees = effect.record.uuid, isinstance(effect, FreeRecord)
    if error is None and frees:
        own = {**writes.own_cleans, uuid: (answer.version, at)}
        return replace(writes, own_cleans=own), breaker
    if error is not None and not (error.definite or error.unsent):
        return writes.in_doubt(uuid, at, frees=frees), breaker
    return writes, breaker


def _after_error(
    writes: Writes, breaker: Breaker, error: errors.RemoteError, at: float
) -> tuple[Writes, Breaker]:
    if isinstance(error, ANSWERS):
        # What was read before a write does not tell whether the write would work.
        return (writes, breaker) if error.unsent else _after_success(writes, breaker)
    if not isinstance(error, errors.StoreError):
        return writes, breaker
    failed = writes.failed + 1
    return replace(writes, failed=failed), rate_limits.after_failed_write(breaker, failed, at)


def _after_success(writes: Writes, breaker: Breaker, failed: int = 0) -> tuple[Writes, Breaker]:
    return replace(writes, failed=failed), rate_limits.after_write(breaker)


def after_poll(
    writes: Writes, breaker: Breaker, listing: Records, at: float, settings: Settings
) -> tuple[Writes, Breaker]:
    """What is known of our writes, and the breaker, after a record poll.

    The poll's heartbeat is a write that worked (T1). A store without heartbeats is tried with a
    real write; its first failure opens the breaker again. A record that somebody has written since
    is no clean of ours any more (U2).
    """
    if listing.complete and writes.own_cleans:
        versions = {record.uuid: record.version for record in listing.items}
        own = {
            uuid: (version, at)
            for uuid, (version, at) in writes.own_cleans.items()
            if at >= listing.started_at or versions.get(uuid) == version
        }
        writes = replace(writes, own_cleans=own)
    if writes.guarantee is Guarantee.CAS:
        if rate_limits.may_try_writes(breaker, listing.started_at, settings):
            return _after_success(writes, breaker)
    elif rate_limits.may_try_writes(breaker, at, settings):
        return _after_success(writes, breaker, WRITE_FAILURES - 1)
    return writes, breaker
