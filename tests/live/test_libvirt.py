"""The whole job against a real libvirtd, whose domains are those of libvirt's test driver.

One hypervisor from the first boot to the last. The tests build on each other, in this order.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing

import pytest

from nodemanager.cloud.checks import CheckStatus, Wanted
from nodemanager.errors import CloudError
from tests.cloud.asking import asked
from tests.cloud.libvirt import driver as libvirt_driver
from tests.fakes.clock import ManualClock
from tests.live.clouds import at_work
from tests.live.cluster import Sections
from tests.live.harness import Daemon
from tests.live.hypervisor import HypervisorCluster, Libvirtd, hypervisor_cluster
from tests.live.story import STORY, Story, paired
from tests.waiting import until

pytestmark = [
    pytest.mark.live,
    pytest.mark.server("curl"),
    pytest.mark.server("libvirt"),
    pytest.mark.server("libvirtd"),
]

CALL_S = 2
"""How long one of libvirt's calls may take."""


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HypervisorCluster]:
    options: Sections = {"Cloud Credentials": {"timeout": CALL_S}}
    with at_work(hypervisor_cluster(tmp_path_factory.mktemp("libvirt"), STORY, options)) as made:
        yield made


class TestStory(Story):
    """The one of every cloud."""


def test_a_domain_has_its_volumes_and_another_s_domain_is_left_alone(
    cluster: HypervisorCluster,
) -> None:
    nodes = cluster.cloud.nodes()
    assert len(nodes) == 2
    for seen in nodes.values():
        assert len(cluster.cloud.volumes(seen.tags["nodemanager-incarnation"])) == 3
    # The domain that libvirt's test driver begins with is seen, and is nobody's.
    assert cluster.cloud.connection.lookupByName("test").isActive()


def test_a_domain_that_is_shut_off_is_ended_replaced_and_leaves_no_volume(
    cluster: HypervisorCluster, daemon: Daemon
):
    cluster.want_none(daemon)
    cluster.farm.everyone("busy")
    cluster.change({"Daemon": {"min_nodes": 2}})
    before = daemon.reload()
    node = paired(daemon)[1]["node"]
    incarnation = cluster.cloud.nodes()[node].tags["nodemanager-incarnation"]
    cluster.cloud.domain(node).destroy()

    started = daemon.wait_for("node.shutdown_started", after=before, node=node)
    gone = daemon.wait_for("node.gone", after=started, node=node)
    freed = daemon.wait_for("record.cleaned", after=gone, record=gone["record"])
    daemon.wait_for("node.created", after=before)

    assert (gone["outcome"], freed["reason"]) == ("gone", "after_shutdown")
    until("its volumes are gone", lambda: not cluster.cloud.volumes(incarnation), told=daemon.told)


def test_a_libvirtd_that_hangs_is_no_evidence_and_nothing_is_lost_by_it(
    cluster: HypervisorCluster, daemon: Daemon
):
    before, nodes = daemon.last(), set(cluster.cloud.tags())
    with cluster.cloud.libvirtd.frozen():
        failed = daemon.wait_for("list.failed", after=before, source="cloud")
        assert f"no answer within {CALL_S} s" in failed["error"]

    daemon.wait_for("list.ok", after=failed, source="cloud")
    until("two nodes again", lambda: cluster.status(daemon)["nodes_busy"] == 2, told=daemon.told)
    assert set(cluster.cloud.tags()) == nodes
    assert not daemon.lines("record.clean", after=before)
    assert not daemon.lines("node.shutdown_started", after=before)


def test_the_next_run_finds_the_volumes_of_the_domain_that_vanished(
    cluster: HypervisorCluster, daemon: Daemon
):
    live = {tags["nodemanager-incarnation"] for tags in cluster.cloud.tags().values()}
    assert len(cluster.cloud.volumes()) == 3 * (len(live) + 1)
    assert daemon.terminate() == 0

    again = cluster.start()

    again.wait_for("node.paired", count=2)
    until("only the nodes' volumes", lambda: len(cluster.cloud.volumes()) == 6, told=again.told)
    assert all(len(cluster.cloud.volumes(one)) == 3 for one in live)


def test_sigterm_while_libvirtd_hangs_ends_it_soon_after_the_call_s_time_out(
    cluster: HypervisorCluster,
):
    daemon = cluster.daemons[-1]
    until("a listing", lambda: "cloud" in cluster.status(daemon)["polls"], told=daemon.told)
    with cluster.cloud.libvirtd.frozen():
        until(
            "a listing that takes long",
            lambda: cluster.status(daemon)["polls"]["cloud"]["age_s"] > CALL_S / 2,
            told=daemon.told,
        )

        assert daemon.terminate() == 0


def test_a_connection_that_was_lost_is_opened_anew():
    with (
        closing(Libvirtd()) as libvirtd,
        closing(libvirt_driver.cloud(ManualClock(), uri=libvirtd.uri)) as cloud,
    ):
        before = cloud.list_nodes()
        libvirtd.kill()
        for _ in range(2):
            with pytest.raises(CloudError) as caught:
                cloud.list_nodes()
            assert not caught.value.definite
        libvirtd.start()
        assert cloud.list_nodes() == before


def test_libvirtd_s_socket_for_readers_is_told_from_the_other() -> None:
    with closing(Libvirtd()) as served:
        marks = {}
        for socket in ("libvirt-sock", "libvirt-sock-ro"):
            uri = served.uri.replace("/libvirt-sock", f"/{socket}")
            with closing(libvirt_driver.cloud(ManualClock(), uri=uri)) as cloud:
                marks[socket] = asked(cloud, Wanted("mine", ()))["permission to change"].mark
    assert marks == {"libvirt-sock": CheckStatus.FINE, "libvirt-sock-ro": CheckStatus.FAILED}
