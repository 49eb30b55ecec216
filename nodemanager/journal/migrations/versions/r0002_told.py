"""A table for logged events.

Earlier events are reconstructed from the changed verdicts and from the outcomes of creates,
destroys and cleans, with the ids and hostnames that these contain.
"""

import json
import zlib
from collections.abc import Iterator
from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None

VERDICTS = {
    ("record", "keep"): "record.keep",
    ("record", "clean"): "record.clean",
    ("node", "keep"): "node.keep",
    ("node", "shutdown"): "node.shutdown_started",
}
OUTCOMES = {
    "created": "node.created",
    "refused": "node.setup_failed",
    "gone": "node.gone",
    "cleaned": "record.cleaned",
    "pruned": "record.pruned",
}


def upgrade() -> None:
    words = ("reason", "record", "host", "node", "name", "incarnation", "plan")
    told = op.create_table(
        "told",
        sa.Column("id", sa.Integer, primary_key=True),
        sa.Column("at", sa.Float, nullable=False),
        sa.Column("event", sa.Text, nullable=False),
        sa.Column("slot", sa.Integer),
        *(sa.Column(word, sa.Text) for word in words),
        sa.Column("more", sa.Text, nullable=False),
    )
    op.create_index("told_by_time", "told", ["at"])
    connection = op.get_bind()
    rows = [*_verdicts(connection), *_outcomes(connection)]
    op.bulk_insert(told, sorted(rows, key=lambda row: float(row["at"])))


def _verdicts(connection: sa.Connection) -> Iterator[dict[str, Any]]:
    """The verdicts that changed; a segment's first decision has all verdicts."""
    standing: dict[tuple[str, str], list[str]] = {}
    found = connection.exec_driver_sql(
        "SELECT wall, verdicts FROM entries WHERE verdicts IS NOT NULL ORDER BY seq"
    )
    for wall, packed in found:
        for subject, id, *verdict in json.loads(zlib.decompress(packed)):
            before, standing[subject, id] = standing.get((subject, id)), verdict[:2]
            if not verdict or before == verdict[:2]:
                continue
            kind, reason, more = verdict
            event = VERDICTS.get((subject, kind))
            if event is not None:
                yield _row(wall, event, reason, more or {}, **{subject: id})


def _outcomes(connection: sa.Connection) -> Iterator[dict[str, Any]]:
    found = connection.exec_driver_sql(
        "SELECT concluded_at, plan_id, record, node, details, outcome, result FROM intents"
        " WHERE concluded_at IS NOT NULL"
    )
    for at, plan, record, node, details, outcome, result in found:
        order, ended = json.loads(details).get("order", {}), json.loads(result or "{}")
        if outcome in OUTCOMES:
            yield _row(
                at,
                OUTCOMES[outcome],
                order.get("reason"),
                {},
                record=record or ended.get("record"),
                node=node or ended.get("node"),
                slot=order.get("slot", ended.get("slot")),
                host=order.get("hostname", ended.get("host")),
                plan=plan,
            )


def _row(at: float, event: str, reason: str, more: dict[str, Any], **who: Any) -> dict[str, Any]:
    blank = dict.fromkeys(("record", "slot", "host", "node", "name", "incarnation", "plan"))
    if "node" in more and "node" not in who:
        who["node"] = more.pop("node")
    return {**blank, "at": at, "event": event, "reason": reason, **who, "more": json.dumps(more)}
