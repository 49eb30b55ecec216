"""The whole job against a real libvirtd, whose domains are those of libvirt's test driver.

One hypervisor from the first boot to the last. The tests build on each other, in this order.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing

import pytest

from nodemanager.cloud.checks import Mark, Wanted
from nodemanager.errors import CloudError
from tests.cloud.asking import asked
from tests.cloud.libvirt import driver as libvirt_driver
from tests.fakes.clock import ManualClock
from tests.live.cluster import TOKEN, Sections
from tests.live.harness import Daemon, Line, Registry, claim_of
from tests.live.hypervisor import HypervisorCluster, Libvirtd
from tests.waiting import until

pytestmark = [
    pytest.mark.live,
    pytest.mark.server("curl"),
    pytest.mark.server("libvirt"),
    pytest.mark.server("libvirtd"),
]

WINDOW_S = 6.0
SLOTS = 8
CALL_S = 2
"""How long one of libvirt's calls may take."""


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HypervisorCluster]:
    options: Sections = {
        "Daemon": {"node_stale_after": WINDOW_S, "min_nodes": 2, "max_nodes": 4},
        "Cloud Credentials": {"timeout": CALL_S},
        "Registry": {"slots": SLOTS},
    }
    with closing(HypervisorCluster(tmp_path_factory.mktemp("libvirt"), options)) as made:
        made.farm.start()
        made.start()
        yield made


@pytest.fixture
def daemon(cluster: HypervisorCluster) -> Daemon:
    return cluster.daemons[0]


@pytest.fixture
def registry(daemon: Daemon) -> Registry:
    return Registry(daemon.url_of("registry"), TOKEN)


def test_it_boots_what_is_wanted_and_pairs_by_tags(
    cluster: HypervisorCluster, daemon: Daemon, registry: Registry
):
    daemon.wait_for("cycle.done", nodes=2, paired=2, idle=2)

    rows, tags = registry.rows(), cluster.domains.tags()
    pairs = {line["node"]: line["record"] for line in daemon.lines("node.paired")}
    assert set(pairs) == set(tags)
    for node, tagged in tags.items():
        row = rows[pairs[node]]
        claim = claim_of(row)
        assert claim is not None
        assert tagged["nodemanager-pool"] == "live"
        assert tagged["nodemanager-record"] == row["uuid"]
        assert tagged["nodemanager-incarnation"] == claim["incarnation"]
        assert tagged["name"] == row["hostname"]
        assert len(cluster.domains.volumes(claim["incarnation"])) == 3
        # The URL that it pinged was in the image that was uploaded for it.
        assert row["ip_address"].startswith("127.0.7.")
    # The domain that libvirt's test driver begins with is seen, and is nobody's.
    assert cluster.domains.connection.lookupByName("test").isActive()


def lost(daemon: Daemon) -> Line:
    """The pair whose domain ends while it is busy."""
    return daemon.lines("node.paired")[0]


def test_a_domain_that_ends_behind_its_back_leaves_its_record_within_the_window(
    cluster: HypervisorCluster, daemon: Daemon, registry: Registry
):
    before, pair = daemon.last(), lost(daemon)
    cluster.farm.everyone("busy")
    daemon.wait_for("cycle.done", after=before, busy=2)
    cluster.domains.vanish(pair["node"])

    kept = daemon.wait_for("record.keep", record=pair["record"], reason="within_window")

    assert float(kept["idle_s"]) <= float(kept["window_s"]) == WINDOW_S
    assert str(registry.row(pair["record"])["slot_number"]) == kept["slot"]


def test_a_replacement_boots_beside_the_kept_record(cluster: HypervisorCluster, daemon: Daemon):
    created = daemon.wait_for("node.created", count=3)
    again = daemon.wait_for("node.paired", node=created["node"])

    assert again["slot"] != lost(daemon)["slot"]
    assert created["node"] in cluster.domains.tags()
    assert lost(daemon)["node"] not in cluster.domains.tags()


def test_its_record_is_cleaned_past_the_window(daemon: Daemon, registry: Registry):
    record = lost(daemon)["record"]
    ordered = daemon.wait_for("record.clean", record=record)
    daemon.wait_for("record.cleaned", after=ordered, record=record)

    assert ordered["reason"] == "stale_slot"
    assert float(ordered["idle_s"]) > float(ordered["window_s"]) == WINDOW_S
    assert registry.row(record)["slot_number"] is None
    assert not daemon.lines("node.shutdown_started")


def test_a_domain_that_is_shut_off_is_ended_replaced_and_leaves_no_volume(
    cluster: HypervisorCluster, daemon: Daemon
):
    before = daemon.last()
    node = daemon.lines("node.paired")[1]["node"]
    incarnation = cluster.domains.tags()[node]["nodemanager-incarnation"]
    cluster.domains.domain(node).destroy()

    started = daemon.wait_for("node.shutdown_started", after=before, node=node)
    gone = daemon.wait_for("node.gone", after=started, node=node)
    freed = daemon.wait_for("record.cleaned", after=gone, record=gone["record"])
    daemon.wait_for("node.created", after=before)

    assert (gone["outcome"], freed["reason"]) == ("gone", "after_shutdown")
    until(
        "its volumes are gone", lambda: not cluster.domains.volumes(incarnation), told=daemon.told
    )


def test_a_libvirtd_that_hangs_is_no_evidence_and_nothing_is_lost_by_it(
    cluster: HypervisorCluster, daemon: Daemon
):
    before, nodes = daemon.last(), set(cluster.domains.tags())
    with cluster.libvirtd.frozen():
        failed = daemon.wait_for("list.failed", after=before, source="cloud")
        assert f"no answer within {CALL_S} s" in failed["error"]

    daemon.wait_for("list.ok", after=failed, source="cloud")
    until("two nodes again", lambda: cluster.status(daemon)["nodes_busy"] == 2, told=daemon.told)
    assert set(cluster.domains.tags()) == nodes
    assert not daemon.lines("record.clean", after=before)
    assert not daemon.lines("node.shutdown_started", after=before)


def test_the_next_run_finds_the_volumes_of_the_domain_that_vanished(
    cluster: HypervisorCluster, daemon: Daemon
):
    live = {tags["nodemanager-incarnation"] for tags in cluster.domains.tags().values()}
    assert len(cluster.domains.volumes()) == 3 * (len(live) + 1)
    assert daemon.terminate() == 0

    again = cluster.start()

    again.wait_for("node.paired", count=2)
    until("only the nodes' volumes", lambda: len(cluster.domains.volumes()) == 6, told=again.told)
    assert all(len(cluster.domains.volumes(one)) == 3 for one in live)


def test_sigterm_while_libvirtd_hangs_ends_it_soon_after_the_call_s_time_out(
    cluster: HypervisorCluster,
):
    daemon = cluster.daemons[-1]
    until("a listing", lambda: "cloud" in cluster.status(daemon)["polls"], told=daemon.told)
    with cluster.libvirtd.frozen():
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
    assert marks == {"libvirt-sock": Mark.FINE, "libvirt-sock-ro": Mark.FAILED}
