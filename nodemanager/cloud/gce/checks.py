"""What Google can be asked before the first node boots: permissions, image, zones and sizes.

Everything is a question: Google has calls that tell which permissions one has, on a project and on
a node of it. What only these checks need is in etc/iam/gce-check.yaml.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from nodemanager.cloud.checks import Check, CheckStatus, Found, Wanted, held_against
from nodemanager.cloud.endpoint import Endpoint
from nodemanager.cloud.gce.errors import Refusal
from nodemanager.cloud.gce.images import find_image
from nodemanager.cloud.gce.instance import Instance
from nodemanager.cloud.gce.options import Access, Template
from nodemanager.cloud.gce.token import GoogleSignIn
from nodemanager.cloud.gce.wire import Wire, granted
from nodemanager.cloud.refusal import unless_missing
from nodemanager.cloud.token import TokenSource
from nodemanager.errors import Unauthorized
from nodemanager.lib.near import did_you_mean

READ_ALL = "https://www.googleapis.com/auth/cloud-platform.read-only"
ALL = "https://www.googleapis.com/auth/cloud-platform"
COMPUTE = "https://www.googleapis.com/auth/compute"

SEE = (
    "compute.disks.get",
    "compute.disks.list",
    "compute.instances.list",
    "compute.projects.get",
    "compute.zoneOperations.get",
    "compute.zones.get",
)
BOOT = (
    "compute.disks.create",
    "compute.disks.setLabels",
    "compute.instances.create",
    "compute.instances.setLabels",
    "compute.instances.setMetadata",
    "compute.instances.setTags",
)
END = ("compute.disks.delete",)
NODE = ("compute.instances.delete", "compute.instances.get")
"""Asked on a node of the pool, where there is one: a role may be given for some instances only."""
RUN_AS = "compute.instances.setServiceAccount"

ROLE = "give the account the role of etc/iam/gce.yaml"
CHECK_ROLE = "to have it asked, give the account the role of etc/iam/gce-check.yaml, too"
UNREADY = {
    "DELETED": CheckStatus.FAILED,
    "OBSOLETE": CheckStatus.FAILED,
    "DEPRECATED": CheckStatus.WARNING,
}
_NEEDED = re.compile(r"'([a-zA-Z]+\.[a-zA-Z]+\.[a-zA-Z]+)' permission")
_KEPT = 300


@dataclass(frozen=True, slots=True)
class Rights:
    """What the account may do, by the names of permissions. Asking changes nothing.

    A permission on the whole project is asked of the Resource Manager API. It wants another scope
    than the daemon's own token has, so that a token of its own is asked for. `connect` opens a
    connection of libcloud's to that API.
    """

    access: Access
    connect: Callable[[Endpoint, TokenSource], Any]

    def who(self) -> tuple[str, list[str] | None]:
        """Whose credentials they are, and the scopes that this instance gives its account; None
        for a file's credentials, which give any."""
        access = self.access
        made = GoogleSignIn(access.info, access.timeout).signed_in()
        who = getattr(made, "service_account_email", None)
        if access.info is None:
            return str(who), list(made.scopes or ())
        return str(who or access.info.get("audience") or access.info["type"]), None

    def on_project(self, asked: Sequence[str]) -> set[str]:
        """Which of the permissions we have on the whole project."""
        access = self.access
        path = f"/v1/projects/{access.project}:testIamPermissions"
        tokens = TokenSource(GoogleSignIn(access.info, access.timeout, READ_ALL))
        connection = self.connect(_resource_manager(access.endpoint), tokens)
        try:
            return granted(connection, path, asked)
        finally:
            connection.connection.session.close()


@dataclass
class GceChecks:
    """Google's own checks, in order. Nothing is sent before a check is asked."""

    _wire: Callable[[], Wire]
    _find_node: Callable[[str], Instance | None]
    _rights: Rights
    _template: Template
    _wanted: Wanted
    _image: dict[str, Any] = field(default_factory=dict)

    def all(self) -> list[Check]:
        template, found = self._template, [self._check("service account", self._who)]
        groups = {"to see what exists": SEE, "to boot nodes": BOOT, "to end nodes": END}
        if template.service_accounts:
            groups["to boot nodes"] += (RUN_AS,)
        if not self._wanted.nodes:
            groups["to end nodes"] += NODE
        for what, names in groups.items():
            found.append(self._check(f"permissions {what}", partial(self._may, names), ROLE))
        if self._wanted.nodes:
            found.append(self._check("permissions on a node", self._may_end, ROLE))
        found.append(self._check("zone", self._zone))
        for place in self._wanted.places:
            found.append(self._check(f"place {place}", partial(self._place_of_sizes, place)))
        found.append(self._check("image id", self._image_id))
        for kind in sorted({size.instance_type for size in self._wanted.sizes}):
            found.append(self._check(f"machine type {kind}", partial(self._machine, kind)))
        return found

    @staticmethod
    def _check(name: str, ask: Callable[[], Found], to_do: str = "") -> Check:
        return Check(name, partial(_answered, ask), to_do)

    # Who we are, and what we may do.

    def _who(self) -> Found:
        who, scopes = self._rights.who()
        if scopes is None:
            return Found(f"{who}, by a file of credentials")
        text = f"{who}, of this instance, with the scopes {', '.join(scopes) or 'none'}"
        if {ALL, COMPUTE} & set(scopes):
            return Found(text)
        return Found(
            text,
            CheckStatus.FAILED,
            "stop the instance, and give it the scope compute-rw: without it no role helps",
        )

    def _may(self, names: Sequence[str]) -> Found:
        try:
            had = self._rights.on_project(names)
        except Refusal as refusal:
            if refusal.status != 400:
                raise
            # It refuses to be asked of a permission that it knows on no project.
            return Found(refusal.message[:_KEPT], CheckStatus.NOT_ASKED, "try it with --boot")
        return _told(names, had, "the project")

    def _may_end(self) -> Found:
        """Whether a node of the pool may be ended, as a sample of all."""
        node_id = self._wanted.nodes[0]
        node = self._find_node(node_id)
        if node is None:
            return Found(f"node {node_id} has ended meanwhile", CheckStatus.NOT_ASKED, "ask again")
        path = f"zones/{node.zone}/instances/{node_id}"
        return _told(NODE, self._wire().granted(path, NODE), f"node {node.own_name}")

    # What nodes are made of.

    def _place_of_sizes(self, zone: str) -> Found:
        """Whether there is that zone, and whether it has the machine types of its sizes."""
        wire = self._wire()
        found = unless_missing(lambda: self._zone(zone))
        if found is None:
            return self._no_zone(zone)
        lacking = []
        sizes = (size for size in self._wanted.sizes if zone in size.places)
        for kind in sorted({size.instance_type for size in sizes}):
            path = f"zones/{zone}/machineTypes/{kind}"
            if unless_missing(partial(wire.call, "machineType", path)) is None:
                lacking.append(kind)
        if lacking:
            text = f"{zone} has no {', '.join(lacking)}"
            return Found(text, CheckStatus.FAILED, "take it out of the places of that size")
        return found

    def _no_zone(self, zone: str) -> Found:
        try:
            told = self._wire().call("zoneList", "zones").get("items", [])
        except Refusal:
            # Only the hint needs this right.
            told = []
        known = sorted(str(one.get("name")) for one in told)
        return Found(
            f"Google has no zone {zone}{did_you_mean(zone, known)}",
            CheckStatus.FAILED,
            "gcloud compute zones list shows them",
        )

    def _zone(self, zone: str | None = None) -> Found:
        zone = zone or self._rights.access.zone
        status = self._wire().call("zone", f"zones/{zone}").get("status")
        if status == "UP":
            return Found(f"{zone} is up")
        return Found(
            f"{zone} is {status}", CheckStatus.WARNING, "boots may fail until it is UP again"
        )

    def _image_id(self) -> Found:
        wire, template = self._wire(), self._template
        path, refused = find_image(wire, template.image, template.image_project)
        if refused is not None and path is None:
            raise refused
        if path is None:
            return Found(
                f"{template.image}: Google knows no image or family of that name",
                CheckStatus.FAILED,
                "correct [Cloud Create] image or image_project",
            )
        _, project, _, _, *steps = path.split("/")
        found = wire.call("image", f"global/images/{'/'.join(steps)}", project=project)
        self._image.update(found)
        status, disk_gb = found.get("status"), int(found.get("diskSizeGb") or 0)
        text = f"{project}/{found.get('name')}, id {found.get('id')}, {status}, {disk_gb} GB"
        ended = (found.get("deprecated") or {}).get("state")
        if status != "READY":
            return Found(
                text, CheckStatus.FAILED, "no node can boot from it yet: wait, or take another"
            )
        if ended in UNREADY:
            return Found(f"{text}, {ended}", UNREADY[ended], "take a newer image")
        if template.boot_disk_gb is not None and template.boot_disk_gb < disk_gb:
            return Found(
                f"{text}, but boot_disk_gb = {template.boot_disk_gb}",
                CheckStatus.FAILED,
                f"set [Cloud Create] boot_disk_gb to {disk_gb} at the least",
            )
        return Found(text)

    def _machine(self, kind: str) -> Found:
        zone = self._rights.access.zone
        path = f"zones/{zone}/machineTypes/{kind}"
        found = unless_missing(lambda: self._wire().call("machineType", path))
        if found is None:
            return Found(
                f"{zone} has no {kind}", CheckStatus.FAILED, "take another machine type or zone"
            )
        cores, ram_mb = int(found["guestCpus"]), int(found["memoryMb"])
        text = f"in {zone}: {cores} cores, {ram_mb} MB"
        ended = (found.get("deprecated") or {}).get("state")
        if ended in UNREADY:
            return Found(f"{text}, {ended}", UNREADY[ended], "take another machine type")
        ours, its = found.get("architecture"), self._image.get("architecture")
        if ours and its and ours != its:
            return Found(
                f"{text}, of {ours}, but the image is for {its}",
                CheckStatus.FAILED,
                "take another machine type, or another image",
            )
        return held_against(self._wanted.types[kind], text, cores, ram_mb)


def _answered(ask: Callable[[], Found]) -> Found:
    """The answer, or what Google's refusal means for a call that only this pre-flight makes."""
    try:
        return ask()
    except Refusal as refusal:
        if refusal.status == 403 and refusal.meaning is Unauthorized:
            named = _NEEDED.search(refusal.message)
            text = f"needs {named[1]}" if named else refusal.message[:_KEPT]
            return Found(text, CheckStatus.NOT_ASKED, _advice(refusal))
        if refusal.is_not_found:
            return Found(
                refusal.message[:_KEPT], CheckStatus.FAILED, "correct the file, or make it"
            )
        raise


def _advice(refusal: Refusal) -> str:
    text = refusal.message.lower()
    if "scope" in text:
        return (
            "to have it asked, give this instance the scope cloud-platform; or look yourself: "
            "gcloud projects get-iam-policy PROJECT"
        )
    if "has not been used" in text or "disabled" in text:
        return "to have it asked: gcloud services enable cloudresourcemanager.googleapis.com"
    return CHECK_ROLE


def _told(names: Sequence[str], had: set[str], where: str) -> Found:
    missing = [name for name in names if name not in had]
    if not missing:
        return Found(f"allowed on {where}: {', '.join(names)}")
    return Found(f"not allowed on {where}: {', '.join(missing)}", CheckStatus.FAILED, ROLE)


def _resource_manager(compute: Endpoint) -> Endpoint:
    """Where that API is: beside the compute API. An address that is not Google's own has both."""
    if compute.host.startswith("compute") and compute.host.endswith(".googleapis.com"):
        host = "cloudresourcemanager" + compute.host.removeprefix("compute")
        return replace(compute, host=host, path="")
    return compute
