"""The schema of a database, by Alembic's revisions; each of our databases has its own."""

from __future__ import annotations

import logging
from pathlib import Path

import sqlalchemy as sa

from nodemanager.errors import StartError

_VERSIONS = sa.Table(
    "alembic_version",
    sa.MetaData(),
    sa.Column("version_num", sa.String(32), nullable=False),
    sa.PrimaryKeyConstraint("version_num", name="alembic_version_pkc"),
)
"""Alembic's own table, as Alembic makes it."""


def bring_up_to_date(
    connection: sa.Connection, migrations: Path, tables: sa.MetaData, name: str
) -> None:
    """Make the `tables` of a new database; run the revisions in `migrations` that an old one lacks.

    All is done in the connection's transaction. `name` is the database's name in messages. Raises
    StartError for a schema newer than any revision there, and leaves it unchanged.
    """
    newest = newest_of(migrations)
    if not sa.inspect(connection).has_table(_VERSIONS.name):
        tables.create_all(connection, checkfirst=False)
        _VERSIONS.create(connection)
        connection.execute(_VERSIONS.insert().values(version_num=newest))
    elif connection.scalar(sa.select(_VERSIONS)) != newest:
        _upgrade(connection, migrations, name)


def newest_of(migrations: Path) -> str:
    """The newest revision there, by the file's name."""
    newest = max(path.name for path in (migrations / "versions").glob("r*.py"))
    return newest[1:].partition("_")[0]


def _upgrade(connection: sa.Connection, migrations: Path, name: str) -> None:
    # Alembic takes a tenth of the time that a daemon needs to start, and seldom has work to do.
    from alembic import command
    from alembic.config import Config
    from alembic.runtime.migration import MigrationContext
    from alembic.script import ScriptDirectory

    # It logs each step at INFO, in words that mean nothing to an operator.
    logging.getLogger("alembic").setLevel(logging.WARNING)
    config = Config()
    config.set_main_option("script_location", str(migrations).replace("%", "%%"))
    config.attributes["connection"] = connection
    scripts = ScriptDirectory.from_config(config)
    known = {script.revision for script in scripts.walk_revisions()}
    head = scripts.get_current_head()
    current = MigrationContext.configure(connection).get_current_revision()
    if current is not None and current not in known:
        raise StartError(
            f"{name} has schema {current}, but the newest that this program knows is {head}:"
            " upgrade nodemanager"
        )
    command.upgrade(config, "head")
