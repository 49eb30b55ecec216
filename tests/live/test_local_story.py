"""The whole story of `make run` on the local cloud, at a tenth of its length."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import requests

from tests.alerts import metrics_used
from tests.live.cluster import TOKEN, LocalCluster
from tests.live.harness import Daemon, Line, Registry
from tests.waiting import until

pytestmark = [pytest.mark.live, pytest.mark.server("curl")]

NODES = 4
WINDOW_S = 6.0


class Story:
    """The cluster, and who was lost: one node vanished while busy, one was killed from outside."""

    def __init__(self, cluster: LocalCluster, daemon: Daemon) -> None:
        self.cluster = cluster
        self.daemon = daemon
        self.registry = Registry(daemon.url_of("registry"), TOKEN)
        self.first = {
            line["node"]: line
            for line in (
                daemon.wait_for("node.paired", count=number) for number in range(1, NODES + 1)
            )
        }
        self.vanished = until("a busy node to vanish", cluster.vanished, told=daemon.told)
        self.killed = next(node for node in sorted(self.first) if node != self.vanished)
        daemon.wait_for("node.keep", reason="busy", node=self.killed)
        cluster.kill_node(self.killed)

    def record_of(self, node_id: str) -> str:
        return self.first[node_id]["record"]


@pytest.fixture(scope="module")
def story(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Story]:
    cluster = LocalCluster(
        tmp_path_factory.mktemp("story"),
        {
            "Daemon": {"min_nodes": NODES, "max_nodes": NODES, "node_stale_after": WINDOW_S},
            "Registry": {"slots": NODES},
            "Cloud Create": {"work_for": 60, "vanish_after": 4},
        },
    )
    try:
        yield Story(cluster, cluster.start())
    finally:
        cluster.close()


def test_it_boots_to_min_nodes_and_pairs_every_node_with_a_record_of_its_own(story: Story):
    lines = list(story.first.values())

    assert len({line["record"] for line in lines}) == NODES
    assert {line["slot"] for line in lines} == {"1", "2", "3", "4"}
    assert {line["host"] for line in lines} == {"compute1", "compute2", "compute3", "compute4"}
    created = {line["node"]: line["record"] for line in story.daemon.lines("node.created")}
    assert {node: created[node] for node in story.first} == {
        node: line["record"] for node, line in story.first.items()
    }
    assert not story.daemon.lines("config.warning")


def test_its_nodes_take_work(story: Story):
    busy = story.daemon.wait_for("cycle.done", busy=NODES)

    assert (busy["nodes"], busy["paired"]) == ("4", "4")


@pytest.mark.parametrize("how", ["vanished", "killed"])
def test_the_record_of_a_node_that_died_busy_is_kept_within_the_window(story: Story, how: str):
    record = story.record_of(getattr(story, how))
    kept = story.daemon.wait_for("record.keep", reason="within_window", record=record)

    assert float(kept["idle_s"]) <= float(kept["window_s"]) == WINDOW_S
    cleaned = story.daemon.lines("record.clean", record=record)
    assert all(line.number > kept.number for line in cleaned)


@pytest.mark.parametrize("how", ["vanished", "killed"])
def test_past_the_window_its_record_is_cleaned_and_the_slot_is_used_again(story: Story, how: str):
    daemon, lost = story.daemon, getattr(story, how)
    record, slot = story.record_of(lost), story.first[lost]["slot"]
    ordered = daemon.wait_for("record.clean", record=record)
    freed = daemon.wait_for("record.cleaned", after=ordered, record=record)
    again = daemon.wait_for("node.paired", after=freed, slot=slot)

    assert (ordered["reason"], ordered["mode"], ordered["slot"]) == ("stale_slot", "apply", slot)
    # The log rounds: a record that is due by less than that shows the window itself.
    assert float(ordered["idle_s"]) >= float(ordered["window_s"]) == WINDOW_S
    assert int(ordered["absent_listings"]) >= 2
    assert float(ordered["absent_s"]) >= float(ordered["settle_s"])
    assert (freed["reason"], freed["guarantee"]) == ("stale_slot", "cas")
    assert freed["plan"] == ordered["plan"]
    assert again["node"] not in story.first
    assert set(story.cluster.tags()) >= {again["node"]}


def test_only_the_records_of_the_lost_are_ever_cleaned_and_nobody_is_shut_down(story: Story):
    whole_again(story)

    lost = {story.record_of(story.vanished), story.record_of(story.killed)}
    assert {line["record"] for line in story.daemon.lines("record.cleaned")} == lost
    assert not story.daemon.lines("node.shutdown_started")
    assert not story.daemon.lines("breaker.opened")
    # A boot just after a clean may make a record of its own: one more, which holds nothing.
    slots = {uuid: row["slot_number"] for uuid, row in story.registry.rows().items()}
    held = {uuid: slot for uuid, slot in slots.items() if slot is not None}
    assert sorted(held.values()) == [1, 2, 3, 4]
    assert set(held) == set(story.cluster.tags().values())


def whole_again(story: Story) -> Line:
    """The first cycle that counts every node after the second clean."""
    second = story.daemon.wait_for("record.cleaned", count=2)
    return story.daemon.wait_for("cycle.done", after=second, paired=NODES, busy=NODES)


def test_every_metric_of_the_alerts_and_the_dashboard_is_there(story: Story) -> None:
    text = requests.get(f"{story.daemon.url_of('management')}/metrics", timeout=10).text
    ends = {"histogram": ("_bucket", "_sum", "_count")}
    told = (line.split()[2:] for line in text.splitlines() if line.startswith("# TYPE "))
    there = {name + end for name, kind in told for end in ends.get(kind, ("",))}
    assert metrics_used() <= there
    values = dict(line.rsplit(" ", 1) for line in text.splitlines() if not line.startswith("#"))
    assert values["nodemanager_breaker_open"] == "0.0"
    assert float(values["nodemanager_pings_total"]) >= NODES
    assert 0 <= float(values["nodemanager_last_ping_age_seconds"]) < 60
    assert float(values['nodemanager_poll_age_seconds{source="cloud"}']) < 60
    assert values["nodemanager_slots_run_out_seconds"] == "0.0"
    verdicts = (float(values[one]) for one in values if "_record_verdicts{" in one)
    assert sum(verdicts) == NODES


def test_sighup_applies_a_window_and_tells_its_old_and_new_value(story: Story):
    daemon, cluster = story.daemon, story.cluster
    before = daemon.last()
    cluster.change({"Daemon": {"node_stale_after": 7, "wishlist_command": "/bin/true"}})

    daemon.reload()

    changed = {line["option"]: line for line in daemon.lines("config.changed", after=before)}
    window = changed["[Daemon] node_stale_after"]
    assert (window["old"], window["new"], window["action"]) == ("6", "7", "applied")
    assert changed["[Daemon] wishlist_command"]["action"] == "needs a restart"
    lost = sorted(story.cluster.tags())[0]
    record = story.cluster.tags()[lost]
    cluster.kill_node(lost)
    kept = daemon.wait_for("record.keep", after=before, reason="within_window", record=record)
    assert kept["window_s"] == "7"
