"""What one snapshot calls for: every verdict, and the actions in their order."""
