"""The XML of a new domain, and which kind of domain a hypervisor runs best."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from string import ascii_lowercase
from xml.etree import ElementTree
from xml.etree.ElementTree import Element, SubElement

from nodemanager.cloud.api import CreateOrder
from nodemanager.cloud.declared import passed_on
from nodemanager.cloud.libvirt.devices import Devices, add
from nodemanager.cloud.libvirt.domain import metadata
from nodemanager.cloud.libvirt.options import Template
from nodemanager.cloud.tags import tags_for
from nodemanager.core.model.world import Size
from nodemanager.errors import BadRequest

PLAIN = """<domain>
  <os><type>hvm</type><boot dev='hd'/></os>
  <devices>
    <serial type='pty'/>
    <console type='pty'/>
    <rng model='virtio'><backend model='random'>/dev/urandom</backend></rng>
  </devices>
</domain>"""
"""A domain without `[Cloud Create] domain_xml`, but for what each node has of its own."""
X86 = frozenset({"i686", "x86_64"})


@dataclass(frozen=True, slots=True)
class Disk:
    """A volume as a domain uses it. `block` says that it is a device and no file."""

    path: str
    format: str
    block: bool = False
    readonly: bool = False


@dataclass(frozen=True, slots=True)
class Guest:
    """What the hypervisor runs: `kvm`, `qemu` or another type of its own, and the processor."""

    type: str
    arch: str


def best_guest(capabilities: str) -> Guest:
    """The fastest full virtualisation of the host's own processor, else of the first that it can.

    Raises BadRequest where the hypervisor has none.
    """
    root = ElementTree.fromstring(capabilities)  # noqa: S314  # libvirt's own XML
    host = root.findtext("host/cpu/arch")
    arches = [
        arch
        for guest in root.iterfind("guest")
        if guest.findtext("os_type") == "hvm"
        for arch in guest.iterfind("arch")
    ]
    arches.sort(key=lambda arch: arch.get("name") != host)
    for arch in arches:
        types = [str(domain.get("type")) for domain in arch.iterfind("domain")]
        if types:
            return Guest("kvm" if "kvm" in types else types[0], str(arch.get("name")))
    raise BadRequest("this hypervisor runs no full virtualisation (hvm)")


def memory_of(size: Size, template: Template) -> int:
    """The memory of a node, in MB."""
    return size.ram_mb + (template.os_memory if size.ram_is_given else 0)


def domain_xml(
    order: CreateOrder,
    template: Template,
    guest: Guest,
    node_id: str,
    created_at: float,
    disks: Iterable[Disk],
    image: str | None,
    host_devices: Devices,
) -> str:
    """The domain of an order; its first disk is the one it boots from.

    `image` is the id of the image that this disk is made from.
    """
    root = ElementTree.fromstring(template.domain_xml or PLAIN)  # noqa: S314  # our own XML
    if template.domain_xml is None:
        _for_guest(root, guest, passed_on(template))
    root.set("type", root.get("type") or guest.type)
    for name in ("name", "uuid", "memory", "currentMemory", "vcpu"):
        for element in root.findall(name):
            root.remove(element)
    # A host name comes back with its slot's next node, and other pools have the same ones; a
    # domain's name may be there only once.
    _text(root, "name", f"{order.name}-{node_id[:8]}")
    _text(root, "uuid", node_id)
    _text(root, "memory", str(memory_of(order.size, template))).set("unit", "MiB")
    _text(root, "vcpu", str(order.size.cores))
    about = {"name": order.name, "size": order.size.instance_type, "created": f"{created_at:.3f}"}
    about |= {} if image is None else {"image": image}
    _child(root, "metadata").append(metadata(tags_for(order.tags), about))
    devices = _child(root, "devices")
    for disk in disks:
        _add_disk(devices, disk)
    _add_interface(devices, template)
    add(devices, host_devices)
    return ElementTree.tostring(root, encoding="unicode")


def _for_guest(root: Element, guest: Guest, passed: Mapping[str, str]) -> None:
    about, system = root.find("os"), root.find("os/type")
    assert about is not None
    assert system is not None
    system.set("arch", guest.arch)
    if "firmware" in passed:
        about.set("firmware", passed["firmware"])
    if "secure-boot" in passed:
        feature = {"enabled": passed["secure-boot"], "name": "secure-boot"}
        SubElement(SubElement(about, "firmware"), "feature", feature)
    if passed.get("firmware") == "efi" and guest.arch in X86:
        # The default of x86, a PC of 1996, has no PCI Express and no secure boot.
        system.set("machine", "q35")
    if guest.type == "kvm":
        # Otherwise libvirt gives a model so old that newer systems refuse to run on it.
        SubElement(root, "cpu", {"mode": "host-passthrough"})
    if guest.arch in X86:
        features = SubElement(root, "features")
        SubElement(features, "acpi")
        SubElement(features, "apic")


def _add_disk(devices: Element, disk: Disk) -> None:
    taken = {target.get("dev") for target in devices.iterfind("disk/target")}
    free = next(f"vd{letter}" for letter in ascii_lowercase if f"vd{letter}" not in taken)
    # By path, since AppArmor's helper for libvirt can't look up disks of the type `volume`.
    element = SubElement(devices, "disk", {"type": "block" if disk.block else "file"})
    element.set("device", "disk")
    SubElement(element, "driver", {"name": "qemu", "type": disk.format})
    SubElement(element, "source", {"dev" if disk.block else "file": disk.path})
    SubElement(element, "target", {"dev": free, "bus": "virtio"})
    if disk.readonly:
        SubElement(element, "readonly")


def _add_interface(devices: Element, template: Template) -> None:
    """The interface that the options name; the network `default` where nothing names one."""
    kind, name = ("bridge", template.bridge) if template.bridge else ("network", template.network)
    if name is None and devices.find("interface") is not None:
        return
    interface = SubElement(devices, "interface", {"type": kind})
    SubElement(interface, "source", {kind: name or "default"})
    SubElement(interface, "model", {"type": "virtio"})


def _child(parent: Element, name: str) -> Element:
    found = parent.find(name)
    return SubElement(parent, name) if found is None else found


def _text(parent: Element, name: str, text: str) -> Element:
    element = SubElement(parent, name)
    element.text = text
    return element
