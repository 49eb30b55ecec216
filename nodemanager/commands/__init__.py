"""The subcommands of `nodemanager` that look at a pool or tell it something, one file a subject."""
