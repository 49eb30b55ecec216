"""The whole job on OpenStack: a real daemon, our server, and nodes that ping as real processes.

One project from the first boot to the last. The tests build on each other, in this order.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from tests.cloud.openstack.server import CREDENTIAL_SECRET, refusal
from tests.live import story
from tests.live.clouds import CloudCluster, at_work
from tests.live.harness import Daemon, Registry
from tests.live.openstack import Project, project_cluster
from tests.live.story import STORY, Story
from tests.waiting import until

pytestmark = [pytest.mark.live, pytest.mark.server("curl")]

OpenStackCluster = CloudCluster[Project]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OpenStackCluster]:
    project = Project()
    project.server.nova.boot_s = project.server.nova.delete_s = 0.5
    home = tmp_path_factory.mktemp("openstack")
    with at_work(project_cluster(home, project, project.access, STORY)) as made:
        yield made


class TestStory(Story):
    """The one of every cloud."""


def test_a_server_bears_what_the_listing_filters_by(cluster: OpenStackCluster) -> None:
    nodes = cluster.cloud.nodes()
    assert len(nodes) == 2
    assert {seen.tags["project"] for seen in nodes.values()} == {"live"}


def test_a_create_whose_answer_was_lost_is_found_by_its_record_and_not_repeated(
    cluster: OpenStackCluster, daemon: Daemon
) -> None:
    """Nova's create has no client token (U5, U9)."""
    story.a_lost_create_is_found(cluster, daemon)


def test_a_token_that_is_refused_and_an_api_that_is_down_cost_nothing(
    cluster: OpenStackCluster, daemon: Daemon
) -> None:
    before, server = daemon.last(), cluster.cloud.server
    cleaned = daemon.lines("record.cleaned")
    server.revoke_tokens()
    server.fault("compute GET /servers/detail", times=2, before=refusal(503))
    daemon.wait_for("list.failed", after=before, source="cloud")
    daemon.wait_for("list.ok", after=daemon.last(), source="cloud")
    assert not daemon.lines("node.shutdown_started")
    # A set-up that was withdrawn on a slow machine has released its claim before.
    assert daemon.lines("record.cleaned") == cleaned


def test_when_demand_is_gone_idle_nodes_are_shut_down_with_the_ports_that_nova_forgets(
    cluster: OpenStackCluster, daemon: Daemon, registry: Registry
) -> None:
    things = cluster.cloud.server.things
    things.leaked = True
    nodes = list(cluster.cloud.nodes())
    for node in nodes:
        cluster.farm.node_does(node, "idle")
    before = story.open_the_window(cluster, daemon)
    for node in nodes:
        story.shut_down(daemon, node, before)

    story.no_node_is_left(cluster, registry)
    until("no port", lambda: not things.all["port"], told=daemon.told)
    assert daemon.terminate() == 0
    assert CREDENTIAL_SECRET not in daemon.log.read_text(encoding="utf-8")


@pytest.mark.proof
def test_once_the_cloud_creates_again_a_node_comes_within_two_polls(tmp_path: Path) -> None:
    """Minutes in which each create was lost on the way; Nova's has no client token (U9)."""
    project = Project()
    project.server.nova.boot_s = project.server.nova.delete_s = 0.5
    with closing(project_cluster(tmp_path, project, project.access, STORY)) as made:
        made.farm.start()
        story.creates_come_again(made, project.no_create_arrives())
