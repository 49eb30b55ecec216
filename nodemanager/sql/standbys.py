"""Whether a PostgreSQL's standbys have all that was committed, for when one takes over."""

from __future__ import annotations

import sqlalchemy as sa
from sqlalchemy import exc

ASKED_FOR_S = 5
NOT_AWAITED = frozenset({"off", "local"})
"""Values of `synchronous_commit` with which a commit waits for no standby."""

_ASKED = sa.text(
    "SELECT count(*), current_setting('synchronous_standby_names'),"
    " current_setting('synchronous_commit') FROM pg_stat_replication"
)


def lacking(url: str) -> str | None:
    """Why its standbys may lack the newest writes; None where they don't, or nobody can tell.

    `url` is PostgreSQL's. It has no standby where none follows it at this moment.
    """
    try:
        engine = sa.create_engine(
            sa.make_url(url).set(drivername="postgresql+psycopg"),
            connect_args={"connect_timeout": ASKED_FOR_S},
            poolclass=sa.NullPool,
        )
        with engine.connect() as connection:
            count, names, commits = connection.execute(_ASKED).one()
    except (exc.SQLAlchemyError, ImportError, ValueError):
        # It may be down, or not there yet: the daemon's own start tells it.
        return None
    if not count or (names and commits not in NOT_AWAITED):
        return None
    return f"synchronous_standby_names = '{names}', synchronous_commit = {commits}"
