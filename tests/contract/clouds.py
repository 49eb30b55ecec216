"""The clouds that the contract suite runs on. A new adapter adds one entry to CLOUDS."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, closing, contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from libcloud.compute.types import NodeState

from nodemanager.cloud.api import CloudDriver
from nodemanager.cloud.azure.wire import Wire as AzureWire
from nodemanager.cloud.dummy import adapter as dummy
from nodemanager.cloud.ec2.wire import Wire
from nodemanager.cloud.gce.wire import Wire as GceWire
from nodemanager.cloud.local import adapter as local
from nodemanager.cloud.local.__main__ import sweep
from nodemanager.cloud.local.driver import LocalNodeDriver
from nodemanager.cloud.local.options import node_settings
from nodemanager.cloud.local.state import ProcessIdentity, StateDir
from nodemanager.cloud.openstack.wire import Wire as OpenStackWire
from nodemanager.core.model.world import CloudNode, CloudState, LeftoverKind
from tests.cloud.azure import helpers as azure_helpers
from tests.cloud.azure.site import AzureSite
from tests.cloud.cloud_config import cloud_config
from tests.cloud.ec2.site import Ec2Site
from tests.cloud.gce import helpers as gce_helpers
from tests.cloud.gce.site import GceSite
from tests.cloud.libvirt import driver as libvirt_driver
from tests.cloud.openstack import helpers as openstack_helpers
from tests.cloud.openstack.site import OpenStackSite
from tests.cloud.site import CloudSite
from tests.contract.cloud_fixture import CloudFixture, method_through
from tests.fakes.clock import ManualClock
from tests.openstack import CLOUD_FILE


@contextmanager
def local_cloud(tmp_path: Path) -> Iterator[CloudFixture]:
    """Real processes of this machine, which boot for ever."""
    directory = tmp_path / "local"
    clock = ManualClock()
    # The nodes boot for ever: this suite is about the cloud, not about pings.
    create = {"boot_delay": "1h", "image": "node"}
    opened: list[CloudDriver] = []

    def open_cloud(pool: str) -> CloudDriver:
        config = cloud_config(pool=pool, directory=directory, create=create, clock=clock)
        opened.append(local.build_cloud(config))
        return opened[-1]

    def by_hand() -> str:
        driver = LocalNodeDriver(directory, node_settings(create), clock)
        size = driver.list_sizes()[0]
        return str(driver.create_node("by-hand", size, ex_tags={"owner": "alice"}).id)

    def newer_image() -> None:
        (directory / "images").mkdir(exist_ok=True)
        (directory / "images/node").write_text("node-2", encoding="utf-8")

    def process_of(node_id: str) -> ProcessIdentity:
        entry = StateDir(directory).find(node_id)
        assert entry is not None
        process = entry.process()
        assert process is not None
        return process

    def mark_stopping(node_id: str) -> None:
        entry = StateDir(directory).find(node_id)
        assert entry is not None
        entry.mark_stopping()

    def kill(node_id: str) -> None:
        process = process_of(node_id)
        os.kill(process.pid, signal.SIGKILL)
        assert process.end()

    try:
        yield CloudFixture(
            open=open_cloud,
            listing_through=lambda change: method_through(LocalNodeDriver, "list_nodes", change),
            states={
                CloudState.PENDING: lambda node_id: None,
                CloudState.RUNNING: lambda node_id: clock.advance(3600),
                CloudState.STOPPING: mark_stopping,
                CloudState.TERMINATED: kill,
            },
            by_hand=by_hand,
            newer_image=newer_image,
            unknown_id="local-" + 20 * "0",
        )
    finally:
        for cloud in opened:
            cloud.close()
        sweep(directory)


@contextmanager
def dummy_cloud(tmp_path: Path) -> Iterator[CloudFixture]:
    """libcloud's own cloud in memory."""
    clock = ManualClock()
    book = dummy.open_book("dummycreds", clock, None)

    def opened(pool: str) -> CloudDriver:
        """The same cloud as another pool's manager sees it."""
        return dummy.build_cloud(cloud_config(pool=pool, clock=clock), book=book)

    def put(state: NodeState) -> Callable[[str], None]:
        def change(node_id: str) -> None:
            book.nodes[node_id].state = state

        return change

    # libcloud's dummy starts with some.
    others = iter(sorted(book.nodes))
    yield CloudFixture(
        open=opened,
        by_hand=lambda: next(others),
        listing_through=lambda change: method_through(type(book.driver), "list_nodes", change),
        states={
            CloudState.PENDING: put(NodeState.PENDING),
            CloudState.RUNNING: put(NodeState.RUNNING),
            CloudState.STOPPING: put(NodeState.STOPPING),
            CloudState.STOPPED: put(NodeState.SUSPENDED),
            CloudState.TERMINATED: put(NodeState.TERMINATED),
            CloudState.UNKNOWN: put(NodeState.UNKNOWN),
        },
    )


def _served(
    site: CloudSite,
    listing_through: Callable[[Callable[[Any], Any]], AbstractContextManager[None]],
    missing_image: str = "",
    newer_image: Callable[[], None] = lambda: None,
    pin: Callable[[CloudNode], set[tuple[LeftoverKind, str]]] | None = None,
    **settings: Any,
) -> Iterator[CloudFixture]:
    """A cloud behind an HTTP server of ours; `settings` are of its adapters. Fails where a request
    or an answer contradicts the vendor's own description of its API."""
    opened: list[CloudDriver] = []

    def open_cloud(pool: str) -> CloudDriver:
        opened.append(site.open(pool=pool, **settings))
        return opened[-1]

    with closing(site):
        try:
            yield CloudFixture(
                open=open_cloud,
                listing_through=listing_through,
                states=site.states(),
                pin=pin or (lambda node: {one.key for one in site.pin(node, site.tags(node))}),
                by_hand=site.by_hand,
                without_image=lambda: site.open(create={"image": missing_image}),
                newer_image=newer_image,
                unknown_id=site.unknown_id,
            )
        finally:
            for cloud in opened:
                cloud.close()


@contextmanager
def ec2_cloud(_tmp_path: Path) -> Iterator[CloudFixture]:
    """moto's EC2 server over HTTP, its known faults mended."""
    # libcloud's list_nodes follows no pages; this is where ours does.
    yield from _served(Ec2Site(), partial(method_through, Wire, "instances"))


@contextmanager
def gce_cloud(_tmp_path: Path) -> Iterator[CloudFixture]:
    """A server of Google's compute API over HTTP; each request and answer is checked against
    Google's own description of it, and Google's own SDK works with it.
    """
    site = GceSite()
    newer_image = partial(gce_helpers.newer_image, site.server)
    through = partial(method_through, GceWire, "instances")
    yield from _served(site, through, "no-such-image", newer_image)


@contextmanager
def azure_cloud(_tmp_path: Path) -> Iterator[CloudFixture]:
    """A server of Azure's compute and network APIs over HTTP; each body and answer is checked
    against the models of Microsoft's own SDK, which works with it.
    """
    site = AzureSite()
    newer_image = partial(azure_helpers.newer_image, site.server)
    through = partial(method_through, AzureWire, "machines")
    yield from _served(site, through, "Canonical:no-such:server:latest", newer_image)


@contextmanager
def openstack_cloud(_tmp_path: Path) -> Iterator[CloudFixture]:
    """A server of keystone, nova, neutron, cinder and glance over HTTP; OpenStack's own SDK works
    with it.
    """
    site = OpenStackSite()
    newer_image = partial(openstack_helpers.newer_image, site.server)
    through = partial(method_through, OpenStackWire, "servers")
    by_name = {"image": openstack_helpers.IMAGE_NAME}
    # What nova made for a node is its, too.
    pin = partial(openstack_helpers.pin, site.server)
    yield from _served(site, through, "no-such", newer_image, pin, create=by_name)


@contextmanager
def libvirt_cloud(_tmp_path: Path) -> Iterator[CloudFixture]:
    """libvirt's test driver: libvirt's own code, with domains that run nothing."""
    clock = ManualClock()
    opened: list[CloudDriver] = []

    with libvirt_driver.hypervisor() as other_hand:

        def open_cloud(pool: str) -> CloudDriver:
            opened.append(libvirt_driver.cloud(clock, pool=pool))
            return opened[-1]

        def pin(node: CloudNode) -> set[tuple[LeftoverKind, str]]:
            """What the create itself made; libvirt deletes none of it with the domain."""
            names = [
                n for n in libvirt_driver.volumes(other_hand) if str(node.tags.incarnation) in n
            ]
            return {(LeftoverKind.VOLUME, f"{libvirt_driver.POOL}/{name}") for name in names}

        def domain(node_id: str) -> Any:
            return other_hand.lookupByUUIDString(node_id)

        try:
            yield CloudFixture(
                open=open_cloud,
                listing_through=lambda change: method_through(
                    libvirt_driver.Uploading, "list_nodes", change
                ),
                states={
                    CloudState.RUNNING: lambda node_id: None,
                    CloudState.STOPPED: lambda node_id: domain(node_id).destroy(),
                },
                pin=pin,
                by_hand=lambda: libvirt_driver.by_hand(other_hand),
                without_image=lambda: libvirt_driver.cloud(clock, image="no-such.qcow2"),
                newer_image=libvirt_driver.newer_image,
                unknown_id="6695eb01-0000-4000-8000-97f2502e193f",
            )
        finally:
            for cloud in opened:
                cloud.close()


CLOUDS: dict[str, Callable[[Path], AbstractContextManager[CloudFixture]]] = {
    "local": local_cloud,
    "dummy": dummy_cloud,
    "ec2": ec2_cloud,
    "gce": gce_cloud,
    "azure": azure_cloud,
    "openstack": openstack_cloud,
    "libvirt": libvirt_cloud,
}

REAL = "real-openstack"
"""Not among CLOUDS, which doc/contract.rst shows: `make proof NAME=openstack` alone has it."""
ADAPTERS = dict(CLOUDS)
"""The clouds that are here now."""
if CLOUD_FILE in os.environ:
    from tests.openstack.contract import real_openstack

    ADAPTERS[REAL] = real_openstack

NEED = frozenset({"libvirt"})
"""The clouds that need the server of their name (tests/conftest.py)."""
