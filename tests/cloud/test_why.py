"""Each cloud's own reason for a node's state is read, and none is made up (U9)."""

from __future__ import annotations

from xml.etree import ElementTree

from nodemanager.cloud.ec2.wire import Instance as Ec2Instance
from nodemanager.cloud.gce.instance import READER as GCE
from nodemanager.cloud.gce.instance import Instance as GceInstance
from nodemanager.cloud.openstack.adapter import READER as NOVA
from nodemanager.cloud.openstack.node import Server
from tests.cases import cases

SPACE = "http://ec2.amazonaws.com/doc/2016-11-15/"


@cases(
    ("reason", "why"),
    {
        "code-and-message": (
            "<code>Server.SpotInstanceTermination</code><message>taken</message>",
            "Server.SpotInstanceTermination: taken",
        ),
        "the-message-has-the-code": (
            "<code>Client.InternalError</code><message>Client.InternalError: on launch</message>",
            "Client.InternalError: on launch",
        ),
        "code": ("<code>Server.InternalError</code>", "Server.InternalError"),
        "none": ("", ""),
    },
)
def test_ec2_tells_its_state_reason(reason: str, why: str) -> None:
    text = f'<item xmlns="{SPACE}"><stateReason>{reason}</stateReason></item>'
    item = ElementTree.fromstring(text)
    assert Ec2Instance.of(item, SPACE).why == why


def test_google_tells_its_status_message() -> None:
    item = {"id": "1", "status": "TERMINATED", "statusMessage": "preempted"}
    assert GCE.read(GceInstance.of(item), "pool").why == "preempted"
    assert GceInstance.of({"id": "1"}).why == ""


def test_nova_tells_its_fault() -> None:
    found = {"id": "s", "status": "ERROR", "metadata": {}, "fault": {"message": "No valid host"}}
    server = Server.of(found)
    assert server is not None
    assert NOVA.read(server, "pool").why == "No valid host"
