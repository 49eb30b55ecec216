"""The registry's tables. A change here needs a revision under migrations/versions.

Times are whole nanoseconds since the epoch, so that they compare exactly, also in SQL. JSON is kept
as text, so that a row with malformed JSON, written by hand, does not hide a listing's other rows.
"""

from __future__ import annotations

import json
from typing import Any

from sqlalchemy import BigInteger, Column, Index, Integer, MetaData, Table, Text
from sqlalchemy.engine import Dialect
from sqlalchemy.types import TypeDecorator

from nodemanager.lib import foreign
from nodemanager.sql.fence import fences_in


def _refuse(constant: str) -> Any:
    raise ValueError(f"{constant} is no JSON")


_decoder = json.JSONDecoder(parse_constant=_refuse)


def decoded(value: Any) -> Any:
    """The value of a JSON text; text that is no JSON is returned unchanged, as a string.

    So is JSON that is nested too deep, and text that is no UTF-8: nothing would take it further.
    """
    if not isinstance(value, str | bytes):
        return value
    try:
        text = value if isinstance(value, str) else value.decode()
        found = _whole(text)
    except (ValueError, RecursionError):
        return value
    unfit = foreign.may_be_deep(text) and foreign.is_deep(found)
    return value if unfit or not foreign.is_text(text) else found


def _whole(text: str) -> Any:
    try:
        found, end = _decoder.scan_once(text, 0)  # type: ignore[attr-defined]  # it has one
    except StopIteration:
        end = -1
    # The slower decoder also takes white space around the value, and raises for malformed JSON.
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
    # The drain order that answers to pings tell (D12); a change of it does not change the version.
    Column("drain", Text),
    Index("nodes_by_slot", "slot_number", unique=True),
    Index("nodes_by_address", "ip_address"),
    Index("nodes_by_incarnation", "incarnation"),
)

# Lives that a clean ended (U8), with a digest by which their pings are recognised, and the newest
# such ping. Only the manager keeps the secret itself, with the pre-image.
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

# One row: the store's id, and the last heartbeat of a manager (T1, L5).
store = Table(
    "store",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("store_id", Text, nullable=False),
    Column("created_at", BigInteger, nullable=False),
    Column("heartbeat_at", BigInteger, nullable=False),
    Column("heartbeats", BigInteger, nullable=False),
)

# For each pool whose managers have a lease in a database: whose writes are taken (L6).
fences = fences_in(metadata)
