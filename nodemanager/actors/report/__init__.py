"""What the daemon tells: the log's events, and the journal."""
