"""The recorded past, folded again: as it was, and under other settings."""
