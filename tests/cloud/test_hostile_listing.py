"""Whatever a cloud says of a node, the node is read, and no more than that field is lost."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from nodemanager.cloud.reading import NodeReader, Unidentifiable, epoch
from nodemanager.core.model.world import CloudNode, CloudState, Tags
from nodemanager.journal.codec import dump
from nodemanager.lib.logline import as_json, logfmt
from tests.hostile import VALUES

READER = NodeReader(
    states={"running": CloudState.RUNNING},
    tags=lambda raw: Tags(raw.pool, raw.record, raw.incarnation, raw.tag_size),
    state=lambda raw: raw.state,
    held=lambda raw: raw.held,
    created_at=lambda raw: epoch(raw.created_at),
    size=lambda raw: raw.size,
    addresses=lambda raw: raw.addresses,
    places=lambda raw: raw.places,
    image=lambda raw: raw.image,
)
SOUND: dict[str, Any] = {
    "id": "i-1",
    "name": "n",
    "pool": "main",
    "record": "r-1",
    "incarnation": "0" * 32,
    "tag_size": "small",
    "state": "running",
    "held": False,
    "created_at": 1.5,
    "size": "small",
    "addresses": ("10.0.0.1",),
    "places": ("z1",),
    "image": "ami-1",
}
READ = READER.read(SimpleNamespace(**SOUND), "main")
OF = {"tag_size": "tags", "pool": "tags", "record": "tags", "incarnation": "tags"}


@pytest.mark.parametrize("name", SOUND)
def test_a_node_is_read_whatever_a_field_holds(name: str) -> None:
    for value in VALUES.values():
        is_read_with(name, value)


def is_read_with(name: str, value: Any) -> None:
    raw = SimpleNamespace(**{**SOUND, name: value})
    try:
        node = READER.read(raw, "main")
    except Unidentifiable:
        assert name == "id"
        return
    # The journal and the log take it, and the next listing recognises it.
    assert isinstance(node, CloudNode)
    assert dump(node)
    fields = {"node": node.id, "state": node.raw_state, "size": node.size, "host": node.name}
    assert logfmt(fields).isprintable()
    assert as_json(fields).isascii()
    assert node.created_at is None or 0 <= node.created_at < 1e12
    known = {node.id: node}
    assert READER.read(raw, "main", known=known) == node
    spared = {"name", name, OF.get(name, name), "managed", "problems", "raw_state", "state"}
    for field in ("id", "created_at", "size", "addresses", "places", "image", "tags", "held"):
        if field not in spared:
            assert getattr(node, field) == getattr(READ, field)
