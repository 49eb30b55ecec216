"""The subcommands of `nodemanager` that show a pool or change it, one file a subject."""
