"""The upgrade of a database's schema by Alembic; each of our databases has its own revisions."""

from __future__ import annotations

import logging
from pathlib import Path

import sqlalchemy as sa
from alembic import command
from alembic.config import Config
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory

from nodemanager.errors import StartError


def bring_up_to_date(connection: sa.Connection, migrations: Path, name: str) -> None:
    """Run the revisions in `migrations` that the database lacks, in the connection's transaction.

    `name` is the database's name in messages. Raises StartError for a schema newer than any
    revision there, and leaves it unchanged.
    """
    # Alembic logs each step at INFO, in words that mean nothing to an operator.
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
    if current != head:
        command.upgrade(config, "head")
