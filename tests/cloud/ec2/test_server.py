"""The test server itself: what moto gets wrong for libcloud is mended (see moto_server)."""

from __future__ import annotations

import subprocess
import sys

import pytest
import requests
from libcloud.compute.drivers.ec2 import EC2NodeDriver

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
