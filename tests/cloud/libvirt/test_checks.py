"""What `check-cloud` asks a hypervisor: its storage, image, and room for a node."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import Any

import pytest

from nodemanager.cloud.checks import CheckStatus, Found, Wanted
from nodemanager.core.model.world import Size
from tests.cloud.asking import asked
from tests.cloud.libvirt import driver as libvirt_driver
from tests.cloud.libvirt.driver import IMAGE, POOL, Uploading
from tests.fakes.clock import ManualClock

pytestmark = pytest.mark.server("libvirt")

SMALL = Size("small", "small", cores=1, ram_mb=512, scratch_mb=1000, ram_is_given=True)
HOST_MB = 3072
"""The memory of libvirt's test host."""
OTHER_POOL = """<pool type='{type}'><name>other</name><source><name>other</name></source>
    <target><path>/other</path></target></pool>"""


@pytest.fixture
def hypervisor() -> Iterator[Any]:
    with libvirt_driver.hypervisor() as connection:
        yield connection


def answers(*sizes: Size, **create: str) -> dict[str, Found]:
    with closing(libvirt_driver.cloud(ManualClock(), **create)) as cloud:
        return asked(cloud, Wanted("mine", sizes or (SMALL,)))


@contextmanager
def pool_of(hypervisor: Any, kind: str, *, active: bool = True) -> Iterator[Any]:
    """Another storage pool, with an image in it."""
    made = hypervisor.storagePoolDefineXML(OTHER_POOL.format(type=kind))
    made.setAutostart(1)
    made.create()
    made.createXML(libvirt_driver.IMAGE_XML)
    if not active:
        made.destroy()
    try:
        yield made
    finally:
        if made.isActive():
            made.storageVolLookupByName(IMAGE).delete()
            made.destroy()
        made.undefine()


def test_where_all_is_well_every_check_says_so_and_nothing_is_made(hypervisor: Any) -> None:
    before = [one.name() for one in hypervisor.listAllDomains()]
    found = answers()
    assert {name: one for name, one in found.items() if one.mark is not CheckStatus.FINE} == {}
    assert found["hypervisor"].text.startswith("test:///default, host ")
    assert found["image id"].text.endswith(f"key /{POOL}/{IMAGE}, 100 MB")
    assert [one.name() for one in hypervisor.listAllDomains()] == before
    assert libvirt_driver.volumes(hypervisor) == []


class ReadOnly(Uploading):
    """The same hypervisor on a connection that may only read."""

    def ex_live(self) -> Any:
        import libvirt

        if self.connection is None:
            self.connection = libvirt.openReadOnly(libvirt_driver.URI)
        return self.connection


def test_a_connection_that_may_only_read_is_told(
    hypervisor: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(libvirt_driver, "DRIVER", f"{__name__}.ReadOnly")
    found = answers()
    assert {name for name, one in found.items() if one.mark is not CheckStatus.FINE} == {
        "permission to change"
    }
    assert found["permission to change"].mark is CheckStatus.FAILED
    assert "group libvirt" in found["permission to change"].to_do


def test_an_error_of_one_check_stops_no_other(hypervisor: Any) -> None:
    found = answers(storage_pool="nowhere")
    failed = {name for name, one in found.items() if one.mark is CheckStatus.FAILED}
    assert failed == {"storage pool", "image id"}
    assert "pool-list" in found["storage pool"].to_do
    assert found["room for small"].mark is CheckStatus.FINE


# What nodes are made of.


def test_a_host_without_kvm_is_slow(monkeypatch: pytest.MonkeyPatch, hypervisor: Any) -> None:
    from nodemanager.cloud.libvirt import checks

    plain = """<capabilities><host><cpu><arch>x86_64</arch></cpu></host><guest>
        <os_type>hvm</os_type><arch name='x86_64'><domain type='qemu'/>{kvm}</arch></guest>
        </capabilities>"""
    ask = checks.best_guest
    told = plain.format(kvm="")
    monkeypatch.setattr(checks, "best_guest", lambda _capabilities: ask(told))
    assert answers()["virtualisation"].mark is CheckStatus.WARNING
    told = plain.format(kvm="<domain type='kvm'/>")
    assert answers()["virtualisation"] == Found("kvm on x86_64")


def test_a_storage_pool_that_does_not_run_is_told(hypervisor: Any) -> None:
    with pool_of(hypervisor, "dir", active=False):
        found = answers(storage_pool="other")
    assert found["storage pool"].mark is CheckStatus.FAILED
    assert found["storage pool"].to_do == "start it: virsh pool-start other"


def test_a_storage_pool_of_an_unknown_type_is_told(hypervisor: Any) -> None:
    with pool_of(hypervisor, "mpath"):
        assert answers(storage_pool="other")["storage pool"].mark is CheckStatus.FAILED


def test_what_does_not_come_back_with_the_host_is_a_warning(hypervisor: Any) -> None:
    hypervisor.storagePoolLookupByName(POOL).setAutostart(0)
    found = answers()["storage pool"]
    assert (found.mark, found.to_do) == (CheckStatus.WARNING, f"virsh pool-autostart {POOL}")


def test_an_image_that_is_not_there_is_told(hypervisor: Any) -> None:
    found = answers(image="nothing.qcow2")["image id"]
    assert found.mark is CheckStatus.FAILED
    assert "nothing.qcow2" in found.text


# Room.


@pytest.mark.parametrize(
    ("cores", "ram_mb", "mark"),
    [
        pytest.param(16, HOST_MB - 512, CheckStatus.FINE, id="all-of-the-host"),
        pytest.param(17, 512, CheckStatus.WARNING, id="more-cores"),
        pytest.param(1, HOST_MB, CheckStatus.FAILED, id="more-memory"),
    ],
)
def test_one_node_must_fit_on_the_host(
    hypervisor: Any, cores: int, ram_mb: int, mark: CheckStatus
) -> None:
    found = answers(Size("big", "big", cores, ram_mb, ram_is_given=True))["room for big"]
    assert found.mark is mark
    assert f"{ram_mb + 512} MB" in found.text
