"""What a hypervisor can be asked before the first domain: its host, storage, network and room.

libvirt has neither permissions nor quotas to ask for. A connection that may only read is found by a
definition that can't be one: such a connection is refused before libvirt looks at it.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

from nodemanager.cloud.checks import Check, CheckStatus, Found, Wanted
from nodemanager.cloud.libvirt.devices import node_device, taken
from nodemanager.cloud.libvirt.driver import Hypervisor
from nodemanager.cloud.libvirt.errors import (
    NO_DOMAIN,
    NO_NODE_DEVICE,
    OPERATION_DENIED,
    XML_ERROR,
    code_of,
)
from nodemanager.cloud.libvirt.options import Template
from nodemanager.cloud.libvirt.order import best_guest, memory_of
from nodemanager.cloud.libvirt.volumes import MIB, Image, StoragePool, root_size
from nodemanager.cloud.room import Limit, room
from nodemanager.core.model.world import Size

NO_DOMAIN_AT_ALL = "<nodemanager-check-cloud/>"
"""XML that libvirt can make no domain of."""
POOL_RUNS, MEMORY_KIB, RUNNING = 2, 2, 1
"""VIR_STORAGE_POOL_RUNNING; a place in a domain's info; VIR_CONNECT_LIST_DOMAINS_ACTIVE."""


def checks(driver: Hypervisor, template: Template, wanted: Wanted) -> Sequence[Check]:
    """The checks of a hypervisor, in order. Nothing is called before a check is asked."""
    return _Asker(driver, template, wanted).checks()


class _Asker:
    def __init__(self, driver: Hypervisor, template: Template, wanted: Wanted) -> None:
        self._driver = driver
        self._template = template
        self._wanted = wanted

    def checks(self) -> list[Check]:
        template = self._template
        network = (
            Check("bridge", self._bridge)
            if template.bridge
            else Check("network", self._network, "virsh net-list --all")
        )
        rooms = [
            Check(f"room for {one.name}", partial(self._size, one)) for one in self._wanted.sizes
        ]
        return [
            Check("hypervisor", self._host),
            Check("permission to change", self._may_change),
            Check("virtualisation", self._guest),
            Check("storage pool", self._storage, "virsh pool-list --all"),
            Check("image id", self._image, "virsh vol-list POOL"),
            network,
            *([Check("host devices", self._devices)] if self._template.host_devices else []),
            *rooms,
            Check("host memory", self._memory),
            Check("storage space", self._space),
        ]

    def _call(self, name: str, *args: Any) -> Any:
        """A call of libvirt's connection, within the time limit."""
        return self._driver.within(getattr(self._driver.ex_live(), name), *args)

    def _host(self) -> Found:
        uri, host, kind = (self._call(f"get{name}") for name in ("URI", "Hostname", "Type"))
        return Found(f"{uri}, host {host}, {kind} {_version(self._call('getVersion'))}")

    def _may_change(self) -> Found:
        try:
            self._call("defineXML", NO_DOMAIN_AT_ALL)
        except Exception as error:
            if code_of(error) == OPERATION_DENIED:
                return Found(
                    "the connection may only read",
                    CheckStatus.FAILED,
                    "give the service's user the group libvirt, and let [Cloud Credentials] uri "
                    "name no socket that ends in -ro",
                )
            if code_of(error) != XML_ERROR:
                raise
        return Found("the connection is not read-only")

    def _guest(self) -> Found:
        """Only a warning without KVM: it works, and is slow."""
        guest = best_guest(self._call("getCapabilities"))
        text = f"{guest.type} on {guest.arch}"
        if guest.type != "qemu":
            return Found(text)
        return Found(
            f"{text}, without KVM",
            CheckStatus.WARNING,
            "load kvm_intel or kvm_amd on the host, or expect very slow nodes",
        )

    # What nodes are made of.

    def _storage(self) -> Found:
        pool = StoragePool.named(self._driver, self._template.storage_pool)
        state = self._driver.within(pool.handle.info)[0]
        text = f"{pool.name} at {pool.path}, {'block devices' if pool.block else 'files'}"
        if state != POOL_RUNS:
            return Found(
                f"{text}, not running",
                CheckStatus.FAILED,
                f"start it: virsh pool-start {pool.name}",
            )
        if not self._driver.within(pool.handle.autostart):
            return Found(
                f"{text}; it does not start with the host",
                CheckStatus.WARNING,
                f"virsh pool-autostart {pool.name}",
            )
        return Found(text)

    def _image(self) -> Found:
        image = self._found_image()
        size = f"{image.capacity / MIB:.0f} MB"
        return Found(f"{image.path}, key {self._driver.within(image.handle.key)}, {size}")

    def _found_image(self) -> Image:
        pool = StoragePool.named(self._driver, self._template.storage_pool)
        return Image.named(self._driver, pool, self._template.image)

    def _network(self) -> Found:
        name = self._template.network
        if name is None and self._template.domain_xml is not None:
            return Found("domain_xml may name others", CheckStatus.NOT_ASKED)
        network = self._call("networkLookupByName", name or "default")
        name = self._driver.within(network.name)
        if not self._driver.within(network.isActive):
            return Found(f"{name} is not active", CheckStatus.FAILED, f"virsh net-start {name}")
        if not self._driver.within(network.autostart):
            return Found(
                f"{name} is active; it does not start with the host",
                CheckStatus.WARNING,
                f"virsh net-autostart {name}",
            )
        return Found(f"{name} is active")

    def _bridge(self) -> Found:
        return Found(
            f"{self._template.bridge}: libvirt does not say which bridges a host has",
            CheckStatus.NOT_ASKED,
            "on the host: ip link show type bridge",
        )

    def _devices(self) -> Found:
        """Whether the host has them, and how many nodes still get some."""
        devices = self._template.host_devices
        lacking = [one for each in devices for one in each if not self._has(one)]
        if lacking:
            return Found(
                f"the host has no {', '.join(lacking)}",
                CheckStatus.FAILED,
                "virsh nodedev-list --cap pci",
            )
        used = taken(self._driver.list_nodes())
        has = sum(not used.isdisjoint(each) for each in devices)
        return room(Limit(len(devices), has), self._wanted, lambda size: 1, "lower max_nodes")

    def _has(self, device: str) -> bool:
        try:
            self._call("nodeDeviceLookupByName", node_device(device))
        except Exception as error:
            if code_of(error) != NO_NODE_DEVICE:
                raise
            return False
        return True

    # Room.

    def _size(self, size: Size) -> Found:
        """Whether the host is large enough for one node, were it alone there."""
        _, memory_mb, cores, *_ = self._call("getInfo")
        needed = memory_of(size, self._template)
        text = f"{size.cores} cores and {needed} MB of the host's {cores} and {memory_mb} MB"
        if needed > memory_mb:
            return Found(text, CheckStatus.FAILED, "the host is too small: lower [Size] ram")
        if size.cores > cores:
            return Found(
                text, CheckStatus.WARNING, "its cores share the host's: lower [Size] cores"
            )
        return Found(text)

    def _memory(self) -> Found:
        """By what running domains may use, as libvirt starts more of them than fit."""
        memory_mb = self._call("getInfo")[1]
        used = sum(map(self._memory_mb, self._call("listAllDomains", RUNNING)))
        limit = Limit(memory_mb, used, "MB")
        advice = "lower max_nodes: the host ends what it has no memory for"
        return room(limit, self._wanted, lambda size: memory_of(size, self._template), advice)

    def _memory_mb(self, domain: Any) -> int:
        try:
            return int(self._driver.within(domain.info)[MEMORY_KIB]) // 1024
        except Exception as error:
            if code_of(error) != NO_DOMAIN:
                raise
            # It has ended meanwhile.
            return 0

    def _space(self) -> Found:
        """By what the volumes may grow to: files take space only as it is written."""
        pool = StoragePool.named(self._driver, self._template.storage_pool)
        _, capacity, _, available = self._driver.within(pool.handle.info)
        root_mb = root_size(self._found_image(), self._template) / MIB
        limit = Limit(capacity // MIB, (capacity - available) // MIB, "MB")
        found = room(
            limit,
            self._wanted,
            lambda size: root_mb + size.scratch_mb,
            "make room in the pool, or lower max_nodes",
        )
        if found.mark is CheckStatus.FINE or pool.block:
            return found
        return Found(
            f"{found.text}; they begin small, and a full disk stops all of them",
            CheckStatus.WARNING,
            found.to_do,
        )


def _version(number: int) -> str:
    """libvirt's way of writing 9.2.1 as 9002001."""
    return f"{number // 1_000_000}.{number // 1000 % 1000}.{number % 1000}"
