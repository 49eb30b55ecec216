"""A local cloud whose answers are what the test wants: no answer, a short one, nodes it forgot.

The daemon gets it by `[Cloud] driver_class`; `Faults` is the hand that turns it, from outside.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from libcloud.common.exceptions import BaseHTTPError
from libcloud.compute.base import Node

from nodemanager.cloud.local.driver import LocalNodeDriver
from nodemanager.cloud.local.node import write_atomic

FAULTS = "faults.json"
DRIVER = f"{__name__}.FaultyDriver"


class Faults:
    """What is wrong with the cloud in a state directory, from now on."""

    def __init__(self, cloud: Path) -> None:
        self._path = cloud / FAULTS

    def set(self, **changed: object) -> None:
        """`outage`: no call is answered. `deaf`: none by id is.

        `shown`: so many nodes are listed, as if it were all.
        `lost`: ids that no answer mentions, neither a listing nor one by id. `refused`: why each
        create is wrong, as for an image that is not there.
        """
        write_atomic(self._path, {**self.read(), **changed})

    def read(self) -> dict[str, Any]:
        try:
            found: dict[str, Any] = json.loads(self._path.read_text(encoding="utf-8"))
        except FileNotFoundError:
            return {}
        return found


class FaultyDriver(LocalNodeDriver):
    """The local cloud, with the faults of its state directory."""

    def list_nodes(self) -> list[Node]:
        faults = self._faults()
        lost = faults.get("lost") or ()
        listed = [node for node in super().list_nodes() if node.id not in lost]
        return listed[: faults.get("shown")]

    def ex_get_node(self, node_id: str) -> Node | None:
        faults = self._faults()
        if faults.get("deaf"):
            raise BaseHTTPError(503, "Service Unavailable")
        if node_id in (faults.get("lost") or ()):
            return None
        return super().ex_get_node(node_id)

    def create_node(self, *arguments: Any, **named: Any) -> Node:
        refused = self._faults().get("refused")
        if refused:
            raise BaseHTTPError(400, refused)
        return super().create_node(*arguments, **named)

    def destroy_node(self, node: Node) -> bool:
        self._faults()
        return super().destroy_node(node)

    def _faults(self) -> dict[str, Any]:
        faults = Faults(self.state.root).read()
        if faults.get("outage"):
            raise BaseHTTPError(503, "Service Unavailable")
        return faults
