"""What each record and node deserves, rule by rule, and what forbids it for now."""
