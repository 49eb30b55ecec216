"""A cluster in the running cloud's project; its daemon asks nova through a proxy."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path

from tests.live.cluster import Sections
from tests.live.openstack import ProjectCluster
from tests.live.proxy import Proxy
from tests.openstack.hand import Hand

CREATE, LIST = "POST /v2.1/servers", "GET /v2.1/servers/detail"


def _kind(request: bytes) -> str:
    """Method and path."""
    return " ".join(request.split(b"\r\n", 1)[0].decode("latin-1").split("?")[0].split(" ")[:2])


class RealCluster(ProjectCluster):
    """The catalog's internal endpoint of nova is the proxy; the daemon uses internal ones."""

    def __init__(self, home: Path, cloud: Hand, *layers: Sections) -> None:
        self._restoring = ExitStack()
        self.cloud = cloud
        self.proxy = Proxy(cloud.member.compute.get_endpoint(), _kind)
        self._restoring.callback(self.proxy.close)
        self._point(f"{self.proxy.url}/v2.1")
        self._restoring.callback(self._point, cloud.member.compute.get_endpoint())
        access: Sections = {
            "Cloud Credentials": {
                "auth_url": cloud.cloud.auth_url,
                "interface": "internal",
                "timeout": 20,
                **cloud.credentials,
            },
            "Cloud Create": {"image": cloud.cloud.image},
        }
        super().__init__(home, cloud, access, *layers)

    def _point(self, url: str) -> None:
        identity = self.cloud.admin.identity
        service = identity.find_service("nova")
        (endpoint,) = identity.endpoints(service_id=service.id, interface="internal")
        identity.update_endpoint(endpoint, url=url)

    def creates(self) -> int:
        """How many create calls came so far."""
        return sum(count for (kind, _), count in self.proxy.met.items() if kind == CREATE)

    def alive(self) -> set[str]:
        """The ids of the servers that are there, whatever the daemon's listing says."""
        return {server.id for server in self.cloud.admin.compute.servers()}

    def close(self) -> None:
        try:
            super().close()
        finally:
            self._restoring.close()
