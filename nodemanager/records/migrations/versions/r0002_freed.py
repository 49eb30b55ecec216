"""A table for lives that a clean ended, so that their late pings are recognised."""

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "freed",
        sa.Column("uuid", sa.Text, primary_key=True),
        sa.Column("secret_digest", sa.Text, primary_key=True),
        sa.Column("incarnation", sa.Text),
        sa.Column("pool", sa.Text),
        sa.Column("freed_at", sa.BigInteger, nullable=False),
        sa.Column("pinged_at", sa.BigInteger),
        sa.Column("instance_id", sa.Text),
        sa.Column("ip_address", sa.Text),
    )
    op.create_index("freed_by_end", "freed", ["freed_at"])
    op.create_index("freed_by_ping", "freed", ["pinged_at"])


def downgrade() -> None:
    op.drop_table("freed")
