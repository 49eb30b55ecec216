"""The tests' own GCE server as a process of its own: `python -m tests.live.gce_process`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any, TextIO

from nodemanager.lib.memory import uncollected
from tests.live.farm import NotServed, Seen
from tests.live.server_process import ServerProcess, serve

TAKES_S = 0.3
"""How long the server's operations are under way."""


class Google(ServerProcess):
    """That process, and what only the owner of its world sees and does."""

    def __init__(self, home: Path) -> None:
        super().__init__("tests.live.gce_process", home, "tests.cloud.gce.server")

    def instances(self) -> dict[str, dict[str, Any]]:
        """Every instance, by id, as Google's API has it."""
        return {one["id"]: one for one in self.ask("instances")}

    def nodes(self) -> dict[str, Seen]:
        """See farm.Cloud."""
        found = {node_id: one["labels"] for node_id, one in self.instances().items()}
        return {node_id: Seen(tags["nodemanager-name"], tags) for node_id, tags in found.items()}

    def creates(self) -> int:
        """See farm.Cloud."""
        return int(self.ask("called", "instances.insert"))

    def running(self) -> list[str]:
        """See farm.Api."""
        found = self.instances().items()
        return [node_id for node_id, one in found if one["status"] == "RUNNING"]

    def user_data(self, node_id: str) -> bytes:
        """See farm.Api."""
        one = self.instances().get(node_id)
        if one is None:
            raise NotServed
        return str(metadata_of(one)["arv-ping-url"]).encode()

    def key(self) -> str:
        """The private key of its service account."""
        return str(self.ask("key"))

    def vanish(self, node_id: str) -> None:
        """See farm.Cloud."""
        self.ask("delete", node_id)

    def preempt(self, node_id: str) -> None:
        """Google takes a spot instance away: it stays, as TERMINATED."""
        self.ask("preempt", node_id)

    def next_insert_fails(self, code: str) -> None:
        """The next insert begins an operation that fails once `end_operations` ends it."""
        self.ask("fails", code)

    def end_operations(self) -> None:
        """What goes on ends, and what is begun from now on takes as long as ever."""
        self.ask("end")

    def disks(self) -> list[str]:
        names: list[str] = self.ask("disks")
        return names

    def wrong(self) -> list[str]:
        """What contradicted Google's description of its API so far."""
        found: list[str] = self.ask("wrong")
        return found


def metadata_of(instance: dict[str, Any]) -> dict[str, str]:
    return {item["key"]: item["value"] for item in instance["metadata"]["items"]}


def main(orders: TextIO, answers: TextIO) -> None:
    with uncollected():
        from tests.cloud.gce import auth as gce_auth
        from tests.cloud.gce.server import GceServer

    server = GceServer().start()
    project = server.project
    project.takes = TAKES_S

    def zone_of(node_id: str) -> str:
        return next(zone for (zone, _), one in project.instances.items() if one["id"] == node_id)

    def answer(name: str, *rest: str) -> Any:
        match name:
            case "instances":
                return list(project.instances.values())
            case "disks":
                return [name for _, name in project.disks]
            case "key":
                return gce_auth.pem()
            case "wrong":
                return server.wrong
            case "called":
                return len(server.called(*rest))
            case "fails":
                project.takes = float("inf")
                return project.next_fails.append((*rest, "no room"))
            case "end":
                project.takes = TAKES_S
                for one in project.pending:
                    one.due = 0.0
            case "delete":
                project.delete(zone_of(*rest), *rest)
            case "preempt":
                project.stop(zone_of(*rest), *rest)
        return None

    serve(server.url, server.held, answer, orders, answers)


if __name__ == "__main__":
    main(sys.stdin, sys.stdout)
