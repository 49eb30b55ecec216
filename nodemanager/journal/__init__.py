"""The journal: what was seen and decided, the intents of actions, and their outcomes."""
