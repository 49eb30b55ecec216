"""Several registries over one PostgreSQL, and a PostgreSQL that fails over to its standby."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import ExitStack, closing
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.contract.stores import Postgres
from tests.live.cluster import DirectedCluster
from tests.live.crowd import Crowd, lost, others
from tests.live.haproxy import HAProxy
from tests.live.harness import Daemon, free_port
from tests.waiting import until

pytestmark = [pytest.mark.live, pytest.mark.server("postgresql"), pytest.mark.server("curl")]

NODES = 2
MANY = 24


@dataclass
class Pool:
    """Two registries behind HAProxy, and a manager on the same database without one of its own."""

    cluster: DirectedCluster
    proxy: HAProxy
    ports: dict[str, int]
    registries: dict[str, Daemon]

    def serve(self, name: str) -> None:
        changes = {
            "Registry": {
                "listen": f"127.0.0.1:{self.ports[name]}",
                "public_url": self.cluster.registry.url,
            }
        }
        config = self.cluster.configure(changes, f"{name}.cfg")
        self.registries[name] = self.cluster.start(config=config, command="registry")
        self.registries[name].wait_for("server.started", name="registry")


def cluster_on(home: Path, database: str) -> DirectedCluster:
    made = DirectedCluster(
        home,
        {
            "Daemon": {"min_nodes": NODES, "max_nodes": NODES},
            "Registry": {"database": database, "slots": NODES + MANY},
            # Each cycle is told, also one whose counts are those of before the failover.
            "Logging": {"level": "DEBUG"},
        },
    )
    made.everyone("busy")
    return made


@pytest.fixture
def pool(tmp_path: Path) -> Iterator[Pool]:
    with ExitStack() as stack:
        server = Postgres()
        stack.callback(server.stop)
        cluster = stack.enter_context(
            closing(cluster_on(tmp_path / "cluster", server.new_database()))
        )
        ports = {"one": free_port(), "two": free_port()}
        port = int(cluster.registry.url.rpartition(":")[2])
        proxy = HAProxy(tmp_path, port, [f"127.0.0.1:{number}" for number in ports.values()])
        stack.callback(proxy.stop)
        made = Pool(cluster, proxy, ports, {})
        for name in ports:
            made.serve(name)
        until("both registries", lambda: proxy.up() == set(ports), told=proxy.told)
        yield made


@pytest.mark.server("haproxy")
def test_either_registry_may_be_killed_under_load_and_no_acknowledged_ping_is_lost(pool: Pool):
    cluster = pool.cluster
    daemon = cluster.start()
    daemon.wait_for("cycle.done", paired=NODES, busy=NODES)
    nodes = cluster.pids()
    crowd = Crowd(cluster.registry.url, others(cluster.registry, NODES, MANY))
    crowd.start()
    try:
        for name in pool.ports:
            (other,) = set(pool.ports) - {name}
            told = crowd.answered
            until("load", lambda told=told: crowd.answered > told + 2 * MANY)
            pool.registries[name].signal(signal.SIGKILL)
            until("HAProxy to notice", lambda other=other: pool.proxy.up() == {other})
            known, told = dict(crowd.acknowledged), crowd.answered
            until("pings at the other one", lambda told=told: crowd.answered > told + 2 * MANY)
            rows = cluster.registry.rows()
            assert {uuid for uuid, stamp in known.items() if lost(rows[uuid], stamp)} == set()
            pool.serve(name)
            until("both registries", lambda: pool.proxy.up() == set(pool.ports))
    finally:
        crowd.close()
    assert len(crowd.acknowledged) == MANY
    # HAProxy says 502 of a request that its registry took with it, and 503 while it has none.
    assert crowd.strange <= {502, 503}
    assert cluster.pids() == nodes
    for deed in ("list.failed", "record.clean", "node.shutdown_started", "breaker.opened"):
        assert not daemon.lines(deed), "the manager reads the database itself"
    assert daemon.terminate() == 0


@pytest.fixture
def pair() -> Iterator[tuple[Postgres, Postgres, str]]:
    """A primary, its standby, and the URL of a database that leads to whichever is the primary."""
    with ExitStack() as stack:
        primary = Postgres()
        stack.callback(primary.stop)
        database = primary.new_database().partition("?")[0].rpartition("/")[2]
        standby = Postgres(follows=primary)
        stack.callback(standby.stop)
        until("a stream", lambda: primary.ask("SELECT count(*) FROM pg_stat_replication") == 1)
        hosts = f"{primary.folder},{standby.folder}"
        url = f"postgresql://nodemanager@/{database}?host={hosts}&target_session_attrs=read-write"
        yield primary, standby, url


def test_a_failover_to_a_standby_that_has_all_heals_by_itself(
    tmp_path: Path, pair: tuple[Postgres, Postgres, str]
):
    primary, standby, url = pair
    primary.ask("ALTER SYSTEM SET synchronous_standby_names = '*'")
    primary.ask("SELECT pg_reload_conf()")
    with closing(cluster_on(tmp_path / "cluster", url)) as cluster:
        cluster.serve_registry()
        daemon = cluster.start()
        daemon.wait_for("cycle.done", paired=NODES, busy=NODES)
        nodes, ours = cluster.pids(), set(cluster.claimed())
        primary.kill()
        failed = daemon.wait_for("list.failed", source="records")
        standby.promote()
        heard = daemon.wait_for("list.ok", source="records", after=failed)
        daemon.wait_for("cycle.done", after=heard, paired=NODES, busy=NODES)
        assert set(cluster.claimed()) == ours
        assert cluster.pids() == nodes
        for deed in ("identity.changed", "record.clean", "node.shutdown_started"):
            assert not daemon.lines(deed)
        assert daemon.terminate() == 0


def test_a_failover_that_lost_transactions_is_told_and_frees_and_ends_nothing_l5(
    tmp_path: Path, pair: tuple[Postgres, Postgres, str]
):
    """The standby had stopped before the nodes took their records: none of them is in it."""
    primary, standby, url = pair
    with closing(cluster_on(tmp_path / "cluster", url)) as cluster:
        cluster.change({"Daemon": {"boot_fail_after": 5}})
        cluster.serve_registry()
        written = primary.ask("SELECT pg_current_wal_flush_lsn()")
        has_all = f"SELECT pg_last_wal_replay_lsn() >= '{written}'"
        until("the tables at the standby", lambda: standby.ask(has_all))
        standby.kill()
        daemon = cluster.start()
        daemon.wait_for("cycle.done", paired=NODES, busy=NODES)
        nodes = cluster.pids()
        primary.kill()
        standby.start()
        standby.promote()
        told = daemon.wait_for("identity.changed")
        assert "put back to an earlier state" in told["problem"]
        for node in nodes:
            daemon.wait_for("node.keep", after=told, node=node, reason="read_only")
        assert cluster.pids() == nodes
        for deed in ("record.clean", "node.shutdown_started", "node.setup_started"):
            assert not daemon.lines(deed, after=daemon.lines("identity.changed")[0])
        assert daemon.terminate() == 0
