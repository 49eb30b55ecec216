"""Lives of records that a clean ended: rows of the `freed` table (SAFETY.md U8).

A node whose record was freed while it lived goes on pinging with its old secret. The ping is
refused like any other with a wrong secret, and remembered here. Each function runs inside the
caller's transaction.
"""

from __future__ import annotations

import hashlib
import hmac

import sqlalchemy as sa

from nodemanager.core.model.world import LatePing
from nodemanager.records import rows, wire
from nodemanager.records.schema import freed

KEPT_S = 7 * 86400
"""Seconds of the store's clock for which a freed life is remembered."""


def remember(connection: sa.Connection, row: rows.Row, now_ns: int) -> None:
    """Remember the life that ends with `row`, and delete those that ended over KEPT_S ago.

    A life without a secret can't ping and can't be recognised, so it is not remembered.
    """
    connection.execute(sa.delete(freed).where(freed.c.freed_at < now_ns - KEPT_S * 10**9))
    record = rows.record_of(row)
    if record.ping_secret is None:
        return
    digest = _digest(record.ping_secret)
    forget(connection, record.uuid, record.ping_secret)
    life = {"incarnation": record.incarnation, "pool": record.pool, "freed_at": now_ns}
    names = {"uuid": record.uuid, "secret_digest": digest}
    connection.execute(sa.insert(freed).values({**names, **life}))


def forget(connection: sa.Connection, uuid: str, secret: str) -> None:
    """Forget the life, which goes on: its pings are no longer late."""
    ended = (freed.c.uuid == uuid, freed.c.secret_digest == _digest(secret))
    connection.execute(sa.delete(freed).where(*ended))


def is_known(connection: sa.Connection, uuid: str, secret: str) -> bool:
    query = sa.select(freed.c.secret_digest).where(freed.c.uuid == uuid)
    digest = _digest(secret)
    known = [hmac.compare_digest(one, digest) for one in connection.execute(query).scalars()]
    return any(known)


def pinged(
    connection: sa.Connection,
    uuid: str,
    secret: str,
    now_ns: int,
    *,
    instance_id: str | None,
    address: str | None,
) -> None:
    """Remember a ping of a freed life; it replaces an earlier one."""
    values = {"pinged_at": now_ns, "instance_id": instance_id, "ip_address": address}
    connection.execute(
        sa.update(freed)
        .where(freed.c.uuid == uuid, freed.c.secret_digest == _digest(secret))
        .values(values)
    )


def heard(connection: sa.Connection, uuid: str, at_ns: int, address: str | None) -> None:
    """Remember that the life that ended last was still heard at that time, if that is after it.

    For nodes that are heard without a secret of theirs.
    """
    newest = sa.select(sa.func.max(freed.c.freed_at)).where(freed.c.uuid == uuid).scalar_subquery()
    connection.execute(
        sa.update(freed)
        .where(freed.c.uuid == uuid, freed.c.freed_at == newest, freed.c.freed_at < at_ns)
        .values({"pinged_at": at_ns, "ip_address": address})
    )


def late_pings(connection: sa.Connection) -> tuple[LatePing, ...]:
    """The newest ping of each freed life that pinged, oldest first."""
    query = sa.select(freed).where(freed.c.pinged_at.is_not(None))
    return tuple(
        LatePing(
            record=row.uuid,
            incarnation=row.incarnation,
            pool=row.pool,
            freed_at=wire.epoch(row.freed_at),
            at=wire.epoch(row.pinged_at),
            instance_id=row.instance_id,
            address=row.ip_address,
        )
        for row in connection.execute(query.order_by(freed.c.pinged_at, freed.c.uuid))
    )


def _digest(secret: str) -> str:
    return hashlib.sha256(secret.encode(errors="surrogatepass")).hexdigest()
