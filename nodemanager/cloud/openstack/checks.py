"""What OpenStack can be asked before the first node boots: its flavors and zones.

It tells nobody's rights without trying them. What only these checks read is in
etc/iam/openstack-check.json.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from nodemanager.cloud.checks import CheckStatus, CloudChecks, Found, Offer
from nodemanager.cloud.openstack.options import Template
from nodemanager.cloud.openstack.wire import Wire
from nodemanager.lib.near import did_you_mean


@dataclass
class OpenStackChecks(CloudChecks):
    """OpenStack's own checks, in order."""

    wire: Callable[[], Wire]
    template: Template

    READS = "to have it asked, put the rules of etc/iam/openstack-check.json into the credential"

    @property
    def own_place(self) -> str | None:
        return self.template.availability_zone

    @cached_property
    def _flavors(self) -> Mapping[str, Mapping[str, Any]]:
        listed = self.wire().listing("compute", "/flavors/detail", "flavors")
        return {str(one["name"]): one for one in listed}

    def offer(self, kind: str, place: str | None) -> Offer | Found:
        flavor = self._flavors.get(kind)
        if flavor is None:
            near = did_you_mean(kind, list(self._flavors))
            text = f"the cloud has no flavor {kind}{near}"
            return Found(text, CheckStatus.FAILED, "openstack flavor list")
        if flavor.get("OS-FLV-DISABLED:disabled"):
            return Found(f"{kind} is disabled", CheckStatus.FAILED, "take another flavor")
        disk_gb = int(flavor["disk"])
        if not disk_gb and self.template.boot_volume_gb is None:
            to_do = "set [Cloud Create] boot_volume_gb"
            return Found(f"{kind} has no disk to boot from", CheckStatus.FAILED, to_do)
        disk_gb += int(flavor.get("OS-FLV-EXT-DATA:ephemeral") or 0)
        return Offer(int(flavor["vcpus"]), int(flavor["ram"]), disk_gb * 1000)

    def place(self, place: str) -> Found:
        zones = self.wire().get("compute", "/os-availability-zone")["availabilityZoneInfo"]
        up = sorted(one["zoneName"] for one in zones if one["zoneState"]["available"])
        if place in up:
            return Found(f"{place} is available")
        text = f"{place} is not among {', '.join(up)}{did_you_mean(place, up)}"
        return Found(text, CheckStatus.FAILED, "give one of those")
