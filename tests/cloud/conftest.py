"""The servers that these tests talk to."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

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


@pytest.fixture
def server() -> Iterator[MotoServer]:
    """EC2's API, an account as new. No request and no answer contradicts Amazon's own
    description."""
    # Moto takes seconds to import, and most files here do without.
    from tests.cloud.ec2.moto_server import shared

    moto = shared()
    moto.reset()
    yield moto
    assert moto.wrong == []


@pytest.fixture
def gce() -> Iterator[GceServer]:
    """Google's compute API, a project as new. No request and no answer contradicts Google's own
    description."""
    from tests.cloud.gce.server import shared

    google = shared()
    google.reset()
    yield google
    wrong = google.wrong
    google.reset()
    assert wrong == []


@pytest.fixture
def azure() -> Iterator[AzureServer]:
    """Azure Resource Manager, a subscription as new. No request and no answer contradicts Azure's
    own description."""
    from tests.cloud.azure.server import shared

    server = shared()
    server.reset()
    yield server
    wrong = server.wrong
    server.reset()
    assert wrong == []


@pytest.fixture
def openstack() -> Iterator[OpenStackServer]:
    """An OpenStack cloud, a project as new. No body and no answer has what OpenStack's own
    description does not know."""
    from tests.cloud.openstack.server import shared

    server = shared()
    server.reset()
    yield server
    wrong = server.wrong
    server.reset()
    assert wrong == []
