"""The processes that `nodemanager` runs: the daemon, the registry, and what both need."""
