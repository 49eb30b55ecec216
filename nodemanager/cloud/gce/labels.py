"""Our tags as labels of Google Compute Engine, and the names of its instances.

A label's value has at most 63 small letters, digits, `-` and `_` (P11). Any other character of
ours becomes `_` and the two hexadecimal digits of each of its bytes; so does `_` itself. So the
value can be read back.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from nodemanager.cloud.tags import INCARNATION_TAG, POOL_TAG, RECORD_TAG, SIZE_TAG, tags_for
from nodemanager.core.model.world import Tags
from nodemanager.errors import BadRequest

NAME_LABEL = "nodemanager-name"
"""The node's name as ordered; the instance's own name has the incarnation behind it."""

LONGEST = 63
OF_INCARNATION = 8
"""How many characters of the incarnation an instance's name has."""
_PLAIN = re.compile(r"[a-z0-9-]*")
_OTHER = re.compile(r"[^a-z0-9-]")
_CODED = re.compile(r"(?:_[0-9a-f]{2})+")


def label_value(text: str) -> str:
    """`text` as a label's value; raises ValueError for one that is too long."""
    coded = _OTHER.sub(
        lambda found: "".join(f"_{byte:02x}" for byte in found[0].encode("utf-8")), text
    )
    if len(coded) > LONGEST:
        raise ValueError(f"{text} is longer than a label's {LONGEST} characters: {coded}")
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


def labels_for(tags: Tags, name: str | None = None) -> dict[str, str]:
    """Our tags as labels, without those that are None; raises BadRequest for one too long."""
    given = tags_for(tags) | ({} if name is None else {NAME_LABEL: name})
    try:
        return {key: label_value(value) for key, value in given.items()}
    except ValueError as error:
        raise BadRequest(str(error)) from error


def tags_in(labels: Mapping[str, str]) -> Tags:
    """Our tags among an instance's labels."""
    found = {key: read_label(value) for key, value in labels.items()}
    return Tags(
        pool=found.get(POOL_TAG),
        record=found.get(RECORD_TAG),
        incarnation=found.get(INCARNATION_TAG),
        size=found.get(SIZE_TAG),
    )


def instance_name(name: str, incarnation: str) -> str:
    """The instance's name: the node's, as Google takes names, and the incarnation's beginning.

    A name is unique in its zone, whatever pool the node is in, and so is that of its boot disk.
    """
    end = re.sub(r"[^a-z0-9]", "", incarnation.lower())[:OF_INCARNATION]
    begin = re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")
    if not begin[:1].isalpha():
        begin = f"n-{begin}".rstrip("-")
    room = LONGEST - len(end) - 1
    return f"{begin[:room].rstrip('-')}-{end}" if end else begin[:LONGEST].rstrip("-")
