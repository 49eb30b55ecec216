"""The daemon actor and its parts: routes facts, asks core, runs workflows."""
