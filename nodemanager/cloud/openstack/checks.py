"""What OpenStack can be asked before the first node boots: who we are, image, flavors, zones.

What only these checks read is in etc/iam/openstack-check.json.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from nodemanager.cloud.checks import Check, CheckStatus, Found, Wanted
from nodemanager.cloud.openstack.errors import Refusal
from nodemanager.cloud.openstack.options import UUID, Template
from nodemanager.cloud.openstack.token import Token
from nodemanager.cloud.openstack.wire import Wire
from nodemanager.core.model.world import Size
from nodemanager.lib.near import did_you_mean

CHECK_RULES = "to have it asked, put the rules of etc/iam/openstack-check.json into the credential"
_POLICY = re.compile(r"policy doesn't allow (\S+)|rule:([\w:]+).* is disallowed by policy", re.I)
_KEPT = 300
GIB = 1024**3


@dataclass
class OpenStackChecks:
    """OpenStack's own checks, in order. Nothing is sent before a check is asked."""

    _wire: Callable[[], Wire]
    _token: Callable[[], Token]
    _template: Template
    _wanted: Wanted
    _image: Mapping[str, Any] = field(default_factory=dict)
    _flavors: dict[str, Mapping[str, Any]] = field(default_factory=dict)

    def all(self) -> list[Check]:
        template = self._template
        asks: dict[str, Callable[[], Found]] = {"user": self._who, "image id": self._image_id}
        for kind in sorted({size.instance_type for size in self._wanted.sizes}):
            asks[f"flavor {kind}"] = partial(self._flavor, kind)
        if template.availability_zone is not None:
            asks["availability zone"] = partial(self._zone, template.availability_zone)
        asks |= {f"place {zone}": partial(self._zone, zone) for zone in self._wanted.places}
        return [Check(name, partial(self._answered, ask)) for name, ask in asks.items()]

    @staticmethod
    def _answered(ask: Callable[[], Found]) -> Found:
        """The answer, or what a refusal means for a call that only this pre-flight makes."""
        try:
            return ask()
        except Refusal as refusal:
            if refusal.status in (401, 403):
                return Found(_refused(refusal, "the question"), CheckStatus.NOT_ASKED, CHECK_RULES)
            if refusal.status == 404:
                return Found(str(refusal), CheckStatus.FAILED, "correct the file, or make it")
            raise

    def _who(self) -> Found:
        about = self._token().about
        roles = sorted(map(str, about.role_names))
        credential = about.application_credential_id and about.application_credential
        how = f", by application credential {credential['name']}" if credential else ""
        text = (
            f"user {about.username} of domain {about.user_domain_name}, "
            f"project {about.project_name} of domain {about.project_domain_name}, "
            f"roles {', '.join(roles) or 'none'}{how}"
        )
        if set(roles) <= {"reader"}:
            return Found(
                text, CheckStatus.WARNING, "a reader boots no nodes: give it the role member"
            )
        return Found(text)

    # What nodes are made of.

    def _image_id(self) -> Found:
        wire, image = self._wire(), self._template.image
        if not wire.has("image"):
            return Found("the cloud has no image service in this region", CheckStatus.NOT_ASKED)
        if UUID.fullmatch(image):
            found = [wire.get("image", f"/images/{image}")]
        else:
            found = wire.page("image", "/images", "images", {"name": image})
        if len(found) != 1:
            ids = ", ".join(str(one.get("id")) for one in found)
            return Found(
                f"{image}: {len(found)} images have that name{f': {ids}' if ids else ''}",
                CheckStatus.FAILED,
                "give the image's id: openstack image list",
            )
        (self._image,) = found
        name, status = self._image.get("name"), self._image.get("status")
        text = f"{name}, id {self._image.get('id')}, {status}"
        if status != "active":
            return Found(
                text, CheckStatus.FAILED, "no node can boot from it: wait, or take another"
            )
        return Found(text)

    def _flavor(self, name: str) -> Found:
        """Whether it is there, and has what the file and the image ask for."""
        if not self._flavors:
            listed = self._wire().listing("compute", "/flavors/detail", "flavors")
            self._flavors = {str(one["name"]): one for one in listed}
        flavor = self._flavors.get(name)
        if flavor is None:
            near = did_you_mean(name, list(self._flavors))
            text = f"the cloud has no flavor of that name{near}"
            return Found(text, CheckStatus.FAILED, "openstack flavor list")
        template = self._template
        cores, ram_mb, disk_gb = int(flavor["vcpus"]), int(flavor["ram"]), int(flavor["disk"])
        text = f"{cores} cores, {ram_mb} MB, disk {disk_gb} GB"
        boot_gb = template.boot_volume_gb or disk_gb
        if flavor.get("OS-FLV-DISABLED:disabled"):
            return Found(f"{text}, disabled", CheckStatus.FAILED, "take another flavor")
        if not boot_gb:
            return Found(
                text, CheckStatus.FAILED, "set [Cloud Create] boot_volume_gb: it has no disk"
            )
        if int(self._image.get("min_ram") or 0) > ram_mb:
            needs = f"the image needs {self._image['min_ram']} MB"
            return Found(f"{text}, but {needs}", CheckStatus.FAILED, "take a larger flavor")
        least_gb = max(
            int(self._image.get("min_disk") or 0), int(self._image.get("size") or 0) / GIB
        )
        if least_gb > boot_gb:
            needs = f"the image needs a disk of {least_gb:.3g} GB"
            return Found(
                f"{text}, but {needs}",
                CheckStatus.FAILED,
                "take a larger flavor, or set boot_volume_gb",
            )
        ephemeral_gb = int(flavor.get("OS-FLV-EXT-DATA:ephemeral") or 0)
        for size in self._wanted.sizes:
            has = (cores, ram_mb, (disk_gb + ephemeral_gb) * 1000)
            if size.instance_type == name and _is_less(has, size):
                return Found(
                    f"{text}, but [Size {size.name}] says {size.cores} cores, {size.ram_mb} MB, "
                    f"scratch {size.scratch_mb} MB",
                    CheckStatus.WARNING,
                    "correct the section: jobs are sent there that do not fit",
                )
        return Found(text)

    def _zone(self, zone: str) -> Found:
        zones = self._wire().get("compute", "/os-availability-zone")["availabilityZoneInfo"]
        up = sorted(one["zoneName"] for one in zones if one["zoneState"]["available"])
        if zone in up:
            return Found(f"{zone} is available")
        text = f"{zone} is not among {', '.join(up)}{did_you_mean(zone, up)}"
        return Found(text, CheckStatus.FAILED, "give one of those")


def _is_less(has: tuple[int, int, int], size: Size) -> bool:
    return size.cores > has[0] or size.ram_mb > has[1] or size.scratch_mb > has[2]


def _refused(refusal: Refusal, call: str) -> str:
    """What forbids a call: the policy rule that the service names, or the access rules."""
    if refusal.status == 401:
        # The credentials work: keystone's middleware says so of a call without a rule.
        return f"no access rule of the credential allows {call}"
    named = _POLICY.search(refusal.message)
    if named is None:
        return f"{call} is not allowed: {str(refusal)[:_KEPT]}"
    return f"{named[1] or named[2]} is not allowed ({call})"
