"""The schema of the first release, which `schema.metadata` makes; later revisions change it."""

revision = "0004"
down_revision = None
