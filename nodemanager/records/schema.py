"""The registry's tables. A change here comes with a revision under migrations/versions.

Times are whole nanoseconds since the epoch, so that they compare exactly and in SQL. JSON is kept
as text: what somebody wrote by hand and is no JSON must not hide the other rows of a listing.
"""

from __future__ import annotations

import json
from typing import Any

from sqlalchemy import BigInteger, Column, Index, Integer, MetaData, Table, Text
from sqlalchemy.engine import Dialect
from sqlalchemy.types import TypeDecorator


def _refuse(constant: str) -> Any:
    raise ValueError(f"{constant} is no JSON")


_decoder = json.JSONDecoder(parse_constant=_refuse)


def decoded(value: Any) -> Any:
    """What JSON text says. Text that is no JSON comes back as it is: a string, no object."""
    if not isinstance(value, str | bytes):
        return value
    try:
        text = value if isinstance(value, str) else value.decode()
        return _whole(text)
    except (ValueError, RecursionError):
        return value


def _whole(text: str) -> Any:
    try:
        found, end = _decoder.scan_once(text, 0)  # type: ignore[attr-defined]  # it has one
    except StopIteration:
        end = -1
    # There may be white space around what somebody else wrote; or it is no JSON.
    return found if end == len(text) else _decoder.decode(text)


class JsonText(TypeDecorator[Any]):
    """An object as JSON text."""

    impl = Text
    cache_ok = True

    def process_bind_param(self, value: Any, dialect: Dialect) -> Any:
        return json.dumps(value, allow_nan=False)

    def process_result_value(self, value: Any, dialect: Dialect) -> Any:
        return decoded(value)


metadata = MetaData()

nodes = Table(
    "nodes",
    metadata,
    Column("uuid", Text, primary_key=True),
    Column("version", BigInteger, nullable=False),
    Column("created_at", BigInteger, nullable=False),
    Column("modified_at", BigInteger, nullable=False),
    Column("slot_number", Integer),
    Column("hostname", Text),
    Column("domain", Text),
    Column("ip_address", Text),
    Column("first_ping_at", BigInteger),
    Column("last_ping_at", BigInteger),
    Column("job_uuid", Text),
    Column("properties", JsonText, nullable=False),
    Column("info", JsonText, nullable=False),
    # Derived from properties on every write, for finding a repeated create.
    Column("incarnation", Text),
    # The order to take no more work that answers to pings give (D12); no version moves with it.
    Column("drain", Text),
    Index("nodes_by_slot", "slot_number", unique=True),
    Index("nodes_by_address", "ip_address"),
    Index("nodes_by_incarnation", "incarnation"),
)

# Lives that a clean ended (U8): what a ping of theirs is known by, and the newest that came. The
# secret itself is the manager's to keep, with the pre-image.
freed = Table(
    "freed",
    metadata,
    Column("uuid", Text, primary_key=True),
    Column("secret_digest", Text, primary_key=True),
    Column("incarnation", Text),
    Column("pool", Text),
    Column("freed_at", BigInteger, nullable=False),
    Column("pinged_at", BigInteger),
    Column("instance_id", Text),
    Column("ip_address", Text),
    Index("freed_by_end", "freed_at"),
    Index("freed_by_ping", "pinged_at"),
)

# One row: who this store is, and the last stamp it made for a manager (T1, L5).
store = Table(
    "store",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("store_id", Text, nullable=False),
    Column("created_at", BigInteger, nullable=False),
    Column("heartbeat_at", BigInteger, nullable=False),
    Column("heartbeats", BigInteger, nullable=False),
)
