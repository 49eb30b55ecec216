"""The tests' own Azure server as a process of its own: `python -m tests.live.azure_process`."""

from __future__ import annotations

import base64
import sys
from pathlib import Path
from typing import Any, TextIO

from nodemanager.lib.memory import uncollected
from tests.cloud.azure import schema
from tests.live.farm import NotServed, Seen
from tests.live.server_process import ServerProcess, serve

TAKES_S = 0.3
"""How long the server's operations are under way."""


class Subscription(ServerProcess):
    """That process, and what only the owner of its world sees and does."""

    def __init__(self, home: Path) -> None:
        models = (f"azure.mgmt.{package}.models" for package in schema.PACKAGES)
        super().__init__("tests.live.azure_process", home, "tests.cloud.azure.server", *models)

    def machines(self) -> dict[str, dict[str, Any]]:
        """Every machine, by vmId, as Azure's API has it."""
        return {one["properties"]["vmId"]: one for one in self.ask("machines")}

    def nodes(self) -> dict[str, Seen]:
        """See farm.Cloud."""
        found = {node_id: one["tags"] for node_id, one in self.machines().items()}
        return {node_id: Seen(tags["nodemanager-name"], tags) for node_id, tags in found.items()}

    def creates(self) -> int:
        """See farm.Cloud."""
        return int(self.ask("called", "virtualMachines.put"))

    def running(self) -> list[str]:
        """See farm.Api."""
        return [
            node_id
            for node_id, one in self.machines().items()
            if one["properties"]["provisioningState"] == "Succeeded"
        ]

    def user_data(self, node_id: str) -> bytes:
        """See farm.Api."""
        found = self.ask("custom data", node_id)
        if found is None:
            raise NotServed
        return base64.b64decode(found)

    def vanish(self, node_id: str) -> None:
        """See farm.Cloud."""
        self.ask("delete", node_id)

    def evict(self, node_id: str) -> None:
        """Azure takes a Spot machine away."""
        self.ask("evict", node_id)

    def deallocate(self, node_id: str) -> None:
        """Another hand stops a machine: it stays, deallocated."""
        self.ask("deallocate", node_id)

    def next_create_fails(self, code: str) -> None:
        """The next create begins an operation that fails once `end_operations` ends it."""
        self.ask("fails", code)

    def end_operations(self) -> None:
        """What goes on ends, and what is begun from now on takes as long as ever."""
        self.ask("end")

    def things(self) -> list[str]:
        """The resource ids of all that there is beside machines."""
        found: list[str] = self.ask("things")
        return found

    def forget_to_delete(self, node_id: str) -> None:
        """Azure will leave the machine's disk and interface behind at its end."""
        self.ask("forget", node_id)

    def wrong(self) -> list[str]:
        """What contradicted Azure's description of its API so far."""
        found: list[str] = self.ask("wrong")
        return found


def main(orders: TextIO, answers: TextIO) -> None:
    with uncollected():
        from tests.cloud.azure.server import AzureServer
        from tests.cloud.azure.world import VMS

    server = AzureServer().start()
    world = server.world
    world.takes = TAKES_S

    def answer(name: str, *rest: str) -> Any:
        match name:
            case "machines":
                return world.of(VMS)
            case "things":
                return [path for path in world.things if "/virtualmachines/" not in path]
            case "custom data":
                return world.secrets.get(*rest)
            case "wrong":
                return server.wrong
            case "called":
                return len(server.called(*rest))
            case "fails":
                world.takes = float("inf")
                return world.create_fails.append((*rest, "no room"))
            case "end":
                world.takes = TAKES_S
                for one in world.operations.values():
                    one.due = 0.0
            case "delete":
                world.delete_machine(world.machine(*rest)["id"])
            case "evict":
                world.evict(*rest)
            case "deallocate":
                path = world.machine(*rest)["id"]
                world.power(path, "PowerState/deallocating", "PowerState/deallocated")
            case "forget":
                about = world.machine(*rest)["properties"]
                about["storageProfile"]["osDisk"]["deleteOption"] = "Detach"
                for nic in about["networkProfile"]["networkInterfaces"]:
                    nic["properties"]["deleteOption"] = "Detach"
        return None

    serve(server.url, server.held, answer, orders, answers)


if __name__ == "__main__":
    main(sys.stdin, sys.stdout)
