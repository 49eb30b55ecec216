"""The first schema, which a new database gets from its declaration (sql/database.py).

No program made one otherwise. The next revision says what to change in a database of this one.
"""

revision = "0001"
down_revision = None


def upgrade() -> None:
    """Nothing is changed: there is no schema before this one."""
