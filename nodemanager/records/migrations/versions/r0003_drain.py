"""A column for the drain order, which answers to pings tell the node."""

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("nodes", sa.Column("drain", sa.Text))


def downgrade() -> None:
    op.drop_column("nodes", "drain")
