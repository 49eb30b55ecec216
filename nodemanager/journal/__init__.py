"""The journal: what was seen and decided, what was about to be done, and what became of it."""
