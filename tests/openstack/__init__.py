"""Tests on a real OpenStack: `make proof NAME=openstack` starts one and runs them."""

CLOUD_FILE = "NODEMANAGER_OPENSTACK"
"""The environment variable with the path of the running cloud's description (people.Cloud)."""
