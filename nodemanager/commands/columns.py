"""The columns of `nodemanager nodes` and `nodemanager slots`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

TableRow = Mapping[str, Any]


class Column(NamedTuple):
    """A column's heading, and its key in a row."""

    heading: str
    key: str
    is_number: bool = False


NODES = (
    *(Column("host", "host"), Column("node", "node"), Column("size", "size")),
    *(Column("state", "state"), Column("age", "age_s", True), Column("slot", "slot", True)),
    Column("reason", "reason"),
)
NODES_WIDE = (
    *(*NODES, Column("orders", "orders"), Column("cloud", "cloud_state"), Column("name", "name")),
    *(Column("record", "record"), Column("pool", "pool"), Column("addresses", "addresses")),
)
SLOTS = (
    *(Column("slot", "slot", True), Column("host", "host"), Column("state", "state")),
    *(Column("node", "node"), Column("quiet", "quiet_s", True)),
    *(Column("free_in", "free_in_s", True), Column("reason", "reason")),
)
SLOTS_WIDE = (
    *(*SLOTS, Column("orders", "orders"), Column("record", "record")),
    *(Column("record_state", "record_state"), Column("pool", "pool")),
)
