"""The pass-through sections of a libvirt file, read into settings.

doc/libvirt.rst has a row for each key. Reports every problem at once.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from xml.etree import ElementTree

from nodemanager.cloud.section_reader import CREATE, CREDENTIALS, LIST
from nodemanager.errors import ConfigError

ACCEPTED: Mapping[str, frozenset[str]] = {
    CREDENTIALS: frozenset({"key", "secret", "timeout", "uri"}),
    LIST: frozenset(),
    CREATE: frozenset(
        {
            "bridge",
            "disk",
            "domain_xml",
            "image",
            "memory",
            "network",
            "os_memory",
            "ping_host",
            "storage_pool",
            "user_data",
            "vcpus",
        }
    ),
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
    domain_xml: str | None = None


def read(
    credentials: Mapping[str, str], create: Mapping[str, str], timeout: float
) -> tuple[Access, Template]:
    """The settings of the sections. Raises ConfigError with every problem."""
    problems: list[str] = []

    def text(section: Mapping[str, str], key: str) -> str | None:
        return section.get(key, "").strip() or None

    def number(section: str, given: Mapping[str, str], key: str, otherwise: int) -> int:
        written = text(given, key)
        if written is None:
            return otherwise
        if not written.isdecimal() or (int(written) == 0 and key != "os_memory"):
            problems.append(f"[{section}] {key} = {written}: not a whole number above zero")
            return otherwise
        return int(written)

    uri = text(credentials, "uri")
    if uri is None:
        problems.append(
            f"[{CREDENTIALS}] uri: is missing: the hypervisor, such as qemu:///system, "
            "qemu+ssh://root@HOST/system?no_tty=1 or qemu+tls://HOST/system"
        )
    key, secret = text(credentials, "key"), text(credentials, "secret")
    needs_both = uri is not None and "+tcp" in uri
    if (key is None) != (secret is None) or (needs_both and key is None):
        problems.append(f"[{CREDENTIALS}] key: a +tcp uri needs key and secret; others take none")
    image = text(create, "image")
    if image is None:
        problems.append(
            f"[{CREATE}] image: is missing: the volume that nodes boot from, by its name in "
            "storage_pool, or by its path in any storage pool"
        )
    network, bridge = text(create, "network"), text(create, "bridge")
    if network and bridge:
        problems.append(f"[{CREATE}] bridge = {bridge}: contradicts network: give one of them")
    template = Template(
        image=image or "",
        storage_pool=text(create, "storage_pool") or "default",
        network=network,
        bridge=bridge,
        disk=number(CREATE, create, "disk", 0) or None,
        vcpus=number(CREATE, create, "vcpus", 1),
        memory=number(CREATE, create, "memory", 1024),
        os_memory=number(CREATE, create, "os_memory", 512),
        domain_xml=_domain_xml(text(create, "domain_xml"), problems),
    )
    seconds = number(CREDENTIALS, credentials, "timeout", 0) or timeout
    if problems:
        raise ConfigError(problems)
    return Access(uri or "", seconds, key, secret), template


def _domain_xml(path: str | None, problems: list[str]) -> str | None:
    """The text of the file; None where there is none, or it is no domain."""
    if path is None:
        return None
    where = f"[{CREATE}] domain_xml = {path}"
    try:
        text = Path(path).read_text(encoding="utf-8")
        root = ElementTree.fromstring(text)  # noqa: S314  # the operator's own file
    except (OSError, UnicodeDecodeError, ElementTree.ParseError) as error:
        problems.append(f"{where}: can't be read: {error}")
        return None
    if root.tag != "domain":
        problems.append(f"{where}: its outermost element is <{root.tag}>, not <domain>")
        return None
    return text
