"""The first day over a registry full of leaks: plan, edit, apply, and what was touched (S5)."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
import requests

from tests.live.cluster import TOKEN, DirectedCluster
from tests.live.harness import free_port
from tests.live.leaks import answer, command, hand_made, leak, ping_url, secrets_of
from tests.waiting import until

pytestmark = [pytest.mark.live, pytest.mark.server("curl")]

LEAKED = 30


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[DirectedCluster]:
    """A registry with 30 leaked records; nothing is booted."""
    made = DirectedCluster(
        tmp_path / "cluster",
        {
            "Daemon": {"min_nodes": 0, "max_nodes": 8, "node_stale_after": 600},
            "Manage": {"port": free_port()},
            "Registry": {"slots": 64},
        },
    )
    with closing(made):
        made.serve_registry()
        yield made


def test_a_plan_is_reviewed_and_only_what_it_left_in_and_nobody_changed_is_done(
    cluster: DirectedCluster, tmp_path: Path
) -> None:
    leaked = leak(cluster, LEAKED)
    own = cluster.registry.create(hostname="by-hand", slot_number=40)["uuid"]
    paired = hand_made(cluster, "alices-node", ping_url(cluster, own))
    alone = hand_made(cluster, "bobs-node", f"{cluster.registry.url}/nobody")
    daemon = cluster.start()
    daemon.wait_for("backlog.found", count=1)
    path = tmp_path / "leaked.plan"

    url = f"{daemon.url_of('management')}/api/backlog"
    assert requests.get(url, timeout=10).status_code == 401
    assert requests.post(f"{url}/apply", json={}, timeout=10).status_code == 401

    told = command(cluster.config, "backlog", "plan", "--out", str(path))

    assert f"nodemanager backlog apply {path}" in told
    text = path.read_text(encoding="utf-8")
    assert not [secret for secret in secrets_of(cluster) if secret in text]
    lines = text.splitlines()
    cleans = [line for line in lines if line.startswith("clean ")]
    assert {line.split()[1] for line in cleans} == set(leaked)

    # Reviewed: three are deleted, two commented out; somebody writes to one meanwhile.
    deleted, commented = cleans[:3], cleans[3:5]
    changed = cleans[5].split()[1]
    edited = [
        f"# keep for the audit: {line}" if line in commented else line
        for line in lines
        if line not in deleted
    ]
    # Of the two nodes made by hand one is chosen: the one that pings a record.
    shown = {line.split()[1]: line for line in lines if line.startswith("#adopt ")}
    assert set(shown) == {paired, alone}
    assert f"record={own}" in shown[paired]
    assert "shut down after" in shown[alone]
    edited = [line[1:] if line == shown[paired] else line for line in edited]
    path.write_text("\n".join(edited), encoding="utf-8")
    requests.put(
        f"{cluster.registry.url}/arvados/v1/nodes/{changed}",
        json={"node": {"properties": {"note": "mine"}}},
        headers={"Authorization": f"OAuth2 {TOKEN}"},
        timeout=10,
    ).raise_for_status()

    said = command(cluster.config, "backlog", "apply", str(path))

    assert "26 items: 24 cleaned, 1 adopted, 1 left alone" in said
    assert f"left alone: {changed} changed_since_plan (" in said
    rows = cluster.registry.rows()
    kept = {line.split()[1] for line in (*deleted, *commented)} | {changed}
    assert {uuid for uuid in leaked if rows[uuid]["slot_number"] is not None} == kept
    assert rows[own]["slot_number"] == 40
    nodes = cluster.running()
    assert nodes[paired].meta()["tags"] == {"owner": "alice", "nodemanager-pool": "live"}
    assert nodes[alone].meta()["tags"] == {"owner": "alice"}
    daemon.wait_for("node.adopted", node=paired)
    (audit,) = daemon.lines("operator.backlog")
    assert (audit["action"], audit["count"]) == ("apply", "26")

    # Once a record listing shows what was cleaned: a cycle's counts are logged when they change.
    held = sum(row["slot_number"] is not None for row in rows.values())
    slots = int(daemon.lines("cycle.done")[-1]["slots"])
    daemon.wait_for("cycle.done", free=slots - held)
    again = command(cluster.config, "backlog", "apply", str(path))
    assert "1 left alone" in again
    written = {uuid: row["modified_at"] for uuid, row in rows.items() if uuid in leaked}
    now = cluster.registry.rows()
    assert {uuid: now[uuid]["modified_at"] for uuid in written} == written
    left = answer(cluster.config, "backlog", "plan")
    assert {item["id"] for item in left["items"] if item["deed"] == "clean"} == kept - {changed}
    assert daemon.terminate() == 0


def test_a_daemon_that_is_killed_in_between_goes_on_with_the_plan(
    cluster: DirectedCluster, tmp_path: Path
) -> None:
    leak(cluster, LEAKED)
    first = cluster.start()
    first.wait_for("backlog.found")
    path = tmp_path / "leaked.plan"
    command(cluster.config, "backlog", "plan", "--out", str(path))
    command(cluster.config, "backlog", "apply", str(path), "--no-wait")
    first.wait_for("record.cleaned")
    first.kill()
    assert len(first.lines("record.cleaned")) < LEAKED

    second = cluster.start()

    second.wait_for("operator.backlog", action="continued")
    until("the plan to end", lambda: second.lines("backlog.done"), within=60, told=second.told)
    assert answer(cluster.config, "backlog", "status")["items"] == []
    assert not second.lines("backlog.skipped")
    rows = cluster.registry.rows().values()
    assert not [row for row in rows if row["slot_number"] is not None]
    assert second.terminate() == 0
