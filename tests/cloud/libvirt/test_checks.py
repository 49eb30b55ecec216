"""What `check-cloud` asks a hypervisor: its storage, image, network, and room for the nodes."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import Any

import mock
import pytest

from nodemanager.cloud.checks import CheckStatus, Found, Wanted
from nodemanager.core.model.world import Size
from tests.cloud.asking import asked
from tests.cloud.libvirt import driver as libvirt_driver
from tests.cloud.libvirt.driver import IMAGE, NETWORK, POOL, Uploading, by_hand
from tests.fakes.clock import ManualClock

pytestmark = pytest.mark.server("libvirt")

SMALL = Size("small", "small", cores=1, ram_mb=512, scratch_mb=1000, ram_is_given=True)
HOST_MB, USED_MB = 3072, 2048
"""The memory of libvirt's test host, and of the domain that runs on it."""
OTHER_POOL = """<pool type='{type}'><name>other</name><source><name>other</name></source>
    <target><path>/other</path></target></pool>"""
BIG_MB = 150_000


@pytest.fixture
def hypervisor() -> Iterator[Any]:
    with libvirt_driver.hypervisor() as connection:
        yield connection


def answers(
    *sizes: Size, max_nodes: int = 1, nodes: tuple[str, ...] = (), **create: str
) -> dict[str, Found]:
    with closing(libvirt_driver.cloud(ManualClock(), **create)) as cloud:
        return asked(cloud, Wanted("mine", sizes or (SMALL,), max_nodes, nodes))


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
    found = answers(storage_pool="nowhere", network="nowhere")
    failed = {name for name, one in found.items() if one.mark is CheckStatus.FAILED}
    assert failed == {"storage pool", "image id", "network", "storage space"}
    assert "pool-list" in found["storage pool"].to_do
    assert found["host memory"].mark is CheckStatus.FINE


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
    hypervisor.networkLookupByName(NETWORK).setAutostart(0)
    found = answers()
    assert found["storage pool"].mark is found["network"].mark is CheckStatus.WARNING
    assert found["storage pool"].to_do == f"virsh pool-autostart {POOL}"
    assert found["network"].to_do == f"virsh net-autostart {NETWORK}"


def test_an_image_that_is_not_there_is_told(hypervisor: Any) -> None:
    found = answers(image="nothing.qcow2")["image id"]
    assert found.mark is CheckStatus.FAILED
    assert "nothing.qcow2" in found.text


def test_a_network_that_is_not_active_is_told(hypervisor: Any) -> None:
    made = hypervisor.networkDefineXML("<network><name>off</name></network>")
    try:
        found = answers(network="off")["network"]
    finally:
        made.undefine()
    assert found.mark is CheckStatus.FAILED
    assert found.to_do == "virsh net-start off"


def test_a_bridge_can_t_be_asked_for(hypervisor: Any) -> None:
    found = answers(bridge="br0")
    assert found["bridge"].mark is CheckStatus.NOT_ASKED
    assert "network" not in found


def test_the_network_of_a_domain_of_one_s_own_is_not_guessed(
    hypervisor: Any, tmp_path: Any
) -> None:
    path = tmp_path / "domain.xml"
    path.write_text("<domain><devices/></domain>")
    assert answers(domain_xml=str(path))["network"].mark is CheckStatus.NOT_ASKED
    assert answers(domain_xml=str(path), network=NETWORK)["network"].mark is CheckStatus.FINE


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


@pytest.mark.parametrize(
    ("ram_mb", "max_nodes", "mark"),
    [
        pytest.param(512, 2, CheckStatus.FINE, id="just-enough"),
        pytest.param(512, 3, CheckStatus.WARNING, id="one-too-few"),
        pytest.param(1025, 1, CheckStatus.FAILED, id="not-even-one"),
    ],
)
def test_memory_is_what_running_domains_leave(
    hypervisor: Any, ram_mb: int, max_nodes: int, mark: CheckStatus
) -> None:
    size = Size("size", "size", 1, ram_mb)
    found = answers(size, max_nodes=max_nodes)["host memory"]
    assert found.mark is mark
    assert found.text.startswith(f"{USED_MB} of {HOST_MB} MB used")


def test_a_domain_that_runs_takes_memory_and_one_that_does_not_takes_none(
    hypervisor: Any,
) -> None:
    domain = hypervisor.lookupByUUIDString(by_hand(hypervisor))
    assert answers()["host memory"].text.startswith(f"{USED_MB + 64} of")
    kept = hypervisor.defineXML(domain.XMLDesc())
    domain.destroy()
    assert not kept.isActive()
    assert answers()["host memory"].text.startswith(f"{USED_MB} of")


@pytest.mark.parametrize(
    ("kind", "said"),
    [
        pytest.param("dir", CheckStatus.WARNING, id="files-grow"),
        pytest.param("logical", CheckStatus.FAILED, id="devices-are-whole"),
    ],
)
def test_a_pool_that_can_t_hold_one_node_s_volumes_is_told(
    hypervisor: Any, kind: str, said: CheckStatus
) -> None:
    large = Size("large", "large", 1, 512, scratch_mb=BIG_MB)
    with pool_of(hypervisor, kind):
        found = answers(large, storage_pool="other")["storage space"]
        assert found.mark is said
        assert "room for 0 more large" in found.text
        assert found.to_do
        assert answers(storage_pool="other")["storage space"].mark is CheckStatus.FINE


def test_a_larger_boot_volume_counts(hypervisor: Any) -> None:
    # 102400 MB, less those of the image.
    found = answers(SMALL, disk="20000")["storage space"].text
    assert "room for 4 more small" in found


class WithGpus(Uploading):
    """The host has two PCI devices, which libvirt's test driver can't."""

    def ex_live(self) -> Any:
        live = super().ex_live()
        found = mock.Mock(wraps=live)

        def lookup(name: str) -> Any:
            if name in ("pci_0000_65_00_0", "pci_0000_66_00_0"):
                return object()
            return live.nodeDeviceLookupByName(name)

        found.nodeDeviceLookupByName = lookup
        return found


def test_devices_that_the_host_lacks_are_told(hypervisor: Any) -> None:
    found = answers(host_devices="65:00.0, 66:00.0")["host devices"]
    assert found.mark is CheckStatus.FAILED
    assert found.text == "the host has no 0000:65:00.0, 0000:66:00.0"
    assert "host devices" not in answers()


def test_devices_are_counted_against_max_nodes(
    hypervisor: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(libvirt_driver, "DRIVER", f"{__name__}.WithGpus")
    found = answers(max_nodes=3, host_devices="65:00.0, 66:00.0")["host devices"]
    assert found.mark is CheckStatus.WARNING
    assert found.text.startswith("0 of 2 used: room for 2 more small")
    assert answers(max_nodes=2, host_devices="65:00.0, 66:00.0")["host devices"].mark is (
        CheckStatus.FINE
    )
