"""Our tags as labels of Google Compute Engine, and the names of its instances.

A label's value has at most 63 small letters, digits, `-` and `_` (P11; `nodemanager.cloud.tags`).
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from nodemanager.cloud.tags import (
    LONGEST_LABEL,
    label_value,
    read_label,
    tags_for,
    tags_from,
)
from nodemanager.core.model.world import Tags
from nodemanager.errors import BadRequest

NAME_LABEL = "nodemanager-name"
"""The node's name as ordered; the instance's own name has the incarnation behind it."""

OF_INCARNATION = 8
"""How many characters of the incarnation an instance's name has."""


def labels_for(tags: Tags, name: str | None = None) -> dict[str, str]:
    """Our tags as labels, without those that are None; raises BadRequest for one too long."""
    given = tags_for(tags) | ({} if name is None else {NAME_LABEL: name})
    try:
        return {key: label_value(value) for key, value in given.items()}
    except ValueError as error:
        raise BadRequest(str(error)) from error


def tags_in(labels: Mapping[str, str]) -> Tags:
    """Our tags among an instance's labels."""
    return tags_from({key: read_label(value) for key, value in labels.items()})


def instance_name(name: str, incarnation: str) -> str:
    """The instance's name: the node's, as Google takes names, and the incarnation's beginning.

    A name is unique in its zone, whatever pool the node is in, and so is that of its boot disk.
    """
    end = re.sub(r"[^a-z0-9]", "", incarnation.lower())[:OF_INCARNATION]
    begin = re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")
    if not begin[:1].isalpha():
        begin = f"n-{begin}".rstrip("-")
    room = LONGEST_LABEL - len(end) - 1
    return f"{begin[:room].rstrip('-')}-{end}" if end else begin[:LONGEST_LABEL].rstrip("-")
