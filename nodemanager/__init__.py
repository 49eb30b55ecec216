"""A node manager for elastic clusters that never frees a live node's record."""

__version__ = "0.1.0"
