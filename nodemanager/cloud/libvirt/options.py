"""The pass-through sections of a libvirt file, read into settings.

doc/libvirt.rst has a row for each key. Reports every problem at once.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from xml.etree import ElementTree

from nodemanager.cloud.cloud_config import CloudConfig
from nodemanager.cloud.libvirt.devices import Devices, parse
from nodemanager.cloud.passed import Passed
from nodemanager.cloud.passed import read as read_passed
from nodemanager.cloud.section_reader import CREATE, CREDENTIALS, LIST, SectionReader, Sections

PASSED: Mapping[str, Passed] = {
    "firmware": Passed(
        {"bios|efi": "firmware"},
        "bios or efi",
        "What starts the node's system; a node with efi is a machine of the type q35.",
        "efi",
    ),
    "secure_boot": Passed(
        {"yes|no": "secure-boot"},
        "yes or no",
        "Whether efi starts signed systems alone; by default as the host's first firmware does.",
        "yes",
    ),
}
"""By libvirt's attribute of `<os>`, and its name of a firmware's feature."""

ACCEPTED: Mapping[str, frozenset[str]] = {
    CREDENTIALS: frozenset({"key", "secret", "timeout", "uri"}),
    LIST: frozenset(),
    CREATE: frozenset(
        {
            "bridge",
            "disk",
            "domain_xml",
            "host_devices",
            "image",
            "memory",
            "network",
            "os_memory",
            "ping_host",
            "storage_pool",
            "user_data",
            "vcpus",
        }
    )
    | PASSED.keys(),
}
"""The keys that each section takes."""


@dataclass(frozen=True, slots=True)
class Access:
    """`[Cloud Credentials]`: the hypervisor, and how many seconds one call to it may take."""

    uri: str
    timeout: float
    key: str | None = None
    secret: str | None = field(default=None, repr=False)


@dataclass(frozen=True, slots=True)
class Template:
    """`[Cloud Create]`: what all new nodes have in common. Sizes are in MB.

    `vcpus` and `memory` are the size `default`. A node of a `[Size]` section that gives `ram` has
    `os_memory` beyond it. `disk` None leaves the boot volume as large as the image.
    """

    image: str
    storage_pool: str = "default"
    network: str | None = None
    bridge: str | None = None
    disk: int | None = None
    vcpus: int = 1
    memory: int = 1024
    os_memory: int = 512
    host_devices: tuple[Devices, ...] = ()
    """PCI devices; each node gets the first of these that no domain has."""
    passed: Mapping[str, str] = field(default_factory=dict)
    """By what it is for libvirt; see PASSED."""
    domain_xml: str | None = None


def read(config: CloudConfig, timeout: float) -> tuple[Access, Template]:
    """The settings of the sections. Raises ConfigError with every problem."""
    given = Sections.of(config)
    access = _access(given.credentials, timeout)
    template = _template(given.create)
    given.check()
    return access, template


def _access(given: SectionReader, timeout: float) -> Access:
    uri, key, secret = (given.text(name) for name in ("uri", "key", "secret"))
    if uri is None:
        given.wrong(
            "uri",
            "is missing: the hypervisor, such as qemu:///system, "
            "qemu+ssh://root@HOST/system?no_tty=1 or qemu+tls://HOST/system",
        )
    needs_both = uri is not None and "+tcp" in uri
    if (key is None) != (secret is None) or (needs_both and key is None):
        given.wrong("key", "a +tcp uri needs key and secret; others take none")
    return Access(uri or "", given.number("timeout") or timeout, key, secret)


def _template(given: SectionReader) -> Template:
    image = given.text("image")
    if image is None:
        given.wrong(
            "image",
            "is missing: the volume that nodes boot from, by its name in storage_pool, or by its "
            "path in any storage pool",
        )
    network, bridge = given.text("network"), given.text("bridge")
    if network and bridge:
        given.wrong("bridge", "contradicts network: give one of them", bridge)
    domain_xml = given.text("domain_xml")
    passed = read_passed(given, PASSED)
    if domain_xml is not None:
        for key in PASSED.keys() & given.values.keys():
            given.wrong(key, "contradicts domain_xml: give it there")
    if given.text("secure_boot") and given.text("firmware") != "efi":
        given.wrong("secure_boot", "needs firmware = efi")
    return Template(
        image=image or "",
        storage_pool=given.text("storage_pool") or "default",
        network=network,
        bridge=bridge,
        disk=_whole(given, "disk", 0) or None,
        vcpus=_whole(given, "vcpus", 1),
        memory=_whole(given, "memory", 1024),
        os_memory=_whole(given, "os_memory", 512),
        host_devices=_host_devices(given),
        passed=passed,
        domain_xml=None if domain_xml is None else _domain_xml(given, domain_xml),
    )


def _whole(given: SectionReader, key: str, otherwise: int) -> int:
    written = given.text(key)
    if written is None:
        return otherwise
    if not written.isdecimal() or (int(written) == 0 and key != "os_memory"):
        given.wrong(key, "not a whole number above zero", written)
        return otherwise
    return int(written)


def _host_devices(given: SectionReader) -> tuple[Devices, ...]:
    text = given.text("host_devices") or ""
    try:
        return parse(text)
    except ValueError as error:
        given.wrong("host_devices", str(error), text)
        return ()


def _domain_xml(given: SectionReader, path: str) -> str | None:
    """The text of the file; None where it is no domain."""
    try:
        text = Path(path).read_text(encoding="utf-8")
        root = ElementTree.fromstring(text)  # noqa: S314  # the operator's own file
    except (OSError, UnicodeDecodeError, ElementTree.ParseError) as error:
        given.wrong("domain_xml", f"can't be read: {error}", path)
        return None
    if root.tag != "domain":
        given.wrong("domain_xml", f"its outermost element is <{root.tag}>, not <domain>", path)
        return None
    return text
