"""`nodemanager check-cloud`: asks before the first boot, and boots one node to try."""
