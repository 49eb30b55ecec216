"""A cluster in an OpenStack project, with a farm of nodes; one is on our own server."""

from __future__ import annotations

import json
from pathlib import Path

from tests.cloud.openstack.server import CREDENTIAL, CREDENTIAL_SECRET, OpenStackServer
from tests.cloud.openstack.things import IMAGE
from tests.live.cluster import Cluster, Sections
from tests.live.farm import Api, NodeFarm, NotServed
from tests.live.harness import TREE, Daemon
from tests.waiting import until


class _Servers:
    """The servers as the farm knows its machines."""

    def __init__(self, server: OpenStackServer) -> None:
        self._nova = server.nova

    def running(self) -> list[str]:
        self._nova.settle()
        return [one.id for one in list(self._nova.servers.values()) if one.shown == "ACTIVE"]

    def user_data(self, node_id: str) -> bytes:
        try:
            return self._nova.servers[node_id].user_data.encode()
        except KeyError as error:
            raise NotServed from error


class ProjectCluster(Cluster):
    """A pool in an OpenStack project whose demand is what a test wants.

    `servers` are the project's for the farm, `access` is how the daemon gets to it.
    """

    def __init__(self, home: Path, servers: Api, access: Sections, *layers: Sections) -> None:
        home.mkdir(parents=True, exist_ok=True)
        # Nova never says that a server is gone, so every end takes two denials.
        self.module = "tests.live.soon"
        self.farm = NodeFarm(servers, home / "farm")
        self._wishlist = home / "wishlist"
        command = home / "print-wishlist"
        command.write_text(f"#!/bin/sh\nexec cat {self._wishlist}\n", encoding="utf-8")
        command.chmod(0o700)
        self.want(0)
        pool: Sections = {
            "Daemon": {
                "min_nodes": 0,
                "max_nodes": 4,
                "max_total_price": 1,
                "wishlist_command": command,
            },
            # In minutes.
            "Cloud": {"provider": "openstack", "shutdown_windows": "0, 999999"},
            "Cloud List": {"metadata:project": "live"},
            "Cloud Create": {"user_data": TREE / "etc/node/user-data.yaml"},
            "Size m1.small": {"cores": 1, "ram": 2048, "price": 0.02},
            "Cleaning": {"visible_after": 0.5},
        }
        super().__init__(home, pool, access, *layers)

    def want(self, nodes: int) -> None:
        """That many jobs wait, each for a node of its own."""
        lines = [json.dumps({"id": f"job-{number}", "cores": 1}) for number in range(nodes)]
        new = self._wishlist.with_suffix(".new")
        new.write_text("".join(f"{line}\n" for line in lines), encoding="ascii")
        new.replace(self._wishlist)

    def want_none(self, daemon: Daemon) -> None:
        """No job waits, and the daemon knows it."""
        self.want(0)
        until("no wish", lambda: self.status(daemon)["nodes_wish"] == 0, told=daemon.told)

    def close(self) -> None:
        try:
            super().close()
        finally:
            self.farm.close()


class OpenStackCluster(ProjectCluster):
    """One on a server of its own; `close` ends its project and its nodes, too."""

    def __init__(self, home: Path, *layers: Sections) -> None:
        self.server = OpenStackServer().start()
        access: Sections = {
            "Cloud Credentials": {
                "auth_url": self.server.auth_url,
                "application_credential_id": CREDENTIAL,
                "application_credential_secret": CREDENTIAL_SECRET,
                "timeout": 4,
            },
            "Cloud Create": {"image": IMAGE},
        }
        super().__init__(home, _Servers(self.server), access, *layers)

    def alive(self) -> set[str]:
        """The ids of the servers that are there, whatever a listing says."""
        self.server.nova.settle()
        return set(self.server.nova.servers)

    def close(self) -> None:
        try:
            super().close()
        finally:
            self.server.stop()
