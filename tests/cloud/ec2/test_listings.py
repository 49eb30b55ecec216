"""What the EC2 adapter sees, on a real EC2 API server over HTTP (L2, T4, T5, C11)."""

from __future__ import annotations

import pytest

from nodemanager.cloud.tags import POOL_TAG
from nodemanager.core.model.world import CloudState
from nodemanager.errors import ForeignAnswer
from tests.cases import cases
from tests.cloud.ec2.helpers import cloud, order
from tests.cloud.ec2.moto_server import MotoServer, plain, replaced
from tests.cloud.ec2.moto_things import NAMESPACE

# Listings (L2, T5).


@cases(
    ("old", "new"),
    {
        "another-namespace": (NAMESPACE, NAMESPACE.rstrip("/")),
        "another-service": ("DescribeInstancesResponse", "ListAllMyBucketsResult"),
        "no-reservation-set": ("reservationSet", "somethingElse"),
        "a-reservation-without-instances": ("instancesSet", "somethingElse"),
    },
)
def test_what_is_not_wholly_ec2_s_answer_is_no_listing(
    server: MotoServer, old: str, new: str
) -> None:
    ec2 = cloud(server)
    ec2.create(order())
    server.fault("DescribeInstances", after=replaced(old, new))
    with pytest.raises(ForeignAnswer) as caught:
        ec2.list_nodes()
    assert not caught.value.definite
    assert len(ec2.list_nodes().items) == 1


def test_cloud_list_does_not_narrow_what_is_seen(server: MotoServer) -> None:
    ec2 = cloud(
        server,
        listing={"tag:team": "physics", "instance-state-name": "running"},
        create={"image_id": "ami-1"},
    )
    ours = cloud(server).create(order())
    theirs = cloud(server, create={"image_id": "ami-1", "tag:team": "physics"}).create(
        order("other", pool="red")
    )
    gone = cloud(server, create={"image_id": "ami-1", "tag:team": "physics"}).create(
        order("gone", pool="red")
    )
    cloud(server).create(order("unrelated", pool="red"))
    ec2.destroy(gone.id)
    seen = {node.id: node for node in ec2.list_nodes().items}
    assert set(seen) == {ours.id, theirs.id, gone.id}
    assert all(node.managed for node in seen.values())
    assert seen[theirs.id].tags.pool == "red"
    assert seen[gone.id].state is CloudState.TERMINATED
    filters = [
        value
        for call in server.called("DescribeInstances")
        for name, value in call.params.items()
        if name.endswith(".Name")
    ]
    assert filters == [f"tag:{POOL_TAG}", "tag:team"]


def test_a_pool_named_with_wildcards_lists_its_own_nodes_alone(server: MotoServer) -> None:
    cloud(server).create(order(pool="bluegreen"))
    mine = cloud(server, pool="blue*").create(order(pool="blue*"))
    assert [node.id for node in cloud(server, pool="blue*").list_nodes().items] == [mine.id]


STATES = {
    "pending": CloudState.PENDING,
    "running": CloudState.RUNNING,
    "shutting-down": CloudState.STOPPING,
    "terminated": CloudState.TERMINATED,
    "stopping": CloudState.STOPPING,
    "stopped": CloudState.STOPPED,
    "hibernating": CloudState.UNKNOWN,
}
"""The last is a word of tomorrow."""


def test_raw_states_are_mapped(server: MotoServer) -> None:
    ec2 = cloud(server)
    ec2.create(order())
    for raw, state in STATES.items():
        told = replaced("<name>running</name>", f"<name>{raw}</name>")
        server.fault("DescribeInstances", after=told)
        (node,) = ec2.list_nodes().items
        assert (node.state, node.raw_state) == (state, raw)
        assert node.is_absent is (raw == "terminated")


# Questions by id and by tag (C11).


def test_an_id_is_asked_for_with_no_filter(server: MotoServer) -> None:
    other = cloud(server).create(order(pool="red"))
    ec2 = cloud(server, listing={"tag:team": "physics"})
    found = ec2.ask(other.id)
    assert found is not None
    assert found.tags.pool == "red"
    (call,) = server.called("DescribeInstances")
    assert [name for name in call.params if name not in ("Action", "Version")] == ["InstanceId.1"]


def test_an_empty_answer_to_a_question_by_id_is_no_denial(server: MotoServer) -> None:
    empty = (
        f'<DescribeInstancesResponse xmlns="{NAMESPACE}"><reservationSet/>'
        "</DescribeInstancesResponse>"
    )
    server.fault("DescribeInstances", before=plain(200, empty))
    with pytest.raises(ForeignAnswer):
        cloud(server).ask("i-0123456789abcdef0")
