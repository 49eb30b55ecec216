"""The first schema: nodes, the lives that a clean ended, the store's own row, and fences."""

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "nodes",
        sa.Column("uuid", sa.Text, primary_key=True),
        sa.Column("version", sa.BigInteger, nullable=False),
        sa.Column("created_at", sa.BigInteger, nullable=False),
        sa.Column("modified_at", sa.BigInteger, nullable=False),
        sa.Column("slot_number", sa.Integer),
        sa.Column("hostname", sa.Text),
        sa.Column("domain", sa.Text),
        sa.Column("ip_address", sa.Text),
        sa.Column("first_ping_at", sa.BigInteger),
        sa.Column("last_ping_at", sa.BigInteger),
        sa.Column("job_uuid", sa.Text),
        sa.Column("properties", sa.Text, nullable=False),
        sa.Column("info", sa.Text, nullable=False),
        sa.Column("incarnation", sa.Text),
        sa.Column("drain", sa.Text),
    )
    op.create_index("nodes_by_slot", "nodes", ["slot_number"], unique=True)
    op.create_index("nodes_by_address", "nodes", ["ip_address"])
    op.create_index("nodes_by_incarnation", "nodes", ["incarnation"])
    # Their late pings are recognised.
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
    op.create_table(
        "store",
        sa.Column("id", sa.Integer, primary_key=True),
        sa.Column("store_id", sa.Text, nullable=False),
        sa.Column("created_at", sa.BigInteger, nullable=False),
        sa.Column("heartbeat_at", sa.BigInteger, nullable=False),
        sa.Column("heartbeats", sa.BigInteger, nullable=False),
    )
    op.create_table(
        "fences",
        sa.Column("pool", sa.Text, primary_key=True),
        sa.Column("token", sa.BigInteger, nullable=False),
        sa.Column("holder", sa.Text, nullable=False),
    )


def downgrade() -> None:
    op.drop_table("fences")
    op.drop_table("store")
    op.drop_table("freed")
    op.drop_table("nodes")
