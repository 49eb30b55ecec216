"""Alembic's entry: run the revisions on the connection, and in the transaction, it was given."""

from alembic import context

from nodemanager.journal.schema import metadata

context.configure(connection=context.config.attributes["connection"], target_metadata=metadata)
context.run_migrations()
