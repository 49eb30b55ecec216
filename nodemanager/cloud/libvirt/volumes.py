"""A node's volumes in a storage pool, from the create to what the node leaves behind (D4).

A volume has no tags. Its name says whose it is: `nodemanager.POOL.INCARNATION.root.qcow2`.
libvirt never deletes a volume with its domain, so every node leaves its volumes behind.
"""

from __future__ import annotations

import json
import re
import struct
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any
from xml.etree import ElementTree
from xml.etree.ElementTree import Element, SubElement

from nodemanager.cloud.api import CreateOrder
from nodemanager.cloud.leftovers import CloudResource, PoolLeftovers
from nodemanager.cloud.libvirt.domain import Domain
from nodemanager.cloud.libvirt.driver import Hypervisor
from nodemanager.cloud.libvirt.errors import NO_STORAGE_VOL, code_of
from nodemanager.cloud.libvirt.options import Template
from nodemanager.cloud.libvirt.order import Disk
from nodemanager.cloud.tags import INCARNATION_TAG, POOL_TAG
from nodemanager.core.model.world import Leftover, LeftoverKind, Outcome
from nodemanager.errors import BadRequest, IncompleteListing

SECTOR = 2048
LABEL = "cidata"
_PATH_TABLES = (18, 19)
_ROOT = 20
_FIRST_FILE = 21


def seed_image(instance_id: str, hostname: str, user_data: str) -> bytes:
    """The image, labelled `cidata`, with the files `user-data` and `meta-data`."""
    meta_data = json.dumps({"instance-id": instance_id, "local-hostname": hostname})
    return iso_image({"meta-data": meta_data.encode(), "user-data": user_data.encode()})


def iso_image(files: Mapping[str, bytes]) -> bytes:
    """An ISO 9660 image of these files, whose names Linux shows in small letters."""
    entries, contents, sector = [], b"", _FIRST_FILE
    for name, content in sorted(files.items()):
        entries.append(_entry(f"{name.upper()}.;1".encode("ascii"), sector, len(content)))
        contents += _padded(content)
        sector = _FIRST_FILE + len(contents) // SECTOR
    root = _entry(b"\0", _ROOT, SECTOR, directory=True)
    # A directory begins with itself and its parent.
    listing = root + _entry(b"\1", _ROOT, SECTOR, directory=True) + b"".join(entries)
    assert len(listing) <= SECTOR
    little, big = (struct.pack(f"{order}BBIH2s", 1, 0, _ROOT, 1, b"\0\0") for order in "<>")
    return b"".join(
        (
            bytes(16 * SECTOR),
            _padded(_descriptor(root, sector, len(little))),
            _padded(b"\xffCD001\x01"),
            _padded(little),
            _padded(big),
            _padded(listing),
            contents,
        )
    )


def _descriptor(root: bytes, sectors: int, table: int) -> bytes:
    """The primary volume descriptor (8.4)."""
    head = b"\x01CD001\x01\0" + _text("", 32) + _text(LABEL, 32) + bytes(8) + _both(sectors, "I")
    sizes = _both(1, "H") + _both(1, "H") + _both(SECTOR, "H") + _both(table, "I")
    little, big = _PATH_TABLES
    tables = struct.pack("<II", little, 0) + struct.pack(">II", big, 0)
    names = _text("", 4 * 128 + 3 * 37)
    # Four dates, none given; then the version of the directories' structure.
    return head + bytes(32) + sizes + tables + root + names + (b"0" * 16 + b"\0") * 4 + b"\x01\0"


def _entry(name: bytes, sector: int, size: int, *, directory: bool = False) -> bytes:
    """A directory record (9.1), of even length."""
    fields = b"\0" + _both(sector, "I") + _both(size, "I") + bytes(7)
    fields += bytes((2 if directory else 0, 0, 0)) + _both(1, "H") + bytes((len(name),)) + name
    fields += bytes((len(fields) + 1) % 2)
    return bytes((len(fields) + 1,)) + fields


def _both(number: int, kind: str) -> bytes:
    return struct.pack(f"<{kind}", number) + struct.pack(f">{kind}", number)


def _text(text: str, length: int) -> bytes:
    return text.encode("ascii").ljust(length)


def _padded(content: bytes) -> bytes:
    return content + bytes(-len(content) % SECTOR)


FILE_POOLS = frozenset({"dir", "fs", "netfs"})
"""Storage pools of files: there a boot volume holds only its changes to the image."""
BLOCK_POOLS = frozenset({"logical"})
MIB = 1024 * 1024
_OURS = re.compile(
    r"nodemanager\.(?P<pool>.+)\.(?P<incarnation>[0-9a-f]+)\.(?:root|scratch|seed)\.[a-z0-9]+"
)


@dataclass(frozen=True, slots=True)
class StoragePool:
    """An active storage pool; `handle` is libvirt's object."""

    handle: Any
    name: str
    path: str
    block: bool

    @classmethod
    def named(cls, driver: Hypervisor, name: str) -> StoragePool:
        """Raises BadRequest for a type of pool that is not supported."""
        handle = driver.within(driver.ex_live().storagePoolLookupByName, name)
        root = _parsed(driver.within(handle.XMLDesc))
        kind, path = str(root.get("type")), root.findtext("target/path")
        if kind not in FILE_POOLS | BLOCK_POOLS or not path:
            known = ", ".join(sorted(FILE_POOLS | BLOCK_POOLS))
            raise BadRequest(f"storage pool {name} is of type {kind}; supported are {known}")
        return cls(handle, name, path, kind in BLOCK_POOLS)

    def volume(self, driver: Hypervisor, name: str) -> Any | None:
        """libvirt's object for the volume; None only for libvirt's own "no volume"."""
        try:
            return driver.within(self.handle.storageVolLookupByName, name)
        except Exception as error:
            if code_of(error) != NO_STORAGE_VOL:
                raise
            return None

    def delete(self, driver: Hypervisor, name: str) -> None:
        found = self.volume(driver, name)
        if found is not None:
            driver.within(found.delete)


@dataclass(frozen=True, slots=True)
class Image:
    """The volume that nodes boot from.

    `id` is another one for another content. A file's has the time of its last change, for libvirt
    knows a file by its path alone; None where libvirt does not tell that time. A block device is
    known by libvirt's key, a logical volume's by its UUID.
    """

    handle: Any
    path: str
    format: str
    capacity: int
    id: str | None

    @classmethod
    def named(cls, driver: Hypervisor, pool: StoragePool, name: str) -> Image:
        """By its name in the pool, or by its path in any active pool."""
        lookup = (
            driver.ex_live().storageVolLookupByPath
            if "/" in name
            else pool.handle.storageVolLookupByName
        )
        handle = driver.within(lookup, name)
        root = _parsed(driver.ex_volume_xml(handle))
        kind = root.find("target/format")
        format = "raw" if kind is None else kind.get("type", "raw")
        path, capacity = driver.within(handle.path), int(driver.within(handle.info)[1])
        return cls(handle, path, format, capacity, _image_id(root))


def _image_id(volume: Element) -> str | None:
    key = volume.findtext("key")
    if not key or volume.get("type") == "block":
        # A device's own times change with each start of the host.
        return key or None
    changed = volume.findtext("target/timestamps/mtime")
    return f"{key}@{changed}" if changed else None


def root_size(image: Image, template: Template) -> int:
    """Bytes of a node's boot volume."""
    return max(image.capacity, (template.disk or 0) * MIB)


@dataclass(frozen=True, slots=True)
class VolumePlan:
    """The volumes of one order, by name, in the order of the domain's disks."""

    pool: StoragePool
    image: Image
    root: str
    scratch: str | None
    seed: str

    @classmethod
    def of(cls, driver: Hypervisor, order: CreateOrder, template: Template) -> VolumePlan:
        pool = StoragePool.named(driver, template.storage_pool)
        stem = f"nodemanager.{order.tags.pool}.{order.tags.incarnation}"
        return cls(
            pool,
            Image.named(driver, pool, template.image),
            root=f"{stem}.root.{'raw' if pool.block else 'qcow2'}",
            scratch=f"{stem}.scratch.raw" if order.size.scratch_mb else None,
            seed=f"{stem}.seed.iso",
        )

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(name for name in (self.root, self.scratch, self.seed) if name is not None)

    @property
    def disks(self) -> list[Disk]:
        """As the domain uses them; their paths follow from the pool's before they exist."""
        return [
            Disk(
                f"{self.pool.path}/{name}",
                "qcow2" if name.endswith(".qcow2") else "raw",
                block=self.pool.block,
                readonly=name == self.seed,
            )
            for name in self.names
        ]

    def make(
        self, driver: Hypervisor, order: CreateOrder, template: Template, node_id: str
    ) -> None:
        """Create the volumes. What an earlier attempt left may be half done: it goes first."""
        for name in self.names:
            self.pool.delete(driver, name)
        size = root_size(self.image, template)
        if self.pool.block:
            xml = _volume(self.root, size, "raw", sparse=False)
            driver.within(self.pool.handle.createXMLFrom, xml, self.image.handle)
        else:
            self._create(driver, _volume(self.root, size, "qcow2", image=self.image))
        sparse = not self.pool.block
        if self.scratch is not None:
            size = order.size.scratch_mb * MIB
            self._create(driver, _volume(self.scratch, size, "raw", sparse=sparse))
        content = seed_image(node_id, order.name, order.user_data)
        seed = self._create(driver, _volume(self.seed, len(content), "raw", sparse=sparse))
        driver.within(driver.ex_upload, seed, content)

    def unmake(self, driver: Hypervisor) -> None:
        for name in self.names:
            self.pool.delete(driver, name)

    def _create(self, driver: Hypervisor, xml: str) -> Any:
        return driver.within(self.pool.handle.createXML, xml)


class LibvirtLeftovers(PoolLeftovers[Hypervisor, Domain]):
    """An id is `STORAGEPOOL/VOLUME`. A volume's name stands for the tags that no volume has.

    Each domain is defined before its volumes are made, so a volume without a domain of its
    incarnation belongs to no create under way.
    """

    STOPPING = "shutdown"
    MARKS = "name"

    def __init__(self, pool: str, storage_pool: str) -> None:
        super().__init__(
            pool, lambda driver: driver, lambda driver, node_id: driver.ex_node(node_id)
        )
        self.storage_pool = storage_pool

    def pinned(self, driver: Hypervisor, node_id: str) -> list[CloudResource]:
        node = self.node(driver, node_id)
        if node is None or node.tags.get(POOL_TAG) != self.pool:
            return []
        incarnation = self.incarnation(node)
        return [thing for thing in self.things(driver) if thing.incarnation == incarnation]

    def things(self, wire: Hypervisor) -> list[CloudResource]:
        storage = StoragePool.named(wire, self.storage_pool)
        names = [volume.name() for volume in wire.within(storage.handle.listAllVolumes)]
        return [_thing(f"{self.storage_pool}/{name}", storage) for name in sorted(names)]

    def nodes(self, wire: Hypervisor, incarnation: str | None = None) -> list[Domain]:
        """All of them: what a domain's disks name is not free, either, whosever it is."""
        return list(wire.list_nodes())

    def incarnation(self, node: Domain) -> str | None:
        return node.tags.get(INCARNATION_TAG)

    def find(self, driver: Hypervisor) -> tuple[Leftover, ...]:
        things = [thing for thing in self.things(driver) if thing.is_ours(self.pool)]
        used = [_holdings(node) for node in (self.nodes(driver) if things else [])]
        held = frozenset[str]().union(*used)
        return tuple(
            Leftover(thing.kind, thing.id, "") for thing in things if held.isdisjoint(_marks(thing))
        )

    def asked(self, wire: Hypervisor, leftover: Leftover) -> CloudResource | None:
        if leftover.kind is not LeftoverKind.VOLUME:
            return None
        storage_name, _, name = leftover.id.rpartition("/")
        storage = StoragePool.named(wire, storage_name or self.storage_pool)
        volume = storage.volume(wire, name)
        return None if volume is None else _thing(leftover.id, storage, volume)

    def owners(self, driver: Hypervisor, leftover: Leftover, thing: CloudResource) -> list[Domain]:
        """Those with its incarnation, and those whose disks name it."""
        marks = {leftover.node_id, *_marks(thing)}
        return [node for node in self.nodes(driver) if marks & {node.id, *_holdings(node)}]

    def others(
        self,
        wire: Hypervisor,
        leftover: Leftover,
        thing: CloudResource,
        owners: Callable[[], list[Domain]],
    ) -> list[str]:
        """Its own node, too, unless it ends: it is named here."""
        ends = {self.state(node) for node in owners()} <= {self.STOPPING}
        return [] if ends else [f"{node.name} ({self.state(node)})" for node in owners()]

    def delete(self, wire: Hypervisor, thing: CloudResource) -> Outcome | None:
        storage, volume = thing.handle
        wire.within(volume.delete)
        return Outcome.GONE if storage.volume(wire, _name(thing)) is None else None

    def refused(self, thing: CloudResource, error: Exception) -> Outcome | None:
        return None


def _thing(id: str, storage: StoragePool, volume: Any = None) -> CloudResource:
    found = _OURS.fullmatch(id.rpartition("/")[2])
    tags = {POOL_TAG: found["pool"], INCARNATION_TAG: found["incarnation"]} if found else {}
    return CloudResource(LeftoverKind.VOLUME, id, tags, handle=(storage, volume))


def _name(thing: CloudResource) -> str:
    return thing.id.rpartition("/")[2]


def _marks(thing: CloudResource) -> tuple[str, str, str]:
    """What a domain that has the volume bears: its incarnation, its name or its path."""
    storage, _ = thing.handle
    return thing.incarnation, _name(thing), f"{storage.path}/{_name(thing)}"


def _holdings(node: Domain) -> frozenset[str]:
    """The domain's incarnation, and its disks by path and name.

    Raises IncompleteListing where that can't be read.
    """
    try:
        incarnation, disks = node.tags.get(INCARNATION_TAG), node.disks
    except ValueError as error:
        raise IncompleteListing(f"domain {node.own_name}: {error}") from error
    return disks if incarnation is None else disks | {incarnation}


def _volume(
    name: str, capacity: int, format: str, *, image: Image | None = None, sparse: bool = True
) -> str:
    """The XML of a volume; with an image one that holds only its changes to it."""
    root = Element("volume")
    SubElement(root, "name").text = name
    SubElement(root, "capacity", {"unit": "bytes"}).text = str(capacity)
    if sparse:
        SubElement(root, "allocation").text = "0"
    SubElement(SubElement(root, "target"), "format", {"type": format})
    if image is not None:
        backing = SubElement(root, "backingStore")
        SubElement(backing, "path").text = image.path
        SubElement(backing, "format", {"type": image.format})
    return ElementTree.tostring(root, encoding="unicode")


def _parsed(xml: str) -> Element:
    return ElementTree.fromstring(xml)  # noqa: S314  # libvirt's own XML
