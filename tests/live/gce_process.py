"""The tests' own GCE server as a process of its own: `python -m tests.live.gce_process`.

It says {"url": ...} once it serves. Each line on its standard input is an order, [NAME, ARGUMENTS
...], and gets one line of answer. It ends with its input.
"""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any, TextIO

from tests.live.farm import NotServed
from tests.live.harness import environment
from tests.waiting import DEADLINE_S

TAKES_S = 0.3
"""How long the server's operations are under way."""


class Google:
    """That process, and what only the owner of its world sees and does."""

    def __init__(self, home: Path) -> None:
        home.mkdir(parents=True, exist_ok=True)
        self._lock = threading.Lock()
        with open(home / "gce.log", "wb") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "tests.live.gce_process"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                env=environment(),
                start_new_session=True,
            )
        self.url = str(self._answer())

    def instances(self) -> dict[str, dict[str, Any]]:
        """Every instance, by id, as Google's API has it."""
        return {one["id"]: one for one in self._ask("instances")}

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
        return str(self._ask("key"))

    def delete(self, node_id: str) -> None:
        """End an instance behind the manager's back."""
        self._ask("delete", node_id)

    def preempt(self, node_id: str) -> None:
        """Google takes a spot instance away: it stays, as TERMINATED."""
        self._ask("preempt", node_id)

    def next_insert_fails(self, code: str) -> None:
        """The next insert begins an operation that fails."""
        self._ask("fails", code)

    def disks(self) -> list[str]:
        names: list[str] = self._ask("disks")
        return names

    def wrong(self) -> list[str]:
        """What contradicted Google's description of its API so far."""
        found: list[str] = self._ask("wrong")
        return found

    def called(self, method: str) -> int:
        return int(self._ask("called", method))

    def close(self) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        try:
            self._process.wait(DEADLINE_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait(DEADLINE_S)
        self._process.stdout.close()

    def _ask(self, *order: str) -> Any:
        assert self._process.stdin is not None
        # The farm asks from a thread of its own.
        with self._lock:
            try:
                print(json.dumps(order), file=self._process.stdin, flush=True)
                return self._answer()
            except (OSError, ValueError) as error:
                raise NotServed from error

    def _answer(self) -> Any:
        assert self._process.stdout is not None
        return json.loads(self._process.stdout.readline())


def metadata_of(instance: dict[str, Any]) -> dict[str, str]:
    return {item["key"]: item["value"] for item in instance["metadata"]["items"]}


def serve(orders: TextIO, answers: TextIO) -> None:
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
                return project.next_fails.append((*rest, "no room"))
            case "delete":
                project.delete(zone_of(*rest), *rest)
            case "preempt":
                project.stop(zone_of(*rest), *rest)
        return None

    print(json.dumps(server.url), file=answers, flush=True)
    for line in orders:
        with server.held():
            told = json.dumps(answer(*json.loads(line)))
        print(told, file=answers, flush=True)


if __name__ == "__main__":
    serve(sys.stdin, sys.stdout)
