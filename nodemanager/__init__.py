"""A node manager for elastic clusters that never frees a live node's record."""

__version__ = "1.0.0rc1"
