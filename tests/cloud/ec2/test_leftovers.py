"""What EC2 nodes leave behind is named, found again and released in order (D4), over HTTP."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from nodemanager.cloud.api import CloudDriver
from nodemanager.cloud.tags import INCARNATION_TAG, POOL_TAG
from nodemanager.core.model.world import CloudNode, Leftover, LeftoverKind, Outcome
from nodemanager.errors import ForeignAnswer, LeftAlone
from tests.cloud.ec2.helpers import add_volume, by_hand, cloud, order, tags_of
from tests.cloud.ec2.moto_server import MotoServer, plain, replaced
from tests.cloud.ec2.moto_things import NAMESPACE


@pytest.fixture
def ec2(server: MotoServer) -> CloudDriver:
    return cloud(server, page_size=5)


def gone(ec2: CloudDriver, node: CloudNode) -> None:
    ec2.destroy(node.id)
    assert ec2.destroy(node.id) is Outcome.GONE


def test_a_volume_and_an_interface_of_the_create_that_stay_are_pinned(
    server: MotoServer, ec2: CloudDriver
) -> None:
    asked = order()
    tags = {f"TagSpecification.1.Tag.{n}": pair for n, pair in enumerate(tags_items(asked), 1)}
    params = {
        "ImageId": "ami-1",
        "MinCount": "1",
        "MaxCount": "1",
        "BlockDeviceMapping.1.DeviceName": "/dev/xvdt",
        "BlockDeviceMapping.1.Ebs.VolumeSize": "8",
        "BlockDeviceMapping.1.Ebs.DeleteOnTermination": "false",
        "NetworkInterface.1.DeviceIndex": "0",
        "NetworkInterface.1.DeleteOnTermination": "false",
    }
    for number, resource in enumerate(("instance", "volume", "network-interface"), 1):
        params[f"TagSpecification.{number}.ResourceType"] = resource
        for name, (key, value) in tags.items():
            name = name.replace("TagSpecification.1", f"TagSpecification.{number}")
            params |= {f"{name}.Key": key, f"{name}.Value": value}
    by_hand(server, "RunInstances", **{name.replace(".", "__"): v for name, v in params.items()})
    (node,) = ec2.list_nodes().items
    pinned = ec2.pins(node.id)
    assert [leftover.kind for leftover in pinned] == [LeftoverKind.INTERFACE, LeftoverKind.VOLUME]
    gone(ec2, node)
    assert ec2.find_leftovers() == pinned


def tags_items(asked: Any) -> list[tuple[str, str]]:
    return [(POOL_TAG, asked.tags.pool), (INCARNATION_TAG, asked.tags.incarnation)]


def test_an_answer_about_another_node_s_things_pins_nothing(
    server: MotoServer, ec2: CloudDriver
) -> None:
    made = ec2.create(order())
    add_volume(server, made, tags_of(made))
    server.fault("DescribeVolumes", after=replaced(made.id, "i-0ffffffffffffffff"))
    assert ec2.pins(made.id) == ()


@pytest.fixture
def left(server: MotoServer, ec2: CloudDriver) -> Leftover:
    """The volume of a node that is gone."""
    made = ec2.create(order())
    add_volume(server, made, tags_of(made))
    (found,) = ec2.pins(made.id)
    gone(ec2, made)
    return found


def test_what_is_left_of_a_node_that_ec2_forgot_is_found_without_its_node(
    server: MotoServer, ec2: CloudDriver, left: Leftover
) -> None:
    """EC2 forgets a terminated instance within the hour."""
    assert ec2.find_leftovers() == (left,)
    server.forget(left.node_id)
    assert ec2.find_leftovers() == (replace(left, node_id=""),)


def test_what_is_being_deleted_is_not_found_and_not_ordered_again(
    server: MotoServer, ec2: CloudDriver, left: Leftover
) -> None:
    deleting = replaced("<status>available<", "<status>deleting<")
    server.fault("DescribeVolumes", times=2, after=deleting)
    assert ec2.find_leftovers() == ()
    assert ec2.release(left) is Outcome.ACCEPTED
    assert server.called("DeleteVolume") == []


def test_a_node_whose_state_can_t_be_read_keeps_its_things(
    server: MotoServer, ec2: CloudDriver, left: Leftover
) -> None:
    server.fault("DescribeInstances", times=2, after=replaced("instanceState>", "noState>"))
    assert ec2.find_leftovers() == ()
    with pytest.raises(LeftAlone, match="unreadable"):
        ec2.release(left)


def test_what_its_terminated_node_still_holds_is_waited_for(
    server: MotoServer, ec2: CloudDriver
) -> None:
    made = ec2.create(order())
    add_volume(server, made, tags_of(made))
    (volume,) = ec2.pins(made.id)
    # Terminated, its volume still attached: EC2 detaches it in its own time.
    server.put(made.id, "terminated")
    assert ec2.release(volume) is Outcome.ACCEPTED
    assert server.called("DeleteVolume") == []


def test_what_the_ledger_alone_names_goes_once_its_node_is_gone(
    server: MotoServer, ec2: CloudDriver
) -> None:
    made = ec2.create(order())
    volume = Leftover(LeftoverKind.VOLUME, add_volume(server, made, {}), made.id, tagged=False)
    with pytest.raises(LeftAlone, match="running"):
        ec2.release(volume)
    gone(ec2, made)
    assert [ec2.release(volume) for _ in range(2)] == [Outcome.ACCEPTED, Outcome.GONE]


def test_an_answer_without_that_very_thing_is_no_denial(
    server: MotoServer, ec2: CloudDriver, left: Leftover
) -> None:
    empty = f'<DescribeVolumesResponse xmlns="{NAMESPACE}"><volumeSet/></DescribeVolumesResponse>'
    another = replaced(left.id, "vol-0ffffffffffffffff")
    for how in ({"before": plain(200, empty)}, {"after": another}):
        server.fault("DescribeVolumes", **how)
        with pytest.raises(ForeignAnswer):
            ec2.release(left)
