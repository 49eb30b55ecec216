"""What a hypervisor can be asked before the first domain: whether we may, and its room.

libvirt has no permissions to ask for. A connection that may only read is found by a definition that
can't be one: such a connection is refused before libvirt looks at it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from nodemanager.cloud.checks import Check, CheckStatus, Found, Wanted
from nodemanager.cloud.libvirt.driver import Hypervisor
from nodemanager.cloud.libvirt.errors import OPERATION_DENIED, XML_ERROR, code_of
from nodemanager.cloud.libvirt.options import Template
from nodemanager.cloud.libvirt.order import memory_of
from nodemanager.core.model.world import Size

NO_DOMAIN_AT_ALL = "<nodemanager-check-cloud/>"
"""XML that libvirt can make no domain of."""


@dataclass
class LibvirtChecks:
    """The checks of a hypervisor, in order. Nothing is called before a check is asked."""

    _driver: Hypervisor
    _template: Template
    _wanted: Wanted

    def all(self) -> list[Check]:
        asks: Mapping[str, Callable[[], Found]] = {
            "permission to change": self._may_change,
            **{f"room for {one.name}": partial(self._room, one) for one in self._wanted.sizes},
        }
        return [Check(name, ask) for name, ask in asks.items()]

    def _call(self, name: str, *args: Any) -> Any:
        """A call of libvirt's connection, within the time limit."""
        return self._driver.within(getattr(self._driver.ex_live(), name), *args)

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

    def _room(self, size: Size) -> Found:
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
