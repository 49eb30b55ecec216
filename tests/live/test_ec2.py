"""The whole job against a real EC2 API: moto's server, the daemon, and nodes as real processes.

One account from the first boot to the last. The tests build on each other, in this order.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.live import story
from tests.live.clouds import at_work
from tests.live.cluster import Sections
from tests.live.ec2 import Ec2Cluster, ec2_cluster
from tests.live.harness import Daemon, Registry, claim_of
from tests.live.story import STORY, Story, paired
from tests.waiting import until

pytestmark = [pytest.mark.live, pytest.mark.server("curl")]

CALL_S = 4.0
"""How long one call to the API may take."""


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ec2Cluster]:
    options: Sections = {"Cloud Credentials": {"timeout": CALL_S}}
    with at_work(ec2_cluster(tmp_path_factory.mktemp("ec2"), STORY, options)) as made:
        yield made


class TestStory(Story):
    """The one of every cloud."""


def test_an_instance_bears_what_the_listing_filters_by(cluster: Ec2Cluster) -> None:
    nodes = cluster.cloud.nodes()
    assert len(nodes) == 2
    assert {seen.tags["project"] for seen in nodes.values()} == {"live"}


def test_a_create_whose_answer_was_lost_is_repeated_and_makes_one_node(
    cluster: Ec2Cluster, daemon: Daemon, registry: Registry
):
    """U9: with the same client token, so that EC2 answers with the instance it made."""
    moto, before = cluster.cloud, daemon.last()
    known, sent = set(moto.instances()), len(moto.calls("RunInstances"))
    moto.lose_next("RunInstances")
    cluster.want(2)

    failed = daemon.wait_for("node.setup_failed", after=before)
    created = daemon.wait_for("node.created", after=failed)
    found = daemon.wait_for("node.paired", after=before)
    daemon.wait_for("node.keep", after=found, node=found["node"], reason="window_closed")

    assert (failed["action"], failed["definite"]) == ("create", "false")
    assert created["record"] == found["record"] == failed["record"]
    assert set(moto.instances()) - known == {created["node"]} == {found["node"]}
    tokens = [call["ClientToken"] for call in moto.calls("RunInstances")]
    assert len(tokens) == sent + 2
    assert tokens[-1] == tokens[-2]
    assert len(set(tokens)) == len(tokens) - 1
    claim = claim_of(registry.row(found["record"]))
    assert claim is not None
    assert claim["incarnation"] == tokens[-1]
    # The record that the first clean freed was used for it (U1).
    assert found["record"] == daemon.lines("record.cleaned", reason="stale_slot")[0]["record"]


def test_when_demand_is_gone_idle_nodes_are_shut_down_once_their_window_opens(
    cluster: Ec2Cluster, daemon: Daemon, registry: Registry
):
    nodes, busy = set(cluster.cloud.nodes()), paired(daemon)[1]["node"]
    before = story.open_the_window(cluster, daemon)
    for node in nodes - {busy}:
        story.shut_down(daemon, node, before)
    assert set(cluster.cloud.nodes()) == {busy}
    cluster.farm.node_does(busy, "idle")
    story.shut_down(daemon, busy, before)

    story.no_node_is_left(cluster, registry)


def test_sigterm_while_the_cloud_hangs_ends_it_soon_after_the_call_s_time_out(
    cluster: Ec2Cluster, daemon: Daemon
):
    until("a listing", lambda: "cloud" in cluster.status(daemon)["polls"], told=daemon.told)
    with cluster.cloud.frozen():
        until(
            "a listing that takes long",
            lambda: cluster.status(daemon)["polls"]["cloud"]["age_s"] > CALL_S / 2,
            told=daemon.told,
        )

        assert daemon.terminate() == 0
