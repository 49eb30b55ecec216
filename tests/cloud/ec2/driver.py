"""A libcloud driver class of a user's own, for `[Cloud] driver_class`."""

from __future__ import annotations

from libcloud.compute.drivers.ec2 import EC2NodeDriver


class CountingDriver(EC2NodeDriver):
    name = "Counting EC2"
