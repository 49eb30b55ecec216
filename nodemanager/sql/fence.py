"""The fence of a database against former holders of the lease (SAFETY.md L6).

A new holder raises the pool's token there. From then on each write under an older one is refused,
in the write's own transaction: also one of a process that stood still meanwhile.
"""

from __future__ import annotations

from dataclasses import dataclass

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql, sqlite

from nodemanager.errors import Superseded


def fences_in(metadata: sa.MetaData) -> sa.Table:
    """The table, one row for each pool whose managers have a lease: whose writes are taken."""
    return sa.Table(
        "fences",
        metadata,
        sa.Column("pool", sa.Text, primary_key=True),
        sa.Column("token", sa.BigInteger, nullable=False),
        sa.Column("holder", sa.Text, nullable=False),
    )


@dataclass(frozen=True, slots=True)
class Fence:
    """Lets the writes of one holder of the lease through, until another one raises its token."""

    pool: str
    token: int
    holder: str

    def raise_in(self, connection: sa.Connection, fences: sa.Table) -> None:
        """Raise the pool's token to ours. Raises Superseded if a newer one, or another's, is there.

        Waits for writes that are under way under an older one.
        """
        dialect = sqlite if connection.dialect.name == "sqlite" else postgresql
        ours = {"token": self.token, "holder": self.holder}
        is_ours = sa.and_(fences.c.token == self.token, fences.c.holder == self.holder)
        put = (
            dialect.insert(fences)
            .values(pool=self.pool, **ours)
            .on_conflict_do_update(
                index_elements=["pool"],
                set_=ours,
                where=sa.or_(fences.c.token < self.token, is_ours),
            )
            .returning(fences.c.token)
        )
        if connection.scalar(put) is None:
            raise self._refusal(connection, fences)

    def check(self, connection: sa.Connection, fences: sa.Table) -> None:
        """Check a write, in its transaction. Raises Superseded unless our token is the pool's.

        A new holder can raise its token only after this transaction, and then sees what it wrote.
        """
        known = sa.select(fences.c.token, fences.c.holder).where(fences.c.pool == self.pool)
        row = connection.execute(known.with_for_update(read=True)).first()
        if row is None or (row.token, row.holder) != (self.token, self.holder):
            raise self._refusal(connection, fences)

    def _refusal(self, connection: sa.Connection, fences: sa.Table) -> Superseded:
        known = sa.select(fences.c.token, fences.c.holder).where(fences.c.pool == self.pool)
        row = connection.execute(known).first()
        now = "nobody has" if row is None else f"{row.holder} has, with token {row.token}"
        return Superseded(
            f"the write is refused: {self.holder} no longer has the lease of pool {self.pool} "
            f"(token {self.token}); {now}"
        )
