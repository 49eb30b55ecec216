"""What operators order: commands, names of things, the backlog."""
