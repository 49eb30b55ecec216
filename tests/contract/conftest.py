"""The stores and the clouds' servers that these tests are about."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from tests.cloud.azure.site import AzureSite
from tests.cloud.ec2.site import Ec2Site
from tests.cloud.gce.site import GceSite
from tests.cloud.openstack.site import OpenStackSite
from tests.cloud.site import CloudSite
from tests.contract.nodes_api import Api, serving
from tests.contract.stores import Backend, open_backend

SITES = {"ec2": Ec2Site, "gce": GceSite, "azure": AzureSite, "openstack": OpenStackSite}


@pytest.fixture
def backend(request: pytest.FixtureRequest) -> Iterator[Backend]:
    with open_backend(request.param, request) as opened:
        yield opened


@pytest.fixture(params=SITES)
def site(request: pytest.FixtureRequest) -> Iterator[CloudSite]:
    with closing(SITES[request.param]()) as opened:
        yield opened


@pytest.fixture
def api(tmp_path: Path) -> Iterator[Api]:
    with serving(f"sqlite:///{tmp_path}/registry.db") as api:
        yield api
