"""One process: its parts made from the configuration, started, watched, reloaded and ended."""
