"""The names of our tags on a node, the same in every cloud (SAFETY.md U5, U11)."""

from __future__ import annotations

import re
from collections.abc import Mapping

from nodemanager.core.model.world import Tags

POOL_TAG = "nodemanager-pool"
RECORD_TAG = "nodemanager-record"
INCARNATION_TAG = "nodemanager-incarnation"
SIZE_TAG = "nodemanager-size"
HOLD_TAG = "nodemanager-hold"
LONGEST_LABEL = 63
OUR_TAGS = frozenset({POOL_TAG, RECORD_TAG, INCARNATION_TAG, SIZE_TAG, HOLD_TAG})

_OTHER = re.compile(r"[^a-z0-9-]")
_CODED = re.compile(r"(?:_[0-9a-f]{2})+")


def on_hold(tags: Mapping[str, str]) -> bool:
    """Whether the hold tag is set, to anything but no, false, 0 or nothing."""
    return tags.get(HOLD_TAG, "").lower() not in ("", "no", "false", "0")


def tags_for(tags: Tags) -> dict[str, str]:
    given = {
        POOL_TAG: tags.pool,
        RECORD_TAG: tags.record,
        INCARNATION_TAG: tags.incarnation,
        SIZE_TAG: tags.size,
    }
    return {name: value for name, value in given.items() if value is not None}


def tags_from(tags: Mapping[str, str]) -> Tags:
    return Tags(
        pool=tags.get(POOL_TAG),
        record=tags.get(RECORD_TAG),
        incarnation=tags.get(INCARNATION_TAG),
        size=tags.get(SIZE_TAG),
    )


def label_value(text: str) -> str:
    """`text` for a cloud whose tags have only small letters, digits, `-` and `_`.

    Any other character becomes `_` and the two hexadecimal digits of each of its bytes; so does `_`
    itself. So the value can be read back. Raises ValueError for one that is too long.
    """
    coded = _OTHER.sub(
        lambda found: "".join(f"_{byte:02x}" for byte in found[0].encode("utf-8")), text
    )
    if len(coded) > LONGEST_LABEL:
        raise ValueError(f"{text} is longer than a label's {LONGEST_LABEL} characters: {coded}")
    return coded


def read_label(value: str) -> str:
    """What `label_value` made the value from. A value that it never makes is taken as it stands."""
    try:
        found = _CODED.sub(
            lambda coded: bytes.fromhex(coded[0].replace("_", "")).decode("utf-8"), value
        )
        return found if label_value(found) == value else value
    except ValueError:
        return value
