"""Our tags on a node, by the names that every cloud shows them under (SAFETY.md U5, U11)."""

from __future__ import annotations

from collections.abc import Mapping

from nodemanager.core.model import Tags

POOL_TAG = "nodemanager-pool"
RECORD_TAG = "nodemanager-record"
INCARNATION_TAG = "nodemanager-incarnation"
SIZE_TAG = "nodemanager-size"


def tags_for(tags: Tags) -> dict[str, str]:
    """Our tags as a node bears them, without those that are None."""
    given = {
        POOL_TAG: tags.pool,
        RECORD_TAG: tags.record,
        INCARNATION_TAG: tags.incarnation,
        SIZE_TAG: tags.size,
    }
    return {name: value for name, value in given.items() if value is not None}


def tags_from(tags: Mapping[str, str]) -> Tags:
    """Our tags out of all that a node bears."""
    return Tags(
        pool=tags.get(POOL_TAG),
        record=tags.get(RECORD_TAG),
        incarnation=tags.get(INCARNATION_TAG),
        size=tags.get(SIZE_TAG),
    )
