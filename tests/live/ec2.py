"""A cluster in an EC2 account of its own: moto's server, a farm of nodes, a list of jobs."""

from __future__ import annotations

import json
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from tests.live.cluster import Cluster, Sections
from tests.live.farm import PING_EVERY_S, NodeFarm
from tests.live.harness import TREE, Daemon
from tests.live.moto_process import KEY, REGION, SECRET, Moto
from tests.waiting import until


def on_ec2(url: str) -> dict[str, dict[str, object]]:
    """The sections of a pool whose EC2 API is at that URL; its nodes go once they are idle."""
    return {
        # In minutes.
        "Cloud": {"provider": "ec2", "shutdown_windows": "0, 999999"},
        "Cloud Credentials": {"region": REGION, "endpoint": url, "key": KEY, "secret": SECRET},
        "Cloud List": {"tag_project": "live"},
        "Cloud Create": {
            "image_id": "ami-12345678",
            "user_data": TREE / "etc/node/user-data.yaml",
        },
        "Size m5.large": {"cores": 2, "ram": 8192, "price": 0.096},
        "Cleaning": {"visible_after": 0.5},
    }


class Ec2Cluster(Cluster):
    """A pool whose demand is what a test wants; `close` ends its account and its nodes, too."""

    def __init__(
        self,
        home: Path,
        *layers: Sections,
        module: str = "nodemanager",
        ping_every: float = PING_EVERY_S,
        drain_hooks: bool = False,
    ) -> None:
        self.module = module
        self._closing = ExitStack()
        home.mkdir(parents=True, exist_ok=True)
        self.moto = Moto(home)
        self._closing.callback(self.moto.close)
        self.farm = NodeFarm(
            self.moto, home / "farm", ping_every=ping_every, drain_hooks=drain_hooks
        )
        self._closing.callback(self.farm.close)
        self._wishlist = home / "wishlist"
        command = home / "print-wishlist"
        command.write_text(f"#!/bin/sh\nexec cat {self._wishlist}\n", encoding="utf-8")
        command.chmod(0o700)
        self.want(0)
        demand: Sections = {
            "Daemon": {
                "min_nodes": 0,
                "max_nodes": 4,
                "max_total_price": 1,
                "wishlist_command": command,
            },
        }
        super().__init__(home, on_ec2(self.moto.url), demand, *layers)

    def want(self, nodes: int) -> None:
        """That many jobs wait, each for a node of its own."""
        self.want_jobs(*({"id": f"job-{number}", "cores": 2} for number in range(nodes)))

    def want_jobs(self, *jobs: dict[str, Any]) -> None:
        """These jobs wait."""
        new = self._wishlist.with_suffix(".new")
        new.write_text("".join(f"{json.dumps(job)}\n" for job in jobs), encoding="ascii")
        new.replace(self._wishlist)

    def want_none(self, daemon: Daemon) -> None:
        """No job waits, and the daemon knows it."""
        self.want(0)
        until("no wish", lambda: self.status(daemon)["nodes_wish"] == 0, told=daemon.told)

    def close(self) -> None:
        try:
            super().close()
        finally:
            self._closing.close()
