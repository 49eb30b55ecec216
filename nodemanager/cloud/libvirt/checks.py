"""What a hypervisor can be asked before the first domain: its host, storage, image and sizes.

libvirt has no permissions to ask for. A connection that may only read is found by a definition that
can't be one: such a connection is refused before libvirt looks at it.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any

from nodemanager.cloud.checks import Check, CheckStatus, Found, Wanted
from nodemanager.cloud.libvirt.driver import Hypervisor
from nodemanager.cloud.libvirt.errors import OPERATION_DENIED, XML_ERROR, code_of
from nodemanager.cloud.libvirt.options import Template
from nodemanager.cloud.libvirt.order import best_guest, memory_of
from nodemanager.cloud.libvirt.volumes import MIB, Image, StoragePool
from nodemanager.core.model.world import Size

NO_DOMAIN_AT_ALL = "<nodemanager-check-cloud/>"
"""XML that libvirt can make no domain of."""
POOL_RUNS = 2
"""VIR_STORAGE_POOL_RUNNING."""


@dataclass
class LibvirtChecks:
    """The checks of a hypervisor, in order. Nothing is called before a check is asked."""

    _driver: Hypervisor
    _template: Template
    _wanted: Wanted

    def all(self) -> list[Check]:
        rooms = [
            Check(f"room for {one.name}", partial(self._size, one)) for one in self._wanted.sizes
        ]
        return [
            Check("hypervisor", self._host),
            Check("permission to change", self._may_change),
            Check("virtualisation", self._guest),
            Check("storage pool", self._storage, "virsh pool-list --all"),
            Check("image id", self._image, "virsh vol-list POOL"),
            *rooms,
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
        pool = StoragePool.named(self._driver, self._template.storage_pool)
        image = Image.named(self._driver, pool, self._template.image)
        size = f"{image.capacity / MIB:.0f} MB"
        return Found(f"{image.path}, key {self._driver.within(image.handle.key)}, {size}")

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


def _version(number: int) -> str:
    """libvirt's way of writing 9.2.1 as 9002001."""
    return f"{number // 1_000_000}.{number // 1000 % 1000}.{number % 1000}"
