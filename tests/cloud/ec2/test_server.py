"""The test server itself: what moto gets wrong for libcloud is mended (see moto_server)."""

from __future__ import annotations

import subprocess
import sys

import pytest
import requests
from libcloud.compute.drivers.ec2 import EC2NodeDriver

from tests.cloud.ec2 import schema as ec2_schema
from tests.cloud.ec2.helpers import cloud, order
from tests.cloud.ec2.moto_server import MotoServer, refusal


@pytest.mark.parametrize("signature", ["2", "4"])
def test_libcloud_s_own_driver_is_served(server: MotoServer, signature: str) -> None:
    made = cloud(server).create(order())
    driver = EC2NodeDriver(
        "a", "b", secure=False, host="127.0.0.1", port=server.port, signature_version=signature
    )
    (node,) = driver.list_nodes()
    assert node.id == made.id
    assert driver.ex_create_tags(node, {"colour": "red", "shape": "round"})
    tags = driver.list_nodes()[0].extra["tags"]
    assert (tags["colour"], tags["shape"]) == ("red", "round")


def test_a_fault_is_used_up(server: MotoServer) -> None:
    server.fault("DescribeInstances", times=2, before=refusal("InternalError", 500))
    statuses = [
        requests.get(f"{server.url}/?Action=DescribeInstances&Version=2016-11-15", timeout=30)
        for _ in range(2)
    ]
    assert [answer.status_code for answer in statuses] == [500, 500]
    assert cloud(server).list_nodes().items == ()
    assert len(server.called("DescribeInstances")) == 3


@pytest.mark.proof
@pytest.mark.socket
def test_it_runs_as_a_process_of_its_own() -> None:
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.cloud.ec2.moto_server"], stdout=subprocess.PIPE, text=True
    )
    try:
        assert process.stdout is not None
        url = process.stdout.readline().strip()
        assert cloud(url).list_nodes().items == ()
    finally:
        process.kill()
        process.communicate(timeout=30)


@pytest.mark.parametrize(
    ("params", "told"),
    [
        ({"Placement.AvailabiltyZone": "a"}, "Placement.AvailabiltyZone: EC2 knows no such"),
        ({"BlockDeviceMapping.0.DeviceName": "x"}, "a list is numbered from 1"),
        ({"BlockDeviceMapping.1.Ebs.VolumeSize": "large"}, "'large' is no whole number"),
        ({"BlockDeviceMapping.1.Ebs.VolumeType": "gp9"}, "'gp9' is not one of standard, io1"),
        ({"EbsOptimized": "yes"}, "'yes' is neither true nor false"),
        ({"ImageId.Name": "x"}, "ImageId has no parts"),
        ({"MinCount": None}, "RunInstances: MinCount is missing"),
    ],
)
def test_a_request_that_amazons_own_description_does_not_allow_is_told(
    params: dict[str, str | None], told: str
) -> None:
    whole = {"Action": "RunInstances", "MinCount": "1", "MaxCount": "1"} | params
    given = {name: value for name, value in whole.items() if value is not None}
    (wrong,) = ec2_schema.wrong_in_request(given)
    assert told in wrong


def test_an_answer_that_amazons_own_description_does_not_allow_is_told() -> None:
    body = (
        "<R><reservationSet><item><colour/><instancesSet><item><instanceState><name>asleep</name>"
        "</instanceState></item></instancesSet></item></reservationSet></R>"
    )
    wrong = ec2_schema.wrong_in_answer("DescribeInstances", body.encode())
    assert [one.partition(": ")[2][:20] for one in wrong] == [
        "EC2 knows no such fi",
        "'asleep' is not one ",
    ]
