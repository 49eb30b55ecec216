"""The schema of the first release, which `schema.metadata` makes; later revisions change it."""

revision = "0002"
down_revision = None
