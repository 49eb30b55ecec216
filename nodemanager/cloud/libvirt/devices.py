"""The host's PCI devices that nodes get, such as GPUs: which are free, and which one a node takes.

libvirt lets many domains name a device, and refuses to start the second that uses it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from xml.etree.ElementTree import Element, SubElement

from nodemanager.cloud.libvirt.domain import Domain
from nodemanager.errors import CapacityUnavailable

ADDRESS = re.compile(r"(?:([0-9a-f]{4}):)?([0-9a-f]{2}):([01][0-9a-f])\.([0-7])", re.IGNORECASE)
"""As lspci shows it, with or without the domain; devices (slots) go up to 1f."""
_PARTS = ("domain", "bus", "slot", "function")

Devices = tuple[str, ...]
"""What one node gets: one device, or several that belong together, by their whole addresses."""


def parse(text: str) -> tuple[Devices, ...]:
    """`65:00.0+65:00.1, 66:00.0`: what the first node gets, the second, and so on.

    Raises ValueError for an address that is none, and for one that is there twice.
    """
    found: list[Devices] = []
    for each in filter(None, (part.strip() for part in text.split(","))):
        devices = tuple(_whole(one.strip()) for one in each.split("+"))
        for one in devices:
            if any(one in others for others in found) or devices.count(one) > 1:
                raise ValueError(f"{one} is there twice")
        found.append(devices)
    return tuple(found)


def _whole(text: str) -> str:
    match = ADDRESS.fullmatch(text)
    if match is None:
        raise ValueError(f"{text!r} is no PCI address, as 0000:65:00.0 is; lspci shows them")
    return f"{match[1] or '0000'}:{match[2]}:{match[3]}.{match[4]}".lower()


def taken(domains: Iterable[Domain]) -> set[str]:
    """The devices that domains have, running or not, whoever made them.

    Raises ValueError for a domain that can't be read: it may have any.
    """
    return {
        "{:04x}:{:02x}:{:02x}.{:x}".format(*(int(address.get(part, "0"), 0) for part in _PARTS))
        for domain in domains
        for address in domain.root.iterfind("devices/hostdev[@type='pci']/source/address")
    }


def first_free(devices: Sequence[Devices], domains: Iterable[Domain]) -> Devices:
    """What the next node gets. Raises CapacityUnavailable where others have all of it."""
    used = taken(domains)
    for each in devices:
        if used.isdisjoint(each):
            return each
    raise CapacityUnavailable(
        f"[Cloud Create] host_devices: domains have all {len(devices)} of them"
    )


def add(parent: Element, devices: Devices) -> None:
    """Put them into a domain's `<devices>`; libvirt detaches each from its driver on the host."""
    for device in devices:
        element = SubElement(parent, "hostdev", {"mode": "subsystem", "type": "pci"})
        element.set("managed", "yes")
        match = ADDRESS.fullmatch(device)
        assert match is not None
        address = {part: f"0x{text}" for part, text in zip(_PARTS, match.groups(), strict=True)}
        SubElement(SubElement(element, "source"), "address", address)
