"""Alembic's entry point: runs the revisions on the given connection, in its transaction."""

from alembic import context

from nodemanager.lease.table import metadata

context.configure(connection=context.config.attributes["connection"], target_metadata=metadata)
context.run_migrations()
