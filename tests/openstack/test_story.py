"""The whole job on a real OpenStack: a real daemon, and nodes that ping as real processes.

As tests/live/test_openstack.py has it on our own server. The tests build on each other, in this
order.
"""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

from tests.live import story
from tests.live.clouds import at_work
from tests.live.cluster import Sections
from tests.live.harness import Daemon, Registry
from tests.live.story import STORY, Story, window_s
from tests.openstack.cluster import LONG_S, RealCluster, real_cluster
from tests.openstack.hand import Hand
from tests.waiting import busy, until

pytestmark = [
    pytest.mark.openstack,
    pytest.mark.live,
    pytest.mark.server("curl"),
    pytest.mark.timeout(1200),
]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory, cloud: Hand) -> Iterator[RealCluster]:
    # Where others have the processors too, nova takes longer for a list than these limits are.
    slack = busy()
    slow: Sections = {
        "Daemon": {
            "node_stale_after": round(40 * slack),
            "boot_fail_after": round(120 * slack),
            "poll_stale_after": round(30 * slack),
        },
        "Cloud Credentials": {"timeout": round(20 * slack)},
    }
    home = tmp_path_factory.mktemp("real-openstack")
    with at_work(real_cluster(home, cloud, STORY, slow)) as made:
        yield made


class TestStory(Story):
    """The one of every cloud."""


def test_a_server_bears_what_the_listing_filters_by(cluster: RealCluster) -> None:
    nodes = cluster.cloud.nodes()
    assert len(nodes) == 2
    assert {seen.tags["project"] for seen in nodes.values()} == {"live"}


def test_a_cell_that_is_down_frees_nothing(
    cluster: RealCluster, daemon: Daemon, registry: Registry
) -> None:
    """For longer than the window, and no node pings: a list that were believed would free both."""
    # Else a node in the place of a silent one would be booted, if a list came before its ping.
    cluster.want_none(daemon)
    before, freed = daemon.last(), daemon.lines("record.cleaned")
    with cluster.cloud.hand.cell_down():
        daemon.wait_for("list.failed", after=before, source="cloud")
        over = time.monotonic() + window_s(cluster) + 5
        until("more than the window", lambda: time.monotonic() > over, LONG_S)
        silent = daemon.last()
    daemon.wait_for("list.ok", after=silent, source="cloud")
    # They ping again.
    daemon.wait_for("cycle.done", after=silent, busy=1, idle=1)

    assert daemon.lines("record.cleaned") == freed
    assert not daemon.lines("node.shutdown_started")
    slots = [row["slot_number"] for row in registry.rows().values() if row["slot_number"]]
    assert len(slots) == 2


def test_a_create_whose_answer_was_lost_is_found_by_its_record_and_not_repeated(
    cluster: RealCluster, daemon: Daemon
) -> None:
    """Nova's create has no client token (U5, U9)."""
    story.a_lost_create_is_found(cluster, daemon)


def test_a_token_that_is_revoked_and_an_api_that_hangs_cost_nothing(
    cluster: RealCluster, daemon: Daemon
) -> None:
    # Nova builds a node in its owner's name: it would end one that is being built.
    daemon.wait_for("cycle.done", paired=3, booting=0)
    before = daemon.last()
    with cluster.cloud.hand.user_disabled():
        daemon.wait_for("list.failed", after=before, source="cloud")
    daemon.wait_for("list.ok", after=daemon.last(), source="cloud")
    before = daemon.last()
    with cluster.cloud.proxy.hanging():
        daemon.wait_for("list.failed", after=before, source="cloud")
    daemon.wait_for("list.ok", after=daemon.last(), source="cloud")
    assert not daemon.lines("node.shutdown_started")
    assert len(daemon.lines("record.cleaned")) == 1


def test_when_demand_is_gone_idle_nodes_are_shut_down_with_their_ports(
    cluster: RealCluster, daemon: Daemon, registry: Registry
) -> None:
    nodes, hand = list(cluster.cloud.nodes()), cluster.cloud.hand
    ports = [port for node in nodes for port in hand.ports_of(node)]
    assert len(ports) == len(nodes) == 3
    for node in nodes:
        cluster.farm.node_does(node, "idle")
    before = story.open_the_window(cluster, daemon)
    for node in nodes:
        story.shut_down(daemon, node, before)

    story.no_node_is_left(cluster, registry)
    assert not [port for node in nodes for port in hand.ports_of(node)]
    assert daemon.terminate() == 0
    assert hand.cloud.credential_secret not in daemon.log.read_text(encoding="utf-8")


def test_once_the_cloud_creates_again_a_node_comes_within_two_polls(cluster: RealCluster) -> None:
    """Minutes in which each create was lost on the way; Nova's has no client token (U9)."""
    story.creates_come_again(cluster, cluster.cloud.no_create_arrives())
