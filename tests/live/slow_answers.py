"""A local cloud that answers a create some seconds after it has made the node."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

from libcloud.compute.base import Node

from nodemanager.cloud.local.driver import LocalNodeDriver

ANSWERS_AFTER_S = 3.0
MADE = "made"
"""The file in the cloud's directory that has a line for each create that is to be answered."""


class SlowDriver(LocalNodeDriver):
    def create_node(self, *given: Any, **named: Any) -> Node:
        node = super().create_node(*given, **named)
        with open(self.state.root / MADE, "a", encoding="ascii") as file:
            file.write(f"{node.id}\n")
        time.sleep(ANSWERS_AFTER_S)
        return node


def made_in(directory: Path) -> list[str]:
    """The nodes that were made, in that order."""
    file = directory / MADE
    return file.read_text(encoding="ascii").split() if file.exists() else []
