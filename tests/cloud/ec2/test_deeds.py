"""Creating and destroying by the EC2 adapter, on a real EC2 API server over HTTP (U5, D3)."""

from __future__ import annotations

import base64
from dataclasses import replace
from typing import Any

import pytest

from nodemanager.cloud.api import CloudDriver
from nodemanager.cloud.tags import INCARNATION_TAG, POOL_TAG, RECORD_TAG, SIZE_TAG
from nodemanager.core.model.world import Outcome, Size
from nodemanager.errors import BadRequest, CloudError, ForeignAnswer
from tests.cases import cases
from tests.cloud.ec2.helpers import POOL, PUBLIC_KEY, by_hand, cloud, order
from tests.cloud.ec2.moto_server import MotoServer, refusal, replaced, truncated
from tests.cloud.ec2.moto_things import NAMESPACE

# Creating (U5).


def _tags(params: dict[str, str], specification: int) -> dict[str, str]:
    root = f"TagSpecification.{specification}.Tag."
    return {
        value: params[name.replace(".Key", ".Value")]
        for name, value in params.items()
        if name.startswith(root) and name.endswith(".Key")
    }


def test_the_tags_are_in_the_create_call_itself(server: MotoServer) -> None:
    ec2 = cloud(
        server,
        listing={"tag:cluster": "zyxwv", "tag:owner": "a*"},
        create={"image_id": "ami-1", "tag:team": "physics"},
    )
    wanted = order("compute-ü")
    node = ec2.create(wanted)
    assert node.tags == wanted.tags
    assert node.name == "compute-ü"
    assert node.problems == ()
    (call,) = server.called("RunInstances")
    expected = {
        "Name": "compute-ü",
        POOL_TAG: POOL,
        RECORD_TAG: wanted.tags.record,
        INCARNATION_TAG: wanted.tags.incarnation,
        SIZE_TAG: wanted.size.name,
        "cluster": "zyxwv",
        "team": "physics",
    }
    assert call.params["TagSpecification.1.ResourceType"] == "instance"
    assert call.params["TagSpecification.2.ResourceType"] == "volume"
    assert call.params["TagSpecification.3.ResourceType"] == "network-interface"
    assert [_tags(call.params, number) for number in (1, 2, 3)] == [expected] * 3
    assert not server.called("CreateTags")


def test_the_client_token_and_the_user_data_travel_in_the_body(server: MotoServer) -> None:
    user_data = "#!/bin/sh\ncurl 'https://example.org/ping?ping_secret=hüsh&a=b'\n" + "x" * 12_000
    cloud(server).create(order(user_data=user_data, client_token="token-1"))
    (call,) = server.called("RunInstances")
    assert call.params["ClientToken"] == "token-1"
    assert base64.b64decode(call.params["UserData"]).decode() == user_data
    assert (call.method, call.query) == ("POST", "")


@cases(
    "spoiled",
    {
        "half-an-answer": {"after": truncated},
        "another-namespace": {"after": replaced(NAMESPACE, "urn:other")},
        "no-instances": {"after": replaced("instancesSet", "nothing")},
    },
)
def test_a_create_whose_answer_can_t_be_read_is_not_definite(
    server: MotoServer, spoiled: dict[str, Any]
) -> None:
    server.fault("RunInstances", **spoiled)
    ec2 = cloud(server)
    with pytest.raises(CloudError) as caught:
        ec2.create(order())
    assert not caught.value.definite
    assert len(ec2.list_nodes().items) == 1


def test_a_scratch_volume_is_made_and_goes_with_the_node(server: MotoServer) -> None:
    ec2 = cloud(server)
    ec2.create(order(size=Size("large", "m5.large", 2, 8192, scratch_mb=100_000)))
    params = server.called("RunInstances")[0].params
    mapping = {
        name.removeprefix("BlockDeviceMapping.1."): value
        for name, value in params.items()
        if name.startswith("BlockDeviceMapping")
    }
    assert mapping == {
        "DeviceName": "/dev/xvdt",
        "Ebs.VolumeSize": "100",
        "Ebs.VolumeType": "gp3",
        "Ebs.DeleteOnTermination": "true",
    }


def test_the_root_volume_is_asked_for_by_the_images_own_name_for_it(server: MotoServer) -> None:
    # One of moto's; to list all of them takes seconds.
    image = by_hand(server, "DescribeImages", ImageId__1="ami-0d428b458b6ecaa33")
    create = {"image_id": image["imageId"], "root_volume_size": "30"}
    ec2 = cloud(server, create=create)
    for name in ("one", "two"):
        ec2.create(order(name))
    for call in server.called("RunInstances"):
        assert call.params["BlockDeviceMapping.1.DeviceName"] == image["rootDeviceName"]
        assert call.params["BlockDeviceMapping.1.Ebs.VolumeSize"] == "30"
    assert [call.key_id for call in server.called("DescribeImages")] == ["", "AKIDEXAMPLE"]


def test_a_type_with_enough_disk_gets_no_scratch_volume(server: MotoServer) -> None:
    ec2 = cloud(server)
    own = next(size for size in ec2.list_sizes() if size.instance_type == "m5d.large")
    assert own.scratch_mb == 75_000
    ec2.create(order(size=Size("disk", "m5d.large", 2, 8192, scratch_mb=70_000)))
    params = server.called("RunInstances")[0].params
    assert not [name for name in params if name.startswith("BlockDeviceMapping")]


def test_the_ssh_key_is_imported_once_under_a_name_of_its_own(
    server: MotoServer, tmp_path: Any
) -> None:
    public = tmp_path / "id.pub"
    public.write_text(PUBLIC_KEY)
    create = {"image_id": "ami-1", "ssh_key": str(public)}
    for ec2 in (cloud(server, create=create), cloud(server, create=create)):
        ec2.create(order())
        ec2.create(order())
    names = {call.params["KeyName"] for call in server.called("RunInstances")}
    assert len(names) == 1
    assert len(server.called("ImportKeyPair")) == 2


# Destroying (D3).


def test_a_node_that_goes_on_running_is_not_gone(server: MotoServer) -> None:
    ec2 = cloud(server)
    made = ec2.create(order())
    server.fault("TerminateInstances", after=replaced("shutting-down", "running"))
    assert ec2.destroy(made.id) is Outcome.UNKNOWN


def test_an_answer_about_another_node_is_refused(server: MotoServer) -> None:
    ec2 = cloud(server)
    made = ec2.create(order())
    server.fault("TerminateInstances", after=replaced(made.id, "i-0ffffffffffffffff"))
    with pytest.raises(ForeignAnswer):
        ec2.destroy(made.id)


# The image (N32).


def at_amazon(server: MotoServer, image: str) -> CloudDriver:
    """An adapter that takes that server for Amazon's own."""
    ec2 = cloud(server, create={"image_id": image})
    ec2._provider.access = replace(ec2._provider.access, amazon=True)
    return ec2


def an_image(server: MotoServer) -> str:
    node = by_hand(
        server, "RunInstances", ImageId="ami-1", MinCount="1", MaxCount="1", InstanceType="t2.micro"
    )["instanceId"]
    return by_hand(server, "CreateImage", InstanceId=node, Name="compute")["imageId"]


def test_an_image_that_is_not_there_is_told_by_its_option_n32(server: MotoServer) -> None:
    image = "ami-0123456789abcdef0"
    ec2 = at_amazon(server, image)
    for _ in range(2):
        with pytest.raises(BadRequest, match=rf"\[Cloud Create\] image_id = {image}: no node"):
            ec2.check_image()
    assert len(server.called("DescribeImages")) == 2


def test_an_image_that_is_there_is_asked_for_once_n32(server: MotoServer) -> None:
    ec2 = at_amazon(server, an_image(server))
    for _ in range(3):
        ec2.check_image()
    assert len(server.called("DescribeImages")) == 1


def test_an_image_that_is_not_ready_boots_no_node_n32(server: MotoServer) -> None:
    ec2 = at_amazon(server, an_image(server))
    server.fault("DescribeImages", after=replaced("available", "pending"))
    with pytest.raises(BadRequest, match="its state is pending"):
        ec2.check_image()
    ec2.check_image()


def test_without_the_right_to_see_images_nodes_are_booted_all_the_same_n32(
    server: MotoServer,
) -> None:
    ec2 = at_amazon(server, "ami-0123456789abcdef0")
    server.fault("DescribeImages", before=refusal("UnauthorizedOperation", 403))
    ec2.check_image()


def test_only_amazon_s_own_word_on_images_counts_n32(server: MotoServer) -> None:
    """This server boots from images that it does not list."""
    ec2 = cloud(server)
    ec2.check_image()
    assert not server.called("DescribeImages")
    ec2.create(order())
