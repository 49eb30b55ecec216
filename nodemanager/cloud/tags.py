"""The names of our tags on a node, the same in every cloud (SAFETY.md U5, U11)."""

from __future__ import annotations

from collections.abc import Mapping

from nodemanager.core.model.world import Tags

POOL_TAG = "nodemanager-pool"
RECORD_TAG = "nodemanager-record"
INCARNATION_TAG = "nodemanager-incarnation"
SIZE_TAG = "nodemanager-size"
HOLD_TAG = "nodemanager-hold"
OUR_TAGS = frozenset({POOL_TAG, RECORD_TAG, INCARNATION_TAG, SIZE_TAG, HOLD_TAG})


def on_hold(tags: Mapping[str, str]) -> bool:
    """Whether the hold tag is set, to anything but no, false, 0 or nothing."""
    return tags.get(HOLD_TAG, "").lower() not in ("", "no", "false", "0")


def tags_for(tags: Tags) -> dict[str, str]:
    """Our tags as a dictionary, without those that are None."""
    given = {
        POOL_TAG: tags.pool,
        RECORD_TAG: tags.record,
        INCARNATION_TAG: tags.incarnation,
        SIZE_TAG: tags.size,
    }
    return {name: value for name, value in given.items() if value is not None}


def tags_from(tags: Mapping[str, str]) -> Tags:
    """Our tags among all tags of a node."""
    return Tags(
        pool=tags.get(POOL_TAG),
        record=tags.get(RECORD_TAG),
        incarnation=tags.get(INCARNATION_TAG),
        size=tags.get(SIZE_TAG),
    )
