"""Connections that end half-way, in both directions, while a pool grows, loses a node and drains.

A request that was cut never took effect; a reply that was cut hides that it did. Of each kind of
request at least one meets either fate (SAFETY.md U5, D3, R1, L1).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest

from tests.live import hasty, ledger
from tests.live.far import FarCluster
from tests.live.harness import Daemon, Line, claim_of
from tests.live.ledger import Windows
from tests.live.proxy import Fate
from tests.waiting import until

pytestmark = [
    pytest.mark.proof,
    pytest.mark.live,
    pytest.mark.server("curl"),
    pytest.mark.timeout(600),
]

NODES = 3
SLOTS = 4
WINDOW_S = 5.0
BOOT_FAIL_S = 3.0
SHARE = 0.04
WINDOWS = Windows(stale_s=WINDOW_S, claim_s=BOOT_FAIL_S + hasty.CREATE_MARGIN_S + 0.5)
WRITES = ("RunInstances", "TerminateInstances", "POST /nodes", "PUT /nodes/UUID")
READS = ("DescribeInstances", "GET /nodes", "GET /nodes/UUID", "POST /nodes/UUID/ping")
WITHIN_S = 120.0


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[FarCluster]:
    made = FarCluster(
        tmp_path / "cluster",
        {
            "Daemon": {
                "min_nodes": NODES,
                "max_nodes": NODES,
                "poll_time": 0.4,
                "max_poll_time": 1,
                "node_stale_after": WINDOW_S,
                "boot_fail_after": BOOT_FAIL_S,
            },
            "Registry": {"slots": SLOTS},
            "Cleaning": {"settle": 1, "action_timeout": 5},
        },
        module=hasty.__name__,
    )
    made.farm.everyone("busy")
    with closing(made):
        yield made


def test_cut_connections_make_no_node_twice_and_lose_no_record(cluster: FarCluster):
    seen: set[str] = set()

    def balanced(done: Callable[[], bool]) -> Callable[[], bool]:
        """Look at the ledger each time before it is asked whether that is done."""

        def ask() -> bool:
            read = ledger.read(cluster, WINDOWS, NODES)
            assert read.broken == ()
            rows = cluster.registry.rows()
            claims = Counter(c["incarnation"] for row in rows.values() if (c := claim_of(row)))
            assert [one for one, count in claims.items() if count > 1] == []
            assert seen <= rows.keys(), "a record is no more"
            seen.update(rows)
            return done()

        return ask

    def reached(what: str, done: Callable[[], bool]) -> None:
        until(what, balanced(done), WITHIN_S, told=daemon.told)

    with cluster.cloud.cutting(SHARE, seed=1), cluster.records.cutting(SHARE, seed=2):
        daemon = cluster.start()
        reached("a busy node", lambda: nodes_busy(cluster, daemon) >= 1)
        lost = daemon.lines("node.paired")[0]
        cluster.moto.vanish(lost["node"])
        # Creates that never arrived, and those that may have, hold their claims until they expire.
        reached("its record to be free", lambda: bool(cleaned(daemon, lost["record"])))
        reached("two other nodes", lambda: nodes_busy(cluster, daemon) >= 2)
        cluster.change({"Daemon": {"min_nodes": 0}})
        daemon.reload()
        cluster.farm.everyone("idle")
        reached("the drain", lambda: not cluster.moto.instances())
        met = cluster.cloud.met + cluster.records.met
    reached("every slot to be free", lambda: not held(cluster))

    for kind in (*WRITES, *READS):
        assert met[kind, Fate.REPLY_CUT], kind
        assert met[kind, Fate.REQUEST_CUT], kind
    created = Counter(
        tag["Value"]
        for instance in cluster.ever()
        for tag in instance.get("Tags", [])
        if tag["Key"] == "nodemanager-incarnation"
    )
    assert max(created.values()) == 1, "one incarnation, several instances"
    assert created.total() == len(cluster.ever())
    for event in ("invariant.broken", "record.false_clean"):
        assert not daemon.lines(event)
    # Five writes in a row may be cut: then it opens, as it should (B1), and heals by itself (B3).
    opened, closed = (daemon.lines(f"breaker.{what}") for what in ("opened", "closed"))
    assert {line["cause"] for line in (*opened, *closed)} <= {"writes_fail"}
    assert len(opened) == len(closed)
    assert daemon.terminate() == 0


def cleaned(daemon: Daemon, record: str) -> list[Line]:
    return daemon.lines("record.cleaned", record=record)


def nodes_busy(cluster: FarCluster, daemon: Daemon) -> int:
    """Those that the daemon thinks busy and that really are there."""
    told = int(cluster.status(daemon).get("nodes_busy", 0))
    return min(told, len(cluster.moto.instances()))


def held(cluster: FarCluster) -> list[str]:
    return [uuid for uuid, row in cluster.registry.rows().items() if ledger.holds(row)]
