"""The pool that a record belongs to (SAFETY.md T3, C0)."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from nodemanager.core.model.reasons import Reason
from nodemanager.core.model.settings import Settings
from nodemanager.core.model.world import Record

PREFLIGHT = "-preflight"
_LONGEST = 63


def preflight_of(pool: str) -> str:
    """The pool of `pool`'s pre-flight: what it boots and claims is no business of `pool`'s manager.

    Its manager never handles a record without a pool. So it is no other pool to `adopts_unclaimed`.
    """
    return f"{pool[: _LONGEST - len(PREFLIGHT)]}{PREFLIGHT}"


def not_ours(record: Record, pool: str, adopt_unclaimed: bool | None) -> Reason | None:
    """Why a record is not `pool`'s, or None if it is.

    It is not if it or its claim names another, or both name none and `adopt_unclaimed` is False.
    """
    named, claim = record.pool, record.claim
    if claim is not None and claim.pool != named:
        if named is not None or claim.pool != pool:
            return Reason.OTHER_POOL
        return None
    if named is None:
        return Reason.UNCLAIMED_POOL if adopt_unclaimed is False else None
    return None if named == pool else Reason.OTHER_POOL


def is_ours_to_claim(record: Record, settings: Settings) -> bool:
    """Whether a boot of this pool may claim the record once it is clean (U1, U2).

    Two pools may both regard a record that names none as theirs. Without compare-and-set, a late
    claim could overwrite the other pool's claim, so that such a record is never claimed there. A
    seat that names none is whoever's whose partitions have it: no record is ever made for it.
    """
    adopts = settings.adopt_unclaimed if settings.compare_and_set else False
    if settings.seats:
        adopts = True
    return not_ours(record, settings.pool, adopts) is None


def other_pools(records: Iterable[Record], settings: Settings) -> frozenset[str]:
    named = {record.pool for record in records} - {settings.pool, preflight_of(settings.pool)}
    return frozenset(pool for pool in named if pool is not None)


def adopts_unclaimed(others: Collection[str], settings: Settings) -> bool:
    """Whether records without a pool are ours: by default while no record names another (T3).

    `others` are all other pools that were ever seen: a listing that lacks theirs may be short.
    """
    return not others if settings.adopt_unclaimed is None else settings.adopt_unclaimed


def uuids_of_ours(
    records: Iterable[Record], others: Collection[str], settings: Settings
) -> frozenset[str]:
    """The uuids of this pool's records (L3a); `others` as for `adopts_unclaimed`."""
    pool, adopts = settings.pool, adopts_unclaimed(others, settings)
    # Most records are claimed for this pool and name it, and the call costs more than to see that.
    return frozenset(
        [
            one.uuid
            for one in records
            if (one.pool == pool and one.claim is not None and one.claim.pool == pool)
            or not_ours(one, pool, adopts) is None
        ]
    )
