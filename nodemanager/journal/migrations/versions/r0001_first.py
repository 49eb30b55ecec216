"""The first schema: intents, values that outlive the process, facts and decisions."""

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "about",
        sa.Column("id", sa.Integer, primary_key=True),
        sa.Column("pool", sa.Text, nullable=False),
        sa.Column("created_at", sa.Float, nullable=False),
        sa.Column("tried_at", sa.Float, nullable=False),
    )
    _intents()
    op.create_table(
        "holds",
        sa.Column("id", sa.Text, primary_key=True),
        sa.Column("reason", sa.Text, nullable=False),
        sa.Column("by", sa.Text, nullable=False),
        sa.Column("at", sa.Float, nullable=False),
    )
    op.create_table(
        "leftovers",
        sa.Column("kind", sa.Text, primary_key=True),
        sa.Column("id", sa.Text, primary_key=True),
        sa.Column("node", sa.Text, nullable=False),
        sa.Column("order", sa.Integer, nullable=False),
        sa.Column("added_at", sa.Float, nullable=False),
        sa.Column("attempts", sa.Integer, nullable=False),
        sa.Column("not_before", sa.Float, nullable=False),
        sa.Column("error", sa.Text),
        sa.Column("released_at", sa.Float),
        sa.Column("tagged", sa.Boolean, nullable=False),
    )
    op.create_table(
        "kept",
        sa.Column("name", sa.Text, primary_key=True),
        sa.Column("value", sa.Text, nullable=False),
        sa.Column("at", sa.Float, nullable=False),
    )
    op.create_table(
        "fences",
        sa.Column("pool", sa.Text, primary_key=True),
        sa.Column("token", sa.BigInteger, nullable=False),
        sa.Column("holder", sa.Text, nullable=False),
    )
    if op.get_bind().dialect.name == "sqlite":
        _entries()
        _logged()


def _intents() -> None:
    op.create_table(
        "intents",
        sa.Column("id", sa.Integer, primary_key=True),
        sa.Column("key", sa.Text, nullable=False),
        sa.Column("kind", sa.Text, nullable=False),
        sa.Column("plan_id", sa.Text, nullable=False),
        sa.Column("record", sa.Text),
        sa.Column("node", sa.Text),
        sa.Column("details", sa.Text, nullable=False),
        sa.Column("opened_at", sa.Float, nullable=False),
        sa.Column("failures", sa.Integer, nullable=False),
        sa.Column("error", sa.Text),
        sa.Column("outcome", sa.Text),
        sa.Column("concluded_at", sa.Float),
        sa.Column("result", sa.Text),
    )
    op.create_index("intents_by_key", "intents", ["key"])
    op.create_index("intents_by_record", "intents", ["record"])
    op.create_index("intents_by_node", "intents", ["node"])
    op.create_index("intents_by_end", "intents", ["concluded_at"])
    op.create_table(
        "pre_images",
        sa.Column("intent", sa.Integer, primary_key=True),
        sa.Column("record", sa.Text, nullable=False),
        sa.Column("incarnation", sa.Text),
        sa.Column("taken_at", sa.Float, nullable=False),
        sa.Column("body", sa.Text, nullable=False),
    )
    op.create_index("pre_images_by_record", "pre_images", ["record"])
    op.create_index("pre_images_by_incarnation", "pre_images", ["incarnation"])


def _entries() -> None:
    """Facts and decisions, which are always in a file."""
    op.create_table(
        "entries",
        sa.Column("seq", sa.Integer, primary_key=True),
        sa.Column("segment", sa.Integer, nullable=False),
        sa.Column("kind", sa.Text, nullable=False),
        sa.Column("boottime", sa.Float, nullable=False),
        sa.Column("wall", sa.Float, nullable=False),
        sa.Column("body", sa.LargeBinary, nullable=False),
        sa.Column("verdicts", sa.LargeBinary),
        sqlite_autoincrement=True,
    )
    op.create_index("entries_by_segment", "entries", ["segment"])


def _logged() -> None:
    """Logged events, with a column for each word by which somebody may look for one."""
    words = ("reason", "record", "host", "node", "name", "incarnation", "plan")
    op.create_table(
        "logged",
        sa.Column("id", sa.Integer, primary_key=True),
        sa.Column("at", sa.Float, nullable=False),
        sa.Column("event", sa.Text, nullable=False),
        sa.Column("slot", sa.Integer),
        *(sa.Column(word, sa.Text) for word in words),
        sa.Column("more", sa.Text, nullable=False),
    )
    op.create_index("logged_by_time", "logged", ["at"])


def downgrade() -> None:
    recorded = ("logged", "entries") if op.get_bind().dialect.name == "sqlite" else ()
    for table in (
        *recorded,
        "fences",
        "kept",
        "leftovers",
        "holds",
        "pre_images",
        "intents",
        "about",
    ):
        op.drop_table(table)
