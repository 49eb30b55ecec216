"""The running cloud's project as a daemon's cloud; the daemon asks nova through a proxy."""

from __future__ import annotations

from contextlib import AbstractContextManager, ExitStack
from pathlib import Path

from tests.live.clouds import CloudCluster
from tests.live.cluster import Sections
from tests.live.farm import Seen
from tests.live.openstack import project_cluster
from tests.live.proxy import Fate, Proxy
from tests.openstack.hand import Hand

CREATE = "POST /v2.1/servers"
LONG_S = 150.0
"""Nova's own part of a boot or an end takes some seconds, and more on a machine with much to do."""


def _kind(request: bytes) -> str:
    """Method and path."""
    return " ".join(request.split(b"\r\n", 1)[0].decode("latin-1").split("?")[0].split(" ")[:2])


class RealProject:
    """The catalog's internal endpoint of nova is the proxy; the daemon uses internal ones."""

    def __init__(self, hand: Hand) -> None:
        self._restoring = ExitStack()
        self.hand = hand
        self.proxy = Proxy(hand.member.compute.get_endpoint(), _kind)
        self._restoring.callback(self.proxy.close)
        self._point(f"{self.proxy.url}/v2.1")
        self._restoring.callback(self._point, hand.member.compute.get_endpoint())

    def _point(self, url: str) -> None:
        identity = self.hand.admin.identity
        service = identity.find_service("nova")
        (endpoint,) = identity.endpoints(service_id=service.id, interface="internal")
        identity.update_endpoint(endpoint, url=url)

    def running(self) -> list[str]:
        """See farm.Api."""
        return self.hand.running()

    def user_data(self, node_id: str) -> bytes:
        """See farm.Api."""
        return self.hand.user_data(node_id)

    def nodes(self) -> dict[str, Seen]:
        """See farm.Cloud."""
        servers = self.hand.admin.compute.servers()
        return {one.id: Seen(one.name, one.metadata) for one in servers}

    def creates(self) -> int:
        """See farm.Cloud."""
        return sum(count for (kind, _), count in self.proxy.met.items() if kind == CREATE)

    def vanish(self, node_id: str) -> None:
        """See farm.Cloud."""
        self.hand.member.compute.delete_server(node_id)

    def lose_next_create(self) -> None:
        """It does its work, and nobody hears of it."""
        self.proxy.lose_next(CREATE)

    def no_create_arrives(self) -> AbstractContextManager[None]:
        """Half of each arrives, and nobody hears of it."""
        return self.proxy.meeting(lambda kind: Fate.REQUEST_CUT if kind == CREATE else Fate.CARRIED)

    def close(self) -> None:
        self._restoring.close()


RealCluster = CloudCluster[RealProject]


def real_cluster(home: Path, hand: Hand, *layers: Sections) -> RealCluster:
    access: Sections = {
        "Cloud Credentials": {
            "auth_url": hand.cloud.auth_url,
            "interface": "internal",
            "timeout": 20,
            **hand.credentials,
        },
        "Cloud Create": {"image": hand.cloud.image},
    }
    made = project_cluster(home, RealProject(hand), access, *layers)
    made.patience_s = LONG_S
    return made
