"""A cloud says that it will take a busy node, on EC2, Google and Azure (D18).

The node takes no more work, another one is booted, and the job is done in the time that is left.
The daemon and the nodes are processes, the clouds' APIs are servers of the tests, and so is the
metadata service that each node asks with the shipped ping script.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

import pytest

from tests.cloud.metadata import Service, amazon, google, microsoft
from tests.cloud.pings import PingServer, ping_server
from tests.live import test_azure, test_gce
from tests.live.azure_process import Subscription
from tests.live.clouds import HERE, CloudCluster, forerunner
from tests.live.cluster import SHORT, Sections
from tests.live.ec2 import ec2_cluster
from tests.live.gce_process import Google
from tests.live.harness import Daemon
from tests.waiting import until

pytestmark = [pytest.mark.live, pytest.mark.server("curl")]

KEPT: Sections = {
    "Daemon": {"min_nodes": 1, "max_nodes": 2, "node_stale_after": 60},
    "Registry": {"slots": 2},
    # In minutes: an idle node stays for an hour.
    "Cloud": {"shutdown_windows": "60, 999999"},
}
AnyCluster = CloudCluster[Any]
Metadata = Callable[[str], str]


def on_ec2(home: Path, metadata: Metadata) -> AnyCluster:
    return ec2_cluster(home, KEPT, drain_hooks=True, metadata=metadata)


def on_google(home: Path, metadata: Metadata) -> AnyCluster:
    cloud = Google(home)
    layers = forerunner("gce"), SHORT, HERE, test_gce.filled_in(home, cloud), KEPT
    how = {"module": "tests.live.soon", "drain_hooks": True, "metadata": metadata}
    return CloudCluster(home, cloud, *layers, **how)  # type: ignore[arg-type]  # of many types


def on_azure(home: Path, metadata: Metadata) -> AnyCluster:
    cloud = Subscription(home)
    layers = forerunner("azure"), SHORT, HERE, test_azure.filled_in(home, cloud), KEPT
    how = {"module": "tests.live.soon", "drain_hooks": True, "metadata": metadata}
    return CloudCluster(home, cloud, *layers, **how)  # type: ignore[arg-type]  # of many types


class Services:
    """The metadata service of each node of a cloud."""

    def __init__(self, service: Service) -> None:
        self.service = service
        self.servers: dict[str, PingServer] = {}
        self.running = ExitStack()

    def of(self, node_id: str) -> str:
        server = self.running.enter_context(ping_server())
        server.pages = self.service(node_id, None)
        self.servers[node_id] = server
        return server.base

    def say(self, node_id: str, at: str | None) -> None:
        """From now on, that the cloud takes the node at that time; None: that it does not."""
        self.servers[node_id].pages = self.service(node_id, at)


Served = tuple[AnyCluster, Services]


def clouds(*played: str) -> pytest.MarkDecorator:
    """On these clouds in `make test`, and on all in `make proof NAME=processes`."""
    known = {"ec2": (on_ec2, amazon), "google": (on_google, google), "azure": (on_azure, microsoft)}
    params = [
        pytest.param(made, id=name, marks=() if name in played else pytest.mark.proof)
        for name, made in known.items()
    ]
    return pytest.mark.parametrize("cluster", params, indirect=True)


@pytest.fixture
def cluster(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Served]:
    make, service = request.param
    services = Services(service)
    with services.running, closing(make(tmp_path / "pool", services.of)) as made:
        made.farm.everyone("busy")
        made.farm.start()
        yield made, services


def the_node(daemon: Daemon) -> str:
    """The busy node that min_nodes wants."""
    daemon.wait_for("cycle.done", nodes=1, busy=1)
    return str(daemon.lines("node.paired")[0]["node"])


@clouds("ec2")
def test_a_busy_node_that_its_cloud_will_take_is_replaced_and_its_job_done(
    cluster: Served,
) -> None:
    made, services = cluster
    daemon = made.start()
    node = the_node(daemon)
    services.say(node, "2099-01-01T00:00:00Z")

    told = daemon.wait_for("node.notice", node=node)
    daemon.wait_for("node.keep", node=node, reason="leaving")
    other = daemon.wait_for("node.paired", after=told)
    drain = daemon.wait_for("node.drain", node=node)

    assert (told["action"], told["cause"]) == ("given", "spot")
    assert told.get("until") in (None, "2099-01-01T00:00:00.000Z")
    assert (drain["action"], drain["reason"]) == ("drain", "leaving")
    assert made.farm.draining() == [node]
    assert set(made.cloud.nodes()) == {node, other["node"]}
    assert not daemon.lines("node.shutdown_started")

    made.farm.node_does(node, "idle")
    started = daemon.wait_for("node.shutdown_started", node=node)
    gone = daemon.wait_for("node.gone", after=started, node=node)
    freed = daemon.wait_for("record.cleaned", after=gone, record=gone["record"])
    assert (started["reason"], freed["reason"]) == ("noticed", "after_shutdown")
    assert set(made.cloud.nodes()) == {other["node"]}
    assert len(daemon.lines("node.notice")) == 1
    assert daemon.terminate() == 0


@clouds("google", "azure")
def test_a_notice_that_the_cloud_takes_back_gives_the_node_work_again(
    cluster: Served,
) -> None:
    made, services = cluster
    made.change({"Daemon": {"max_nodes": 1}})
    daemon = made.start()
    node = the_node(daemon)
    services.say(node, "2099-01-01T00:00:00Z")
    daemon.wait_for("node.drain", node=node, action="drain")
    services.say(node, None)

    daemon.wait_for("node.notice", node=node, action="withdrawn")
    daemon.wait_for("node.drain", node=node, action="resume")
    until("it takes work", lambda: not made.farm.draining(), made.patience_s, told=daemon.told)
    assert set(made.cloud.nodes()) == {node}
    assert daemon.terminate() == 0
