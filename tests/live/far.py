"""A cluster that reaches everything over HTTP, each API behind a proxy of the test's.

Its cloud is EC2, its records are behind the Arvados API, its nodes ping through the same proxy as
the daemon asks through.
"""

from __future__ import annotations

import re
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from tests.live.cluster import TOKEN, Cluster, Sections, over_arvados
from tests.live.ec2 import on_ec2
from tests.live.farm import NodeFarm
from tests.live.harness import Daemon, Registry, free_port
from tests.live.ledger import Live
from tests.live.moto_process import Moto
from tests.live.proxy import Proxy

_ACTION = re.compile(rb"Action=(\w+)")
_UUID = re.compile(r"/[a-z0-9]{5}-7ekkf-[a-z0-9]{15}")


def ec2_action(request: bytes) -> str:
    found = _ACTION.search(request)
    return found[1].decode() if found else "?"


def nodes_call(request: bytes) -> str:
    """`PUT /nodes/UUID`, for instance."""
    method, target, _ = request.partition(b"\r\n")[0].decode().split(" ")
    path = target.partition("?")[0].removeprefix("/arvados/v1")
    return f"{method} {_UUID.sub('/UUID', path)}"


class FarCluster(Cluster):
    """One pool in one EC2 account; `close` ends all that it needs."""

    def __init__(
        self,
        home: Path,
        *layers: Sections,
        cloud_s: float = 1.0,
        records_s: float = 1.0,
        module: str = "nodemanager",
    ) -> None:
        """`cloud_s` and `records_s` are the time-outs of one call."""
        self.module = module
        self._closing = ExitStack()
        home.mkdir(parents=True, exist_ok=True)
        self.moto = Moto(home)
        self._closing.callback(self.moto.close)
        port = free_port()
        self.cloud = Proxy(self.moto.url, ec2_action)
        self.records = Proxy(f"http://127.0.0.1:{port}", nodes_call)
        self._closing.callback(self.cloud.close)
        self._closing.callback(self.records.close)
        patience: Sections = {"Cloud Credentials": {"timeout": cloud_s}}
        super().__init__(home, on_ec2(self.cloud.url), patience, *layers)
        self._registry_config = self.configure(
            {"Registry": {"listen": f"127.0.0.1:{port}"}}, "registry.cfg"
        )
        slots = self.options("Registry")["slots"]
        self.change(over_arvados(self.records.url, slots, records_s))
        self.registry = Registry(f"http://127.0.0.1:{port}", TOKEN)
        self.serve_registry()
        self.farm = NodeFarm(self.moto, home / "farm")
        self.farm.start()

    def serve_registry(self) -> Daemon:
        served = self.start(config=self._registry_config, command="registry")
        served.wait_for("server.started", name="registry")
        return served

    def live(self) -> dict[str, Live]:
        """The instances that are not terminated, and what they were created for."""
        return {
            node_id: Live(0, tags["nodemanager-record"], tags["nodemanager-incarnation"])
            for node_id, tags in self.moto.tags().items()
        }

    def ever(self) -> list[dict[str, Any]]:
        """Every instance that there ever was, terminated or not."""
        answer = self.moto.ec2.describe_instances()
        return [one for group in answer["Reservations"] for one in group["Instances"]]

    def close(self) -> None:
        super().close()
        try:
            if hasattr(self, "farm"):
                self.farm.close()
        finally:
            self._closing.close()
