"""The clouds that the contract suite runs on. A new adapter adds one entry to CLOUDS."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from unittest import mock

from libcloud.compute.types import NodeState

from nodemanager.cloud.api import CloudDriver
from nodemanager.cloud.dummy import DummyCloud, open_book
from nodemanager.cloud.ec2_wire import Wire
from nodemanager.cloud.gce_wire import Wire as GceWire
from nodemanager.cloud.local import LocalCloud, node_settings, sweep
from nodemanager.cloud.local_driver import LocalNodeDriver
from nodemanager.cloud.local_state import ProcessIdentity, StateDir
from nodemanager.cloud.openstack_wire import Wire as OpenStackWire
from nodemanager.core.model.world import CloudNode, CloudState, LeftoverKind
from tests.cloud import (
    ec2_helpers,
    gce_helpers,
    gce_server,
    libvirt_driver,
    moto_server,
    openstack_helpers,
    openstack_server,
)
from tests.fakes.clock import ManualClock
from tests.openstack import CLOUD_FILE


@dataclass(frozen=True)
class CloudFixture:
    """A cloud, and what the suite must know of it.

    `open(pool)` gives an adapter to the one cloud. `states` brings a node of that id into a
    state by other hands than the adapter's. `listing_through(change)` puts `change` between
    the cloud's node listing and the adapter, which must make of it what the port says.
    `driver_type` is the libcloud class whose errors are translated.
    """

    open: Callable[[str], CloudDriver]
    listing_through: Callable[[Callable[[Any], Any]], AbstractContextManager[None]]
    states: Mapping[CloudState, Callable[[str], None]] = field(default_factory=dict)
    pin: Callable[[CloudNode], set[tuple[LeftoverKind, str]]] = lambda node: set()
    """Gives the node what outlives it, as our create would; {} where nothing can."""
    by_hand: Callable[[], str] = lambda: ""
    """Starts a node beside us, without a tag of ours; its id."""
    unknown_id: str = "no-such-node"


@contextmanager
def method_through(cls: type, name: str, change: Callable[[Any], Any]) -> Iterator[None]:
    """Every answer of that libcloud method passes through `change`."""
    original = getattr(cls, name)

    def changed(self: Any, *args: Any, **kwargs: Any) -> Any:
        return change(original(self, *args, **kwargs))

    with mock.patch.object(cls, name, autospec=True, side_effect=changed):
        yield


@contextmanager
def local_cloud(tmp_path: Path) -> Iterator[CloudFixture]:
    directory = tmp_path / "local"
    clock = ManualClock()
    # The nodes boot for ever: this suite is about the cloud, not about pings.
    create = {"boot_delay": "1h"}
    opened: list[CloudDriver] = []

    def open_cloud(pool: str) -> CloudDriver:
        opened.append(LocalCloud(pool=pool, directory=directory, create=create, clock=clock))
        return opened[-1]

    def by_hand() -> str:
        driver = LocalNodeDriver(directory, node_settings(create), clock)
        size = driver.list_sizes()[0]
        return str(driver.create_node("by-hand", size, ex_tags={"owner": "alice"}).id)

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
            unknown_id="local-" + 20 * "0",
        )
    finally:
        for cloud in opened:
            cloud.close()
        sweep(directory)


@contextmanager
def dummy_cloud(tmp_path: Path) -> Iterator[CloudFixture]:
    clock = ManualClock()
    book = open_book("dummycreds", clock, None)

    def opened(pool: str) -> CloudDriver:
        """The same cloud as another pool's manager sees it."""
        return DummyCloud(pool=pool, credentials={}, clock=clock, book=book)

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


@contextmanager
def ec2_cloud(_tmp_path: Path) -> Iterator[CloudFixture]:
    server = moto_server.shared()
    server.reset()
    opened: list[CloudDriver] = []

    def open_cloud(pool: str) -> CloudDriver:
        opened.append(ec2_helpers.cloud(server, pool=pool, page_size=2))
        return opened[-1]

    def by_hand() -> str:
        node = {"ImageId": "ami-1", "MinCount": "1", "MaxCount": "1", "InstanceType": "t2.micro"}
        owner = ec2_helpers.tagged("instance", {"owner": "alice"})
        return ec2_helpers.by_hand(server, "RunInstances", **node, **owner)["instanceId"]

    def put(state: str) -> Callable[[str], None]:
        return lambda node_id: server.put(node_id, state)

    def pin(node: CloudNode) -> set[tuple[LeftoverKind, str]]:
        tags = ec2_helpers.tags_of(node)
        interface = ec2_helpers.add_interface(server, node, tags)
        return {
            (LeftoverKind.INTERFACE, interface),
            (LeftoverKind.VOLUME, ec2_helpers.add_volume(server, node, tags)),
            (LeftoverKind.ADDRESS, ec2_helpers.add_address(server, tags, interface=interface)),
        }

    try:
        yield CloudFixture(
            open=open_cloud,
            # libcloud's list_nodes follows no pages; this is where ours does.
            listing_through=lambda change: method_through(Wire, "instances", change),
            states={
                CloudState.PENDING: put("pending"),
                CloudState.RUNNING: put("running"),
                CloudState.STOPPING: put("shutting-down"),
                CloudState.STOPPED: put("stopped"),
                CloudState.TERMINATED: put("terminated"),
            },
            pin=pin,
            by_hand=by_hand,
            unknown_id="i-0123456789abcdef0",
        )
    finally:
        for cloud in opened:
            cloud.close()
        server.reset()


@contextmanager
def gce_cloud(_tmp_path: Path) -> Iterator[CloudFixture]:
    server = gce_server.shared()
    server.reset()
    opened: list[CloudDriver] = []

    def open_cloud(pool: str) -> CloudDriver:
        opened.append(gce_helpers.cloud(server, pool=pool, page_size=2))
        return opened[-1]

    def put(status: str) -> Callable[[str], None]:
        return lambda node_id: server.project.put(node_id, status)

    try:
        yield CloudFixture(
            open=open_cloud,
            listing_through=lambda change: method_through(GceWire, "instances", change),
            # An instance that was deleted is not listed any more, so none is terminated.
            states={
                CloudState.PENDING: put("STAGING"),
                CloudState.RUNNING: put("RUNNING"),
                CloudState.STOPPING: put("SUSPENDING"),
                CloudState.STOPPED: put("TERMINATED"),
                CloudState.UNKNOWN: put("REPAIRING"),
            },
            pin=lambda node: {(LeftoverKind.VOLUME, gce_helpers.add_disk(server, node))},
            by_hand=lambda: gce_helpers.by_hand(server),
            unknown_id="1234567890123456789",
        )
        assert server.wrong == []
    finally:
        for cloud in opened:
            cloud.close()
        server.reset()


@contextmanager
def openstack_cloud(_tmp_path: Path) -> Iterator[CloudFixture]:
    server = openstack_server.shared()
    server.reset()
    server.nova.max_limit = server.things.max_limit = 2
    opened: list[CloudDriver] = []

    def open_cloud(pool: str) -> CloudDriver:
        opened.append(openstack_helpers.cloud(server, pool=pool))
        return opened[-1]

    def put(status: str) -> Callable[[str], None]:
        return lambda node_id: server.nova.put(node_id, status)

    try:
        yield CloudFixture(
            open=open_cloud,
            listing_through=lambda change: method_through(OpenStackWire, "servers", change),
            # A server that was deleted is not known any more, so none is terminated.
            states={
                CloudState.PENDING: put("BUILD"),
                CloudState.RUNNING: put("ACTIVE"),
                CloudState.STOPPING: put("SOFT_DELETED"),
                CloudState.STOPPED: put("SHUTOFF"),
                CloudState.UNKNOWN: put("UNKNOWN"),
            },
            pin=lambda node: openstack_helpers.pin(server, node),
            by_hand=lambda: openstack_helpers.by_hand(server),
            unknown_id="6695eb01-0000-4000-8000-97f2502e193f",
        )
    finally:
        for cloud in opened:
            cloud.close()
        server.reset()


@contextmanager
def libvirt_cloud(_tmp_path: Path) -> Iterator[CloudFixture]:
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
    "openstack": openstack_cloud,
    "libvirt": libvirt_cloud,
}

REAL = "real-openstack"
"""There while `make openstack` runs its tests."""
if CLOUD_FILE in os.environ:
    # It needs CloudFixture.
    from tests.openstack.contract import real_openstack

    CLOUDS[REAL] = real_openstack

NEED = frozenset({"libvirt"})
"""The clouds that need the server of their name (tests/conftest.py)."""
