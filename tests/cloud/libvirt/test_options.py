"""What a libvirt file may say, and what is told of one that can't be used."""

from __future__ import annotations

from pathlib import Path

import pytest

from nodemanager.cloud.libvirt.options import read
from nodemanager.errors import ConfigError

URI = {"uri": "qemu:///system"}
IMAGE = {"image": "node.qcow2"}


def problems(credentials: dict[str, str], create: dict[str, str]) -> list[str]:
    with pytest.raises(ConfigError) as caught:
        read(credentials, create, 60)
    return caught.value.problems


def test_a_hypervisor_and_an_image_are_enough() -> None:
    access, template = read(URI, IMAGE, 60)
    assert (access.uri, access.timeout, access.key) == ("qemu:///system", 60, None)
    assert (template.image, template.storage_pool, template.disk) == ("node.qcow2", "default", None)


def test_every_problem_is_told_at_once() -> None:
    given = {"network": "a", "bridge": "b", "disk": "0", "memory": "much", "vcpus": "1.5"}
    told = problems({}, given)
    places = [line.partition(": ")[0] for line in told]
    assert places == [
        "[Cloud Credentials] uri",
        "[Cloud Create] image",
        "[Cloud Create] bridge = b",
        "[Cloud Create] disk = 0",
        "[Cloud Create] vcpus = 1.5",
        "[Cloud Create] memory = much",
    ]
    assert "qemu:///system" in told[0]


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
    assert "hunter2" not in repr(read(given, IMAGE, 60))
