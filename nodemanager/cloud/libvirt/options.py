"""The options of a libvirt file's own sections, and the settings that they are read into.

Reports every problem at once.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from xml.etree import ElementTree

from nodemanager.cloud import declared
from nodemanager.cloud.declared import (
    CREATE,
    CREDENTIALS,
    LIST,
    CloudConfig,
    CloudOption,
    Passed,
    SectionReader,
    Sections,
    option,
    passed,
    whole,
)
from nodemanager.cloud.libvirt.devices import Devices, parse


def _whole_or_none(value: str) -> int:
    return 0 if value == "0" else whole(value)


def _domain_xml(path: str) -> str:
    text = declared.file(path)
    try:
        root = ElementTree.fromstring(text)  # noqa: S314  # the operator's own file
    except ElementTree.ParseError as error:
        raise ValueError(f"can't be read: {error}") from error
    if root.tag != "domain":
        raise ValueError(f"its outermost element is <{root.tag}>, not <domain>")
    return text


@dataclass(frozen=True, slots=True)
class Credentials:
    """`[Cloud Credentials]` as the file has it."""

    uri: str = option(
        str,
        "qemu:///system",
        default="",
        missing="is missing: the hypervisor, such as qemu:///system, "
        "qemu+ssh://root@HOST/system?no_tty=1 or qemu+tls://HOST/system",
    )
    """The hypervisor: qemu:///system is this machine's, qemu+tls://HOST/system or
    qemu+ssh://USER@HOST/system?no_tty=1 another's. Must be given."""
    key: str | None = option(str, "nodemanager")
    """The user, only for a +tcp uri."""
    secret: str | None = option(str, "...")
    """The user's password; secret_file = PATH reads it from a file."""
    timeout: float | None = option(declared.number, "60")
    """How many seconds one of libvirt's calls may take. libvirt has no time-outs: one that hangs is
    given up, and at most 16 can hang at a time."""


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
    `os_memory` beyond it.
    """

    image: str = option(
        str,
        "node-image.qcow2",
        default="",
        missing="is missing: the volume that nodes boot from, by its name in storage_pool, or by "
        "its path in any storage pool",
    )
    """The volume that nodes boot from, by its name in storage_pool, or by its path in any active
    storage pool. Nodes never write to it. Must be given. To have idle nodes replaced, name another
    one, and restart."""
    storage_pool: str = option(str, default="default")
    """The storage pool that the nodes' own volumes are made in. In a pool of files (dir, fs, netfs)
    a boot volume holds only its changes, so never change the image; in a logical pool it is a full
    copy, which must be done within timeout. Others are refused."""
    network: str | None = option(str, "default")
    """The libvirt network that nodes are in, by default `default`."""
    bridge: str | None = option(str, "br0")
    """The host's bridge that nodes are on, instead of a network."""
    disk: int | None = option(whole, "20000")
    """The size of the boot volume, in MB, where the image is smaller."""
    vcpus: int = option(whole, "1", default=1)
    """The cores of the size `default`, for a file without any [Size NAME]."""
    memory: int = option(whole, "1024", default=1024)
    """The memory of that size, in MB."""
    os_memory: int = option(_whole_or_none, "512", default=512)
    """The memory, in MB, that a node gets beyond [Size NAME] ram, for its operating system."""
    host_devices: tuple[Devices, ...] = option(
        parse, "0000:65:00.0+0000:65:00.1, 0000:66:00.0", default=()
    )
    """The host's PCI devices that nodes get, such as GPUs, as lspci -D shows them, separated by
    commas: each node gets the first that no domain has. A plus joins what one node gets. Set
    max_nodes to their number. libvirt takes each from its driver, which needs an IOMMU."""
    domain_xml: str | None = option(_domain_xml, "/etc/nodemanager/domain.xml")
    """A file with a libvirt domain that every node is like: machine, processor, devices. Its name,
    uuid, memory, vcpu, tags and our disks are filled in, and an interface if it has none or network
    or bridge is given."""
    firmware: Passed = passed({"bios|efi": "firmware"}, "bios or efi", "efi")
    """What starts the node's system; a node with efi is a machine of the type q35."""
    secure_boot: Passed = passed({"yes|no": "secure-boot"}, "yes or no", "yes")
    """Whether efi starts signed systems alone; by default as the host's first firmware does."""


OWN = declared.options_of(Template)
SECTIONS: Mapping[str, Mapping[str, CloudOption]] = {
    CREDENTIALS: declared.options_of(Credentials),
    LIST: {},
    CREATE: {
        "ping_host": declared.PING_HOST,
        **OWN,
        "user_data": declared.USER_DATA,
    },
}


def read(config: CloudConfig, timeout: float) -> tuple[Access, Template]:
    """The settings of the sections. Raises ConfigError with every problem."""
    given = Sections.of(config, SECTIONS)
    found = Credentials(**given.credentials.read())
    uri, key, secret = found.uri, found.key, found.secret
    if (key is None) != (secret is None) or ("+tcp" in uri and key is None):
        given.credentials.wrong("key", "a +tcp uri needs key and secret; others take none")
    access = Access(uri, found.timeout or timeout, key, secret)
    template = _template(given.create)
    given.check()
    return access, template


def _template(given: SectionReader) -> Template:
    template = Template(**given.read(OWN))
    if template.network and template.bridge:
        given.wrong("bridge", "contradicts network: give one of them", template.bridge)
    if given.text("domain_xml"):
        for key in {"firmware", "secure_boot"} & given.values.keys():
            given.wrong(key, "contradicts domain_xml: give it there")
    if given.text("secure_boot") and given.text("firmware") != "efi":
        given.wrong("secure_boot", "needs firmware = efi")
    return template
