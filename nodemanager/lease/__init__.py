"""The lease in a database that the managers of a pool share (SAFETY.md L6)."""
