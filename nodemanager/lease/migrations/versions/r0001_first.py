"""The first schema: the leases of the pools, and the facts that their managers share."""

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "leases",
        sa.Column("pool", sa.Text, primary_key=True),
        sa.Column("holder", sa.Text),
        sa.Column("token", sa.BigInteger, nullable=False),
        sa.Column("renewals", sa.BigInteger, nullable=False),
        sa.Column("duration", sa.Double, nullable=False),
        sa.Column("expires_at", sa.Double, nullable=False),
    )
    op.create_table(
        "facts",
        sa.Column("pool", sa.Text, primary_key=True),
        sa.Column("name", sa.Text, primary_key=True),
        sa.Column("value", sa.Text, nullable=False),
    )


def downgrade() -> None:
    op.drop_table("facts")
    op.drop_table("leases")
