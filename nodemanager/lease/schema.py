"""The lease's tables. A change here needs a revision under migrations/versions."""

from __future__ import annotations

from sqlalchemy import BigInteger, Column, Double, MetaData, Table, Text

metadata = MetaData()

# One row a pool. `expires_at` is on the database's clock, in epoch seconds, and only shown.
leases = Table(
    "leases",
    metadata,
    Column("pool", Text, primary_key=True),
    Column("holder", Text),
    Column("token", BigInteger, nullable=False),
    Column("renewals", BigInteger, nullable=False),
    Column("duration", Double, nullable=False),
    Column("expires_at", Double, nullable=False),
)

# What the first start saw (L5) and held back (S5): any holder must know it. Values are JSON.
facts = Table(
    "facts",
    metadata,
    Column("pool", Text, primary_key=True),
    Column("name", Text, primary_key=True),
    Column("value", Text, nullable=False),
)
