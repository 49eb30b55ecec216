"""The daemon actor and its parts: they route facts, ask core, and run workflows."""
