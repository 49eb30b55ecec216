"""Status, health and metrics of a running daemon, over HTTP."""
