"""What a libvirt file may say, and what is told of one that can't be used."""

from __future__ import annotations

from pathlib import Path

import pytest

from nodemanager.cloud.libvirt import options
from nodemanager.cloud.libvirt.options import Access, Template
from nodemanager.errors import ConfigError
from tests.cloud.cloud_config import cloud_config

URI = {"uri": "qemu:///system"}
IMAGE = {"image": "node.qcow2"}


def read(credentials: dict[str, str], create: dict[str, str]) -> tuple[Access, Template]:
    return options.read(cloud_config(credentials=credentials, create=create), 60)


def problems(credentials: dict[str, str], create: dict[str, str]) -> list[str]:
    with pytest.raises(ConfigError) as caught:
        read(credentials, create)
    return caught.value.problems


def test_a_hypervisor_and_an_image_are_enough() -> None:
    access, template = read(URI, IMAGE)
    assert (access.uri, access.timeout, access.key) == ("qemu:///system", 60, None)
    assert (template.image, template.storage_pool, template.disk) == ("node.qcow2", "default", None)


def test_every_problem_is_told_at_once() -> None:
    given = {"network": "a", "bridge": "b", "disk": "0", "memory": "much", "vcpus": "1.5"}
    told = problems({}, given)
    places = [line.partition(": ")[0] for line in told]
    assert places == [
        "[Cloud Credentials] uri",
        "[Cloud Create] image",
        "[Cloud Create] disk = 0",
        "[Cloud Create] vcpus = 1.5",
        "[Cloud Create] memory = much",
        "[Cloud Create] bridge = b",
    ]
    assert "qemu:///system" in told[0]


def test_host_devices_are_read_as_lspci_shows_them() -> None:
    given = {"host_devices": "65:00.0 + 0000:65:00.1, 0001:C1:1f.7,"}
    _, template = read(URI, IMAGE | given)
    assert template.host_devices == (("0000:65:00.0", "0000:65:00.1"), ("0001:c1:1f.7",))


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("65:00", "'65:00' is no PCI address"),
        ("65:20.0", "'65:20.0' is no PCI address"),
        ("65:00.0+", "'' is no PCI address"),
        ("65:00.0, 0000:65:00.0", "0000:65:00.0 is there twice"),
        ("65:00.0+65:00.0", "0000:65:00.0 is there twice"),
    ],
)
def test_what_is_no_device_is_told(text: str, why: str) -> None:
    [told] = problems(URI, IMAGE | {"host_devices": text})
    assert told.startswith(f"[Cloud Create] host_devices = {text}: {why}")


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"firmware": "uefi"}, "firmware = uefi: not bios or efi"),
        ({"secure_boot": "yes"}, "secure_boot: needs firmware = efi"),
        ({"secure_boot": "yes", "firmware": "bios"}, "secure_boot: needs firmware = efi"),
    ],
)
def test_firmware_that_can_not_be_is_told(given: dict[str, str], told: str) -> None:
    assert f"[Cloud Create] {told}" in problems(URI, IMAGE | given)


def test_an_operator_s_own_domain_says_its_firmware_itself(tmp_path: Path) -> None:
    path = tmp_path / "domain.xml"
    path.write_text("<domain/>")
    [told] = problems(URI, IMAGE | {"domain_xml": str(path), "firmware": "efi"})
    assert told == "[Cloud Create] firmware: contradicts domain_xml: give it there"


@pytest.mark.parametrize(
    "credentials",
    [
        {"uri": "qemu+tcp://host/system"},
        {"uri": "qemu+tcp://host/system", "key": "me"},
        {"uri": "qemu:///system", "secret": "x"},
    ],
)
def test_user_and_password_go_together(credentials: dict[str, str]) -> None:
    [told] = problems(credentials, IMAGE)
    assert told.startswith("[Cloud Credentials] key: ")


@pytest.mark.parametrize(
    ("text", "told"),
    [(None, "can't be read"), ("<domain>", "can't be read"), ("<network/>", "<network>")],
)
def test_a_domain_that_is_none_is_told(tmp_path: Path, text: str | None, told: str) -> None:
    path = tmp_path / "domain.xml"
    if text is not None:
        path.write_text(text)
    [problem] = problems(URI, {**IMAGE, "domain_xml": str(path)})
    assert problem.startswith(f"[Cloud Create] domain_xml = {path}: ")
    assert told in problem


def test_the_password_is_in_no_repr() -> None:
    given = {"uri": "qemu+tcp://host/system", "key": "me", "secret": "hunter2"}
    assert "hunter2" not in repr(read(given, IMAGE))
