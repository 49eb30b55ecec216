"""What Google can be asked before the first node boots: permissions, machine types and zones.

Everything is a question: Google has calls that tell which permissions one has, on a project and on
a node of it. What only these checks need is in etc/iam/gce-check.yaml.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from nodemanager.cloud.checks import CheckStatus, CloudChecks, Found, Offer
from nodemanager.cloud.declared import Endpoint
from nodemanager.cloud.gce.errors import Refusal
from nodemanager.cloud.gce.instance import Instance
from nodemanager.cloud.gce.options import Access, Template
from nodemanager.cloud.gce.token import GoogleSignIn
from nodemanager.cloud.gce.wire import Wire, granted
from nodemanager.cloud.refusal import unless_missing
from nodemanager.cloud.transport import TokenSource

READ_ALL = "https://www.googleapis.com/auth/cloud-platform.read-only"

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


@dataclass(frozen=True, slots=True)
class Rights:
    """What the account may do on the whole project, by the names of permissions.

    It is asked of the Resource Manager API, which changes nothing. That wants another scope than
    the daemon's own token has, so that a token of its own is asked for. `connect` opens a
    connection of libcloud's to that API.
    """

    access: Access
    connect: Callable[[Endpoint, TokenSource[str]], Any]

    def on_project(self, asked: Sequence[str]) -> set[str]:
        """Which of the permissions we have."""
        access = self.access
        path = f"/v1/projects/{access.project}:testIamPermissions"
        tokens = TokenSource(GoogleSignIn(access.info, access.timeout, READ_ALL))
        connection = self.connect(_resource_manager(access.endpoint), tokens)
        try:
            return granted(connection, path, asked)
        finally:
            connection.connection.session.close()


@dataclass
class GceChecks(CloudChecks):
    """Google's own checks, in order."""

    wire: Callable[[], Wire]
    find_node: Callable[[str], Instance | None]
    on_project: Rights
    template: Template

    ROLE = "give the account the role of etc/iam/gce.yaml"
    READS = (
        "to have it asked, give the account the role of etc/iam/gce-check.yaml, too, and an "
        "instance the scope cloud-platform"
    )

    @property
    def own_place(self) -> str:
        return self.on_project.access.zone

    def rights(self) -> Mapping[str, Callable[[], Found]]:
        boot = BOOT + ((RUN_AS,) if self.template.service_accounts else ())
        on_nodes = bool(self.wanted.nodes)
        end = END if on_nodes else END + NODE
        groups = {"see what exists": SEE, "boot nodes": boot, "end nodes": end}
        asks = {f"permissions to {what}": partial(self._may, it) for what, it in groups.items()}
        return asks | ({"permissions on a node": self._may_end} if on_nodes else {})

    def _may(self, names: Sequence[str]) -> Found:
        try:
            had = self.on_project.on_project(names)
        except Refusal as refusal:
            if refusal.status != 400:
                raise
            # It refuses to be asked of a permission that it knows on no project.
            return Found(refusal.message[:300], CheckStatus.NOT_ASKED, "try it with --boot")
        return self._compared(names, had, "the project")

    def _may_end(self) -> Found:
        """Whether a node of the pool may be ended, as a sample of all."""
        node_id = self.wanted.nodes[0]
        node = self.find_node(node_id)
        if node is None:
            return Found(f"node {node_id} has ended meanwhile", CheckStatus.NOT_ASKED, "ask again")
        path = f"zones/{node.zone}/instances/{node_id}"
        return self._compared(NODE, self.wire().granted(path, NODE), f"node {node.own_name}")

    def _compared(self, names: Sequence[str], had: set[str], where: str) -> Found:
        missing = [name for name in names if name not in had]
        if not missing:
            return Found(f"allowed on {where}: {', '.join(names)}")
        text = f"not allowed on {where}: {', '.join(missing)}"
        return Found(text, CheckStatus.FAILED, self.ROLE)

    def offer(self, kind: str, place: str | None) -> Offer | Found:
        zone, wire = place or self.own_place, self.wire()
        path = f"zones/{zone}/machineTypes/{kind}"
        found = unless_missing(lambda: wire.call("machineType", path))
        if found is None:
            to_do = "take another machine type or zone"
            return Found(f"{zone} has no {kind}", CheckStatus.FAILED, to_do)
        return Offer(int(found["guestCpus"]), int(found["memoryMb"]), where=f"in {zone}")

    def place(self, place: str) -> Found:
        found = unless_missing(lambda: self.wire().call("zone", f"zones/{place}"))
        if found is None:
            to_do = "gcloud compute zones list shows them"
            return Found(f"Google has no zone {place}", CheckStatus.FAILED, to_do)
        if (status := found.get("status")) == "UP":
            return Found(f"{place} is up")
        to_do = "boots may fail until it is UP again"
        return Found(f"{place} is {status}", CheckStatus.WARNING, to_do)


def _resource_manager(compute: Endpoint) -> Endpoint:
    """Where that API is: beside the compute API. An address that is not Google's own has both."""
    if compute.host.startswith("compute") and compute.host.endswith(".googleapis.com"):
        host = "cloudresourcemanager" + compute.host.removeprefix("compute")
        return replace(compute, host=host, path="")
    return compute
