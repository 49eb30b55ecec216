"""The journal's tables. A change here needs a revision under migrations/versions.

Times are epoch seconds unless a column's name says boottime. JSON is text, made by `codec`. In
`entries`, bodies and changed verdicts are compressed JSON, made by `recording`.
"""

from __future__ import annotations

from sqlalchemy import Boolean, Column, Float, Index, Integer, LargeBinary, MetaData, Table, Text

from nodemanager.sql.fence import fences_in

metadata = MetaData()

# One row: the pool that the journal belongs to.
about = Table(
    "about",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("pool", Text, nullable=False),
    Column("created_at", Float, nullable=False),
    Column("tried_at", Float, nullable=False),
)

intents = Table(
    "intents",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("key", Text, nullable=False),
    Column("kind", Text, nullable=False),
    Column("plan_id", Text, nullable=False),
    Column("record", Text),
    Column("node", Text),
    Column("details", Text, nullable=False),
    Column("opened_at", Float, nullable=False),
    Column("failures", Integer, nullable=False),
    Column("error", Text),
    Column("outcome", Text),
    Column("concluded_at", Float),
    Column("result", Text),
    Index("intents_by_key", "key"),
    Index("intents_by_record", "record"),
    Index("intents_by_node", "node"),
    Index("intents_by_end", "concluded_at"),
)

pre_images = Table(
    "pre_images",
    metadata,
    Column("intent", Integer, primary_key=True),
    Column("record", Text, nullable=False),
    Column("incarnation", Text),
    Column("taken_at", Float, nullable=False),
    Column("body", Text, nullable=False),
    Index("pre_images_by_record", "record"),
    Index("pre_images_by_incarnation", "incarnation"),
)

leftovers = Table(
    "leftovers",
    metadata,
    Column("kind", Text, primary_key=True),
    Column("id", Text, primary_key=True),
    Column("node", Text, nullable=False),
    Column("order", Integer, nullable=False),
    Column("added_at", Float, nullable=False),
    Column("attempts", Integer, nullable=False),
    Column("not_before", Float, nullable=False),
    Column("error", Text),
    Column("released_at", Float),
    Column("tagged", Boolean, nullable=False),
)

# Small JSON values that a restart must not forget (R4): the breaker, operators' marks, times.
kept = Table(
    "kept",
    metadata,
    Column("name", Text, primary_key=True),
    Column("value", Text, nullable=False),
    Column("at", Float, nullable=False),
)

# Logged events with their subjects. `more` has all other fields of the line, as JSON.
logged = Table(
    "logged",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("at", Float, nullable=False),
    Column("event", Text, nullable=False),
    Column("slot", Integer),
    Column("reason", Text),
    Column("record", Text),
    Column("host", Text),
    Column("node", Text),
    Column("name", Text),
    Column("incarnation", Text),
    Column("plan", Text),
    Column("more", Text, nullable=False),
    Index("logged_by_time", "at"),
)

# Facts and decisions. A segment begins with the whole state that its first fact is folded into, so
# that each can be read, and deleted, by itself.
entries = Table(
    "entries",
    metadata,
    Column("seq", Integer, primary_key=True),
    Column("segment", Integer, nullable=False),
    Column("kind", Text, nullable=False),
    Column("boottime", Float, nullable=False),
    Column("wall", Float, nullable=False),
    Column("body", LargeBinary, nullable=False),
    Column("verdicts", LargeBinary),
    Index("entries_by_segment", "segment"),
    sqlite_autoincrement=True,
)

# Of a database that the managers of several machines use: whose writes it takes (L6).
fences = fences_in(metadata)
