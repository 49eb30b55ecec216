"""Whose a record is (SAFETY.md T3, C0)."""

from __future__ import annotations

from collections.abc import Iterable

from nodemanager.core.model.reasons import Reason
from nodemanager.core.model.settings import Settings
from nodemanager.core.model.world import Record


def not_ours(record: Record, pool: str, adopt_unclaimed: bool | None) -> Reason | None:
    """Why a record is another's: it, or its claim, names another pool, or neither names one.

    With `adopt_unclaimed` None nobody has decided about records that name no pool, and they pass.
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
    """Whether a boot of this pool may claim it, once it is clean (U1, U2).

    Two pools may both take one that names none for theirs. Where the store can't compare, the claim
    of one may then come late, over the other's and the life that began with it: none claims it.
    """
    adopts = settings.adopt_unclaimed if settings.compare_and_set else False
    return not_ours(record, settings.pool, adopts) is None


def adopts_unclaimed(records: Iterable[Record], settings: Settings) -> bool:
    """T3: by default records that name no pool are ours while no record names another."""
    if settings.adopt_unclaimed is not None:
        return settings.adopt_unclaimed
    return {record.pool for record in records} <= {None, settings.pool}


def uuids_of_ours(records: Iterable[Record], settings: Settings) -> frozenset[str]:
    """The records of this pool, by their uuid (L3a)."""
    records = tuple(records)
    pool, adopts = settings.pool, adopts_unclaimed(records, settings)
    return frozenset([one.uuid for one in records if not_ours(one, pool, adopts) is None])
