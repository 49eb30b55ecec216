"""EC2 for the contract suite: see tests/cloud/site.py."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping
from functools import partial

from nodemanager.cloud.api import CreateOrder
from nodemanager.cloud.tags import HOLD_TAG, INCARNATION_TAG, POOL_TAG
from nodemanager.core.model.world import CloudNode, CloudState, Leftover, LeftoverKind
from tests.cloud.ec2 import helpers, moto_server, moto_things
from tests.cloud.ec2.moto_server import Reply, refusal, replaced
from tests.cloud.site import Answer, CloudSite, Tags, volume_of

DESCRIBES = ("DescribeVolumes", "DescribeNetworkInterfaces", "DescribeAddresses")
FOREIGN = {"after": replaced(moto_things.NAMESPACE, "urn:x")}
STATES = {
    CloudState.PENDING: "pending",
    CloudState.RUNNING: "running",
    CloudState.STOPPING: "shutting-down",
    CloudState.STOPPED: "stopped",
    CloudState.TERMINATED: "terminated",
}


def without(name: str) -> Callable[[Reply], Reply]:
    """The answer's elements of that name have another one."""
    end = replaced(f"</{name}>", "</other>")
    return lambda reply: end(replaced(f"<{name}>", "<other>")(reply))


def without_first_id(reply: Reply) -> Reply:
    body = reply.body.replace(b"<instanceId>", b"<instanceId/><no>", 1)
    return Reply(reply.status, reply.headers, body.replace(b"</instanceId>", b"</no>", 1))


class Ec2Site(CloudSite):
    show, create, destroy = "DescribeInstances", "RunInstances", "TerminateInstances"
    deletes = ("DeleteVolume", "DeleteNetworkInterface", "ReleaseAddress")
    listings = (*DESCRIBES, "DescribeInstances")
    failed = staticmethod(refusal("InternalError", 500))
    throttled = staticmethod(refusal("RequestLimitExceeded", 503, retry_after="7"))
    forbidden = staticmethod(refusal("UnauthorizedOperation", 403))
    gone = staticmethod(refusal("InvalidVolume.NotFound", 400))
    in_use = (refusal("VolumeInUse", 400), refusal("IncorrectState", 400))
    unlisted = (
        *((one, FOREIGN) for one in DESCRIBES),
        ("DescribeVolumes", {"after": without("volumeId")}),
    )
    no_owner = ("DescribeInstances", {"after": without("key")})
    odd_fields = (
        (replaced("launchTime", "noLaunchTime"), "launch time"),
        (replaced("<launchTime>2", "<launchTime>x2"), "launch time"),
        (replaced("instanceState>", "noState>"), "state"),
        (without("key"), "tags"),
    )
    nameless = (without_first_id,)
    unknown_id = "i-0123456789abcdef0"
    places = ("us-east-1a", "us-east-1b")
    cut = staticmethod(moto_server.lost)
    plain = staticmethod(moto_server.plain)
    another = staticmethod(replaced)

    def __init__(self) -> None:
        server = moto_server.shared()
        server.reset()
        server.page_limit = 2
        super().__init__(server, partial(helpers.cloud, server, page_size=2))
        self._numbers = itertools.count(1)

    def order(self) -> CreateOrder:
        return helpers.order()

    def said(self, text: str) -> Answer:
        return refusal("InvalidParameterValue", 400, text)

    def states(self) -> Mapping[CloudState, Callable[[str], object]]:
        return {
            state: lambda node_id, word=word: self.server.put(node_id, word)
            for state, word in STATES.items()
        }

    def add_volume(self, node: CloudNode, tags: Tags) -> str:
        return helpers.add_volume(self.server, node, tags, f"/dev/xvd{next(self._numbers)}")

    def pin(self, node: CloudNode, tags: Tags) -> list[Leftover]:
        interface = helpers.add_interface(self.server, node, tags, next(self._numbers))
        address = helpers.add_address(self.server, tags, interface=interface)
        return [
            volume_of(self.add_volume(node, tags), node),
            Leftover(LeftoverKind.INTERFACE, interface, node.id),
            Leftover(LeftoverKind.ADDRESS, address, node.id),
        ]

    def set_tags(self, volume: str, tags: Tags) -> None:
        changes = {POOL_TAG: "", INCARNATION_TAG: "", HOLD_TAG: "no", **tags}
        for name, value in changes.items():
            tag = {"Tag__1__Key": name, "Tag__1__Value": value}
            helpers.by_hand(self.server, "CreateTags", ResourceId__1=volume, **tag)

    def detach(self, volume: str, node_id: str) -> None:
        helpers.by_hand(self.server, "DetachVolume", VolumeId=volume, InstanceId=node_id)

    def attach(self, volume: str, node_id: str) -> None:
        where = {"VolumeId": volume, "InstanceId": node_id, "Device": "/dev/xvdz"}
        helpers.by_hand(self.server, "AttachVolume", **where)

    def by_hand(self) -> str:
        return helpers.node_by_hand(self.server)

    def fill(self, place: str) -> None:
        self.server.full[place] = "InsufficientInstanceCapacity"
