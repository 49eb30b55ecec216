"""A local cloud that answers a create a second after it has made the node."""

from __future__ import annotations

import time
from typing import Any

from libcloud.compute.base import Node

from nodemanager.cloud.local.driver import LocalNodeDriver

ANSWERS_AFTER_S = 1.0


class SlowDriver(LocalNodeDriver):
    def create_node(self, *given: Any, **named: Any) -> Node:
        node = super().create_node(*given, **named)
        time.sleep(ANSWERS_AFTER_S)
        return node
