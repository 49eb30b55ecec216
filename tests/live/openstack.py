"""A cluster in an OpenStack project; one on our own server is made here."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

from tests.cloud.faults import lost, unheard
from tests.cloud.openstack.server import CREDENTIAL, CREDENTIAL_SECRET, OpenStackServer
from tests.cloud.openstack.things import IMAGE
from tests.live.clouds import CloudCluster
from tests.live.cluster import Sections
from tests.live.farm import Cloud, NotServed, Seen
from tests.live.harness import TREE

CREATE = "compute POST /servers"

C = TypeVar("C", bound=Cloud)


def project_cluster(home: Path, cloud: C, access: Sections, *layers: Sections) -> CloudCluster[C]:
    """A pool in a project; `access` is how the daemon gets to it."""
    pool: Sections = {
        "Daemon": {"max_total_price": 1},
        # In minutes.
        "Cloud": {"provider": "openstack", "shutdown_windows": "0, 999999"},
        "Cloud List": {"metadata:project": "live"},
        "Cloud Create": {"user_data": TREE / "etc/node/user-data.yaml"},
        "Size m1.small": {"cores": 1, "ram": 2048, "price": 0.02},
    }
    # Nova never says that a server is gone, so every end takes two denials.
    return CloudCluster(home, cloud, pool, access, *layers, module="tests.live.soon")


class Project:
    """A project on a server of its own."""

    def __init__(self) -> None:
        self.server = OpenStackServer().start()
        self.access: Sections = {
            "Cloud Credentials": {
                "auth_url": self.server.auth_url,
                "application_credential_id": CREDENTIAL,
                "application_credential_secret": CREDENTIAL_SECRET,
                "timeout": 4,
            },
            "Cloud Create": {"image": IMAGE},
        }

    def running(self) -> list[str]:
        """See farm.Api."""
        nova = self.server.nova
        nova.settle()
        return [one.id for one in list(nova.servers.values()) if one.shown == "ACTIVE"]

    def user_data(self, node_id: str) -> bytes:
        """See farm.Api."""
        try:
            return self.server.nova.servers[node_id].user_data.encode()
        except KeyError as error:
            raise NotServed from error

    def nodes(self) -> dict[str, Seen]:
        """See farm.Cloud."""
        self.server.nova.settle()
        servers = list(self.server.nova.servers.values())
        return {one.id: Seen(one.name, one.metadata) for one in servers}

    def creates(self) -> int:
        """See farm.Cloud."""
        return len(self.server.called(CREATE))

    def vanish(self, node_id: str) -> None:
        """See farm.Cloud."""
        self.server.nova.delete(node_id, self.server.project_id)

    def lose_next_create(self) -> None:
        """It does its work, and nobody hears of it."""
        self.server.fault(CREATE, after=lost)

    @contextmanager
    def no_create_arrives(self) -> Iterator[None]:
        """Each is lost on its way, and nobody hears of it."""
        self.server.fault(CREATE, times=sys.maxsize, before=unheard)
        try:
            yield
        finally:
            self.server.heal(CREATE)

    def close(self) -> None:
        self.server.stop()
