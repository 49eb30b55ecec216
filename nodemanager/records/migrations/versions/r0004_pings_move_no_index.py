"""Drops the index on a column that every ping changes, so that a ping only writes its row."""

from alembic import op

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.drop_index("nodes_by_change", "nodes")


def downgrade() -> None:
    op.create_index("nodes_by_change", "nodes", ["modified_at", "uuid"])
