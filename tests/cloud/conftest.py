"""The servers that these tests talk to."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import pytest

from tests.cloud.json_http import CloudServer
from tests.cloud.pings import PingServer, ping_server

if TYPE_CHECKING:
    from tests.cloud.azure.server import AzureServer
    from tests.cloud.ec2.moto_server import MotoServer
    from tests.cloud.gce.server import GceServer
    from tests.cloud.openstack.server import OpenStackServer


HERE = Path(__file__).parent
SERVERS = frozenset({"pings", "server", "gce", "azure", "openstack"})


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """What asks one of these servers opens a socket: `--quick` leaves it out."""
    for item in items:
        asks = not SERVERS.isdisjoint(getattr(item, "fixturenames", ()))
        if asks and item.path.is_relative_to(HERE):
            item.add_marker("socket")


@pytest.fixture
def pings() -> Iterator[PingServer]:
    with ping_server() as server:
        yield server


S = TypeVar("S", bound=CloudServer)


def as_new(server: S) -> Iterator[S]:
    """The cloud as new; no request and no answer of the test may contradict the vendor's own
    description of its API."""
    server.reset()
    yield server
    assert server.wrong == []


@pytest.fixture
def server() -> Iterator[MotoServer]:
    """EC2's API."""
    # Moto takes seconds to import, and most files here do without.
    from tests.cloud.ec2.moto_server import shared

    yield from as_new(shared())


@pytest.fixture
def gce() -> Iterator[GceServer]:
    """Google's compute API."""
    from tests.cloud.gce.server import shared

    yield from as_new(shared())


@pytest.fixture
def azure() -> Iterator[AzureServer]:
    """Azure Resource Manager."""
    from tests.cloud.azure.server import shared

    yield from as_new(shared())


@pytest.fixture
def openstack() -> Iterator[OpenStackServer]:
    """An OpenStack cloud."""
    from tests.cloud.openstack.server import shared

    yield from as_new(shared())


@pytest.fixture
def hypervisor() -> Iterator[Any]:
    """Another's connection to libvirt's test driver."""
    from tests.cloud.libvirt import driver

    with driver.hypervisor() as connection:
        yield connection
