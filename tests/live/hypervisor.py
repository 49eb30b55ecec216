"""A hypervisor as a process: libvirtd with libvirt's test driver, and a pool of nodes on it.

The daemon and the test reach it through its socket, as any two clients. Its domains run nothing:
the farm pings for each that runs, by what is in the node's seed image.
"""

from __future__ import annotations

import shutil
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from pathlib import Path
from typing import Any, TypeAlias
from xml.etree import ElementTree

from nodemanager.cloud.libvirt.domain import URI
from tests.cloud.iso import files_of
from tests.cloud.libvirt import driver as libvirt_driver
from tests.live.clouds import CloudCluster
from tests.live.cluster import Sections
from tests.live.farm import NotServed, Seen
from tests.live.harness import environment, frozen
from tests.waiting import until

CONF = """
unix_sock_dir = "{home}"
auth_unix_ro = "none"
auth_unix_rw = "none"
"""


class Libvirtd:
    """That process. What it knows is lost when it ends."""

    def __init__(self) -> None:
        # A socket's path has few characters.
        self.home = Path(tempfile.mkdtemp(prefix="nm-libvirtd-"))
        (self.home / "drivers").mkdir()
        (self.home / "conf").write_text(CONF.format(home=self.home), encoding="ascii")
        self.socket = self.home / "libvirt-sock"
        self.uri = f"test+unix:///default?socket={self.socket}"
        self.start()

    def start(self) -> None:
        self.socket.unlink(missing_ok=True)
        with open(self.home / "log", "ab") as log:
            self._process = subprocess.Popen(
                ["/usr/sbin/libvirtd", "-f", self.home / "conf", "-p", self.home / "pid"],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                # It shall load no driver beside the one that is built in, and touch no machine.
                env=environment(LIBVIRT_DRIVER_DIR=str(self.home / "drivers")),
                start_new_session=True,
            )
        until("libvirtd's socket", self._listens, told=self._told)

    def _listens(self) -> bool:
        with socket.socket(socket.AF_UNIX) as probe:
            return probe.connect_ex(str(self.socket)) == 0

    def frozen(self) -> AbstractContextManager[None]:
        """It answers nothing meanwhile."""
        return frozen(self._process.pid)

    def kill(self) -> None:
        self._process.kill()
        self._process.wait()

    def close(self) -> None:
        self.kill()
        shutil.rmtree(self.home)

    def _told(self) -> str:
        return (self.home / "log").read_text(encoding="utf-8", errors="replace")


class HypervisorCloud:
    """A hypervisor of its own, as somebody else sees it who has a connection to it."""

    def __init__(self, home: Path) -> None:
        import libvirt

        self._closing = ExitStack()
        self.libvirtd = Libvirtd()
        self._closing.callback(self.libvirtd.close)
        self.connection = self._closing.enter_context(libvirt_driver.hypervisor(self.libvirtd.uri))
        self.seeds = home / "seeds"
        self.seeds.mkdir(parents=True)
        self._errors = (libvirt.libvirtError, OSError)

    def tags(self) -> dict[str, dict[str, str]]:
        """The tags of each domain of ours, by its id."""
        found = {}
        for domain in self.connection.listAllDomains():
            node = ElementTree.fromstring(domain.XMLDesc()).find(f"metadata/{{{URI}}}node")
            if node is not None:
                tags = {str(tag.get("name")): str(tag.text) for tag in node}
                found[domain.UUIDString()] = {**tags, "name": str(node.get("name"))}
        return found

    def nodes(self) -> dict[str, Seen]:
        """See farm.Cloud."""
        return {node_id: Seen(tags["name"], tags) for node_id, tags in self.tags().items()}

    def creates(self) -> int:
        """See farm.Cloud. Libvirt counts no calls, but each create makes three volumes."""
        return len(self.volumes()) // 3

    def running(self) -> list[str]:
        """See farm.Api."""
        with self._served():
            return [one for one in self.tags() if self.domain(one).isActive()]

    def user_data(self, node_id: str) -> bytes:
        """What cloud-init finds in the image that was uploaded for the node."""
        with self._served():
            incarnation = self.tags()[node_id]["nodemanager-incarnation"]
        [seed] = self.seeds.glob(f"*.{incarnation}.seed.iso")
        return files_of(seed.read_bytes())["user-data"]

    @contextmanager
    def _served(self) -> Iterator[None]:
        try:
            yield
        except self._errors as error:
            raise NotServed from error

    def domain(self, node_id: str) -> Any:
        return self.connection.lookupByUUIDString(node_id)

    def volumes(self, incarnation: str = "") -> list[str]:
        return [name for name in libvirt_driver.volumes(self.connection) if incarnation in name]

    def vanish(self, node_id: str) -> None:
        """See farm.Cloud."""
        libvirt_driver.vanish(self.connection, node_id)

    def close(self) -> None:
        self._closing.close()


HypervisorCluster: TypeAlias = CloudCluster[HypervisorCloud]


def hypervisor_cluster(home: Path, *layers: Sections) -> HypervisorCluster:
    cloud = HypervisorCloud(home)
    where: Sections = {
        # In minutes.
        "Cloud": {
            "provider": "libvirt",
            "shutdown_windows": "60, 999999",
            "driver_class": libvirt_driver.DRIVER,
        },
        "Cloud Credentials": {"uri": cloud.libvirtd.uri},
        "Cloud Create": {"storage_pool": libvirt_driver.POOL, "image": libvirt_driver.IMAGE},
        "Size small": {"cores": 1, "ram": 1024, "scratch": 2000, "price": 0.01},
    }
    made = CloudCluster(home, cloud, where, *layers, module="tests.live.soon")
    made.environment[libvirt_driver.SEEDS] = str(cloud.seeds)
    return made
