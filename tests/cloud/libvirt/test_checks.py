"""What `check-cloud` asks a hypervisor: whether we may, and room for a node."""

from __future__ import annotations

from contextlib import closing
from typing import Any

import pytest

from nodemanager.cloud.checks import CheckStatus, Found, Wanted
from nodemanager.core.model.world import Size
from tests.cases import cases
from tests.cloud.asking import asked
from tests.cloud.libvirt import driver as libvirt_driver
from tests.cloud.libvirt.driver import Uploading
from tests.fakes.clock import ManualClock

pytestmark = pytest.mark.server("libvirt")

SMALL = Size("small", "small", cores=1, ram_mb=512, scratch_mb=1000, ram_is_given=True)
HOST_MB = 3072
"""The memory of libvirt's test host."""


def answers(*sizes: Size, **create: str) -> dict[str, Found]:
    with closing(libvirt_driver.cloud(ManualClock(), **create)) as cloud:
        return asked(cloud, Wanted("mine", sizes or (SMALL,)))


def test_where_all_is_well_every_check_says_so_and_nothing_is_made(hypervisor: Any) -> None:
    before = [one.name() for one in hypervisor.listAllDomains()]
    found = answers()
    assert {name: one for name, one in found.items() if one.mark is not CheckStatus.FINE} == {}
    assert [one.name() for one in hypervisor.listAllDomains()] == before
    assert libvirt_driver.volumes(hypervisor) == []


class ReadOnly(Uploading):
    """The same hypervisor on a connection that may only read."""

    def ex_live(self) -> Any:
        import libvirt

        if self.connection is None:
            self.connection = libvirt.openReadOnly(libvirt_driver.URI)
        return self.connection


def test_a_connection_that_may_only_read_is_told(hypervisor: Any) -> None:
    found = answers(driver_class=f"{__name__}.ReadOnly")
    assert {name for name, one in found.items() if one.mark is not CheckStatus.FINE} == {
        "permission to change"
    }
    assert found["permission to change"].mark is CheckStatus.FAILED
    assert "group libvirt" in found["permission to change"].to_do


# Room.


@cases(
    ("cores", "ram_mb", "mark"),
    {
        "all-of-the-host": (16, HOST_MB - 512, CheckStatus.FINE),
        "more-cores": (17, 512, CheckStatus.WARNING),
        "more-memory": (1, HOST_MB, CheckStatus.FAILED),
    },
)
def test_one_node_must_fit_on_the_host(
    hypervisor: Any, cores: int, ram_mb: int, mark: CheckStatus
) -> None:
    found = answers(Size("big", "big", cores, ram_mb, ram_is_given=True))["room for big"]
    assert found.mark is mark
    assert f"{ram_mb + 512} MB" in found.text
