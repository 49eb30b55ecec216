"""Each cloud that has a server of its own, what can go wrong with it, and an operator's hands."""

from __future__ import annotations

import itertools
import secrets
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from nodemanager.cloud.api import CloudDriver, CreateOrder
from nodemanager.cloud.tags import HOLD_TAG, INCARNATION_TAG, POOL_TAG
from nodemanager.core.model.world import CloudNode, Leftover, LeftoverKind
from tests.cloud import faults
from tests.cloud.azure import helpers as azure_helpers
from tests.cloud.azure import server as azure_server
from tests.cloud.azure import world as azure_world
from tests.cloud.ec2 import helpers as ec2_helpers
from tests.cloud.ec2 import moto_server, moto_things
from tests.cloud.gce import helpers as gce_helpers
from tests.cloud.gce import server as gce_server
from tests.cloud.openstack import helpers as openstack_helpers
from tests.cloud.openstack import server as openstack_server
from tests.cloud.openstack import things as openstack_things

Tags = Mapping[str, str]
Faults = Sequence[tuple[str, dict[str, Any]]]
"""Each of the server's actions, and how it goes wrong: see tests.cloud.faults.Fault."""


@dataclass(frozen=True)
class CloudSite:
    """A cloud with its own server. Actions are the server's names for what is asked of it."""

    server: Any
    driver: CloudDriver
    order: Callable[[], CreateOrder]
    pin: Callable[[CloudNode, Tags], list[Leftover]]
    """Another hand gives the node one thing of each kind, its volume first."""
    add_volume: Callable[[CloudNode, Tags], str]
    """Another hand attaches a volume."""
    set_tags: Callable[[str, Tags], object]
    """An operator gives a volume other tags."""
    detach: Callable[[str, str], object]
    """An operator takes a volume from its node, whose id is the other."""
    attach: Callable[[str, str], object]
    """An operator gives a volume to another node."""
    live: Sequence[Callable[[str], object]]
    """Each brings a node into a state in which it keeps what it has."""
    dying: Callable[[str], object]
    """The node's end has begun."""
    end: Callable[[str], object]
    """The node has ended, and uses nothing any more."""
    deletes: Sequence[str]
    """The actions that delete a thing; the first deletes a volume."""
    listings: Sequence[str]
    """The actions that list things, and that which lists nodes."""
    failed: Callable[[], Any]
    """An internal error of the cloud."""
    in_use: Sequence[Callable[[], Any]]
    """Refusals to delete a volume that came into use."""
    gone: Callable[[], Any]
    """The cloud's own word that there is no such volume."""
    throttled: Callable[[], Any]
    forbidden: Callable[[], Any]
    cut: Callable[[Any], None]
    unlisted: Faults
    """Answers that may lack things."""
    no_owner: tuple[str, dict[str, Any]]
    """A list of nodes with one whose tags can't be read."""
    show: str
    """What a question for one node by its id sends."""
    create: str
    destroy: str
    open: Callable[..., CloudDriver]
    """Another adapter, with that configuration and time-out."""
    said: Callable[[str], Callable[[], Any]]
    """A refusal of a wrong order, in those words."""
    another: Callable[[str, str], Callable[[Any], Any]]
    """An answer with one text in place of another."""
    by_hand: Callable[[], str]
    """Somebody else starts a node; its id."""
    places: tuple[str, str]
    """Two zones."""
    fill: Callable[[str], object]
    """That zone has no room for the next node."""
    plain: Callable[..., Callable[[], Any]] = faults.plain
    """Any answer: its status, its text, and the wait that it asks for."""
    operation: str = ""
    """What tells whether a create has ended; empty where nothing is asked by it."""
    image: str = ""
    """What asks for the image; empty where nothing does."""
    slow: Callable[[], object] | None = None
    """The next operations take long."""
    due: Callable[[], object] = lambda: None
    """What is under way is due now."""
    forgets: Callable[[], object] = lambda: None
    """The cloud knows no request of before."""

    def tags(self, node: CloudNode) -> Tags:
        """What a node's own things bear."""
        assert node.tags.pool is not None
        assert node.tags.incarnation is not None
        return {POOL_TAG: node.tags.pool, INCARNATION_TAG: node.tags.incarnation}

    def sent(self) -> int:
        """How many deletes of things were sent."""
        return sum(len(self.server.called(action)) for action in self.deletes)


def _volume(path: str, node: CloudNode) -> Leftover:
    return Leftover(LeftoverKind.VOLUME, path, node.id)


def _replaced(old: str, new: str) -> Callable[[faults.Reply], faults.Reply]:
    def replace(reply: faults.Reply) -> faults.Reply:
        assert old.encode() in reply.body, f"{old} is not in the answer"
        body = reply.body.replace(old.encode(), new.encode())
        return faults.Reply(reply.status, body, reply.headers)

    return replace


def ec2_site() -> CloudSite:
    server = moto_server.shared()
    server.reset()
    server.page_limit = 2
    numbers = itertools.count(1)
    driver = ec2_helpers.cloud(server, page_size=2)
    refusal = moto_server.refusal

    def add_volume(node: CloudNode, tags: Tags) -> str:
        return ec2_helpers.add_volume(server, node, tags, f"/dev/xvd{next(numbers)}")

    def pin(node: CloudNode, tags: Tags) -> list[Leftover]:
        interface = ec2_helpers.add_interface(server, node, tags, next(numbers))
        address = ec2_helpers.add_address(server, tags, interface=interface)
        return [
            _volume(add_volume(node, tags), node),
            Leftover(LeftoverKind.INTERFACE, interface, node.id),
            Leftover(LeftoverKind.ADDRESS, address, node.id),
        ]

    def set_tags(volume: str, tags: Tags) -> None:
        changes = {POOL_TAG: "", INCARNATION_TAG: "", HOLD_TAG: "no", **tags}
        for name, value in changes.items():
            tag = {"Tag__1__Key": name, "Tag__1__Value": value}
            ec2_helpers.by_hand(server, "CreateTags", ResourceId__1=volume, **tag)

    def moved(action: str) -> Callable[[str, str], object]:
        device = {"Device": "/dev/xvdz"} if action == "AttachVolume" else {}
        return lambda volume, node_id: ec2_helpers.by_hand(
            server, action, VolumeId=volume, InstanceId=node_id, **device
        )

    describes = ("DescribeVolumes", "DescribeNetworkInterfaces", "DescribeAddresses")
    foreign = {"after": moto_server.replaced(moto_things.NAMESPACE, "urn:x")}

    def nameless(reply: moto_server.Reply) -> moto_server.Reply:
        opened = moto_server.replaced("<volumeId>", "<noId>")(reply)
        return moto_server.replaced("</volumeId>", "</noId>")(opened)

    def keyless(reply: moto_server.Reply) -> moto_server.Reply:
        opened = moto_server.replaced("<key>", "<notKey>")(reply)
        return moto_server.replaced("</key>", "</notKey>")(opened)

    return CloudSite(
        server,
        driver,
        ec2_helpers.order,
        pin,
        add_volume,
        set_tags,
        moved("DetachVolume"),
        moved("AttachVolume"),
        [partial(_put, server, one) for one in ("pending", "running", "stopped")],
        partial(_put, server, "shutting-down"),
        driver.destroy,
        ("DeleteVolume", "DeleteNetworkInterface", "ReleaseAddress"),
        (*describes, "DescribeInstances"),
        refusal("InternalError", 500),
        [refusal("VolumeInUse", 400), refusal("IncorrectState", 400)],
        refusal("InvalidVolume.NotFound", 400),
        refusal("RequestLimitExceeded", 503, retry_after="7"),
        refusal("UnauthorizedOperation", 403),
        moto_server.lost,
        [*((one, foreign) for one in describes), ("DescribeVolumes", {"after": nameless})],
        ("DescribeInstances", {"after": keyless}),
        "DescribeInstances",
        "RunInstances",
        "TerminateInstances",
        partial(ec2_helpers.cloud, server),
        lambda text: refusal("InvalidParameterValue", 400, text),
        moto_server.replaced,
        partial(ec2_helpers.node_by_hand, server),
        ("us-east-1a", "us-east-1b"),
        lambda place: server.full.update({place: "InsufficientInstanceCapacity"}),
        moto_server.plain,
    )


def _put(server: moto_server.MotoServer, state: str, node_id: str) -> None:
    server.put(node_id, state)


def gce_site() -> CloudSite:
    server = gce_server.shared()
    server.reset()
    project, zone = server.project, gce_helpers.ZONE
    driver = gce_helpers.cloud(server, page_size=2)
    refusal, changed = gce_server.refusal, gce_server.changed

    def disk(path: str) -> dict[str, Any]:
        return project.disks[zone, path.rpartition("/")[2]]

    def add_volume(node: CloudNode, tags: Tags) -> str:
        return gce_helpers.add_disk(server, node, tags)

    def put(status: str) -> Callable[[str], object]:
        return lambda node_id: project.put(node_id, status)

    def attach(path: str, node_id: str) -> None:
        project.attach(zone, node_id, {"source": project.link(path)})
        project.settle()

    def end(node_id: str) -> None:
        driver.destroy(node_id)
        project.settle()

    def due() -> None:
        for one in project.pending:
            one.due = 0.0

    def no_labels(told: Any) -> None:
        for scope in told["items"].values():
            for one in scope.get("instances", ()):
                one["labels"] = ["x"]

    disks, nodes = "disks.aggregatedList", "instances.aggregatedList"
    unreached = changed(lambda told: told.update(unreachables=["zones/x"]))
    return CloudSite(
        server,
        driver,
        gce_helpers.order,
        lambda node, tags: [_volume(add_volume(node, tags), node)],
        add_volume,
        lambda path, tags: disk(path).update(labels=dict(tags)),
        lambda path, _node_id: disk(path).update(users=[]),
        attach,
        [put("RUNNING"), put("TERMINATED"), put("SUSPENDED")],
        put("STOPPING"),
        end,
        ("disks.delete",),
        (disks, nodes),
        refusal("backendError", 503),
        [refusal("resourceInUseByAnotherResource", 400)],
        refusal("notFound", 404),
        refusal("rateLimitExceeded", 403, retry_after="7"),
        refusal("forbidden", 403),
        faults.lost,
        [
            (disks, {"after": unreached}),
            (nodes, {"after": unreached}),
            (disks, {"after": changed(lambda told: told.pop("items"))}),
        ],
        (nodes, {"after": changed(no_labels)}),
        "instances.get",
        "instances.insert",
        "instances.delete",
        partial(gce_helpers.cloud, server),
        lambda text: refusal("invalid", 400, text),
        _replaced,
        partial(gce_helpers.by_hand, server),
        (gce_helpers.ZONE, "us-central1-b"),
        lambda _place: project.next_fails.append(("ZONE_RESOURCE_POOL_EXHAUSTED", "no room")),
        operation="zoneOperations.get",
        image="images.get",
        slow=lambda: setattr(project, "takes", 1000.0),
        due=due,
        forgets=project._requests.clear,
    )


def azure_site() -> CloudSite:
    server = azure_server.shared()
    server.reset()
    server.page_limit = 2
    world = server.world
    driver = azure_helpers.cloud(server)
    refusal, changed = azure_server.refusal, azure_server.changed
    kinds = ("disks", "networkInterfaces", "publicIPAddresses")

    def pin(node: CloudNode, tags: Tags) -> list[Leftover]:
        made = azure_helpers.attach(server, node, tags)
        found = [Leftover(kind, path, node.id) for kind, path in made]
        return sorted(found, key=lambda one: one.kind is not LeftoverKind.VOLUME)

    def add_volume(node: CloudNode, tags: Tags) -> str:
        path = f"{azure_world.HOME}/providers/{azure_world.DISKS}/{secrets.token_hex(4)}".lower()
        disk = {"lun": 7, "managedDisk": {"id": path}, "createOption": "Attach"}
        with server.held():
            one = world.machine(node.id)
            world.add_disk(path, tags, one["id"])
            one["properties"]["storageProfile"]["dataDisks"].append(
                {**disk, "deleteOption": "Detach"}
            )
        return path

    def detach(path: str, node_id: str) -> None:
        with server.held():
            world.get(path).pop("managedBy", None)
            world.get(path)["properties"]["diskState"] = "Unattached"
            about = world.machine(node_id)["properties"]["storageProfile"]
            about["dataDisks"] = [
                one for one in about["dataDisks"] if one["managedDisk"]["id"] != path
            ]

    def attach(path: str, node_id: str) -> None:
        with server.held():
            world.get(path)["managedBy"] = world.machine(node_id)["id"]
            world.get(path)["properties"]["diskState"] = "Attached"

    def due() -> None:
        for one in world.operations.values():
            one.due = 0.0

    def put(provisioning: str, power: str | None) -> Callable[[str], object]:
        return lambda node_id: world.put(node_id, provisioning, power)

    machines = "virtualMachines.list"
    valueless = {"after": changed(lambda told: told.pop("value"))}
    nameless = {"after": changed(lambda told: told["value"][0].pop("id"))}
    return CloudSite(
        server,
        driver,
        azure_helpers.order,
        pin,
        add_volume,
        lambda path, tags: world.get(path).update(tags=dict(tags)),
        detach,
        attach,
        [
            put("Creating", None),
            put("Succeeded", "PowerState/running"),
            put("Succeeded", "PowerState/deallocated"),
        ],
        put("Deleting", "PowerState/running"),
        driver.destroy,
        tuple(f"{kind}.delete" for kind in kinds),
        (*(f"{kind}.list" for kind in kinds), machines),
        refusal("InternalServerError", 500),
        [refusal("OperationNotAllowed", 409), refusal("AnotherOperationInProgress", 409)],
        refusal("ResourceNotFound", 404),
        refusal("TooManyRequests", 429, retry_after="7"),
        refusal("AuthorizationFailed", 403),
        faults.lost,
        [
            *((f"{kind}.list", valueless) for kind in kinds),
            (machines, valueless),
            ("disks.list", nameless),
            (machines, {"before": refusal("ResourceGroupNotFound", 404)}),
        ],
        (machines, {"after": changed(lambda told: told["value"][0].update(tags=["x"]))}),
        "virtualMachines.get",
        "virtualMachines.put",
        "virtualMachines.delete",
        partial(azure_helpers.cloud, server),
        lambda text: refusal("InvalidParameter", 400, text),
        _replaced,
        partial(azure_helpers.by_hand, server),
        ("1", "2"),
        lambda _place: world.create_fails.append(("ZonalAllocationFailed", "no room")),
        operation="operations.get",
        image="images.market",
        slow=lambda: setattr(world, "takes", 1000.0),
        due=due,
    )


def openstack_site() -> CloudSite:
    server = openstack_server.shared()
    server.reset()
    server.nova.max_limit = server.things.max_limit = 2
    nova, things = server.nova, server.things
    driver = openstack_helpers.cloud(server)
    refusal, changed = openstack_server.refusal, openstack_server.changed
    port_kind, volume_kind = openstack_things.PORT, openstack_things.VOLUME

    def add_volume(node: CloudNode, tags: Tags) -> str:
        made = things.add(volume_kind, metadata=dict(tags))
        things.attach(made, node.id)
        return made

    def pin(node: CloudNode, tags: Tags) -> list[Leftover]:
        worded = openstack_helpers.neutron_tags(dict(tags))
        port = things.add(port_kind, tags=worded)
        things.attach(port, node.id)
        address = things.add(openstack_things.ADDRESS, tags=worded, port_id=port)
        return [
            _volume(add_volume(node, tags), node),
            Leftover(LeftoverKind.INTERFACE, port, node.id),
            Leftover(LeftoverKind.ADDRESS, address, node.id),
        ]

    def volume(thing_id: str) -> dict[str, Any]:
        return things.all[volume_kind][thing_id]

    def put(status: str) -> Callable[[str], object]:
        return lambda node_id: nova.put(node_id, status)

    def due() -> None:
        for one in nova.servers.values():
            one.gone_at = one.gone_at and 0.0

    servers, volumes = "compute GET /servers/detail", "volume GET /volumes/detail"
    neutrons = ("network GET /ports", "network GET /floatingips")
    empty = {"after": changed(lambda body: {})}

    def no_tags(body: Any) -> Any:
        return {"servers": [{**one, "metadata": ["x"]} for one in body["servers"]]}

    return CloudSite(
        server,
        driver,
        openstack_helpers.order,
        pin,
        add_volume,
        lambda thing_id, tags: volume(thing_id).update(metadata=dict(tags)),
        lambda thing_id, _node: volume(thing_id).update(attachments=[], status="available"),
        things.attach,
        [put("BUILD"), put("ACTIVE"), put("SHUTOFF")],
        put("SOFT_DELETED"),
        driver.destroy,
        ("volume DELETE /volumes/{id}", "network DELETE /ports/{id}", _IP_DELETE),
        (volumes, *neutrons, servers),
        refusal(500, "Unexpected API Error."),
        [refusal(400, "Invalid volume"), refusal(409, "conflict")],
        refusal(404, "Volume could not be found."),
        refusal(429, "slow", "7"),
        refusal(403, "Policy doesn't allow volume:delete to be performed."),
        faults.lost,
        [
            *((one, empty) for one in (volumes, *neutrons, servers)),
            (neutrons[0], {"after": changed(lambda body: {"ports": [{}]})}),
            (neutrons[0], {"before": openstack_server.plain(404, "<h1>nginx</h1>")}),
        ],
        (servers, {"after": changed(no_tags)}),
        "compute GET /servers/{id}",
        "compute POST /servers",
        "compute DELETE /servers/{id}",
        partial(openstack_helpers.cloud, server),
        lambda text: refusal(400, text),
        _replaced,
        partial(openstack_helpers.by_hand, server),
        ("nova", "az-2"),
        nova.full.add,
        openstack_server.plain,
        image="image GET /images/{id}",
        slow=lambda: setattr(nova, "delete_s", 1000.0),
        due=due,
    )


_IP_DELETE = "network DELETE /floatingips/{id}"

SITES: dict[str, Callable[[], CloudSite]] = {
    "ec2": ec2_site,
    "gce": gce_site,
    "azure": azure_site,
    "openstack": openstack_site,
}
