"""The lease in a database."""
