"""Whose a record is (SAFETY.md T3, C0)."""

from __future__ import annotations

from nodemanager.core.model import Record
from nodemanager.core.reasons import Reason


def not_ours(record: Record, pool: str, adopt_unclaimed: bool | None) -> Reason | None:
    """Why a record is another's: it, or its claim, names another pool, or neither names one.

    With `adopt_unclaimed` None nobody has decided about records that name no pool, and they pass.
    """
    named = record.pool
    if record.claim is not None and record.claim.pool != named:
        if named is not None or record.claim.pool != pool:
            return Reason.OTHER_POOL
        return None
    if named is None:
        return Reason.UNCLAIMED_POOL if adopt_unclaimed is False else None
    return None if named == pool else Reason.OTHER_POOL
