"""The verdict on each record and node, rule by rule, and what forbids actions for now."""
