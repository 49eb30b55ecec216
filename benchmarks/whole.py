"""A pool whole, each of its nodes pinging every minute: python -m benchmarks.whole [NODES].

PostgreSQL, two registries behind HAProxy, and a daemon over the dummy cloud. First the pool rests;
then a backlog of stale records is drained while nodes are booted. What each process computed is
told as a share of one processor, so that other pools and machines can be worked out from it
(doc/scale).
"""

from __future__ import annotations

import http.client
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from datetime import datetime
from itertools import pairwise
from pathlib import Path

import sqlalchemy as sa
from rich.console import Console
from rich.table import Table

from benchmarks import pools
from benchmarks.registry import cpu_s
from nodemanager.lib.clock import SystemClock
from nodemanager.records.schema import nodes
from nodemanager.records.sql import SqlRecordStore
from tests.contract.stores import Postgres
from tests.live.haproxy import HAProxy
from tests.live.harness import (
    Daemon,
    Line,
    end_all,
    environment,
    free_port,
    write_config,
)
from tests.waiting import until

NODES = 10_000
BACKLOG_PART, BOOTS_PART = 5, 50
"""The backlog is a fifth of the nodes, and a fiftieth as many are booted meanwhile."""
POLL_S = 60.0
RESTS_POLLS = 5
RATE = 600
"""Records a minute that the backlog may free, and at most in one cycle."""
ANSWER_S = 0.2
"""Seconds that each answer of the cloud takes."""
CLIENTS = 16
WITHIN_S = 2400.0
ANSWER_GOAL_S = 1.0


@dataclass
class Pings:
    """Each node's ping once a minute, evenly spread, over CLIENTS connections.

    A ping's time counts from the moment when it was due, so that one that waits is not forgotten.
    """

    port: int
    requests: list[tuple[str, str]]
    took_s: list[float] = field(default_factory=list)
    refused: int = 0
    _over: threading.Event = field(default_factory=threading.Event)

    def _keep(self, share: int) -> None:
        own = self.requests[share::CLIENTS]
        line = http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)
        begun, sent = time.monotonic() + share * POLL_S / len(self.requests), 0
        while True:
            due = begun + sent * POLL_S / len(own)
            if self._over.wait(max(0.0, due - time.monotonic())):
                return
            path, body = own[sent % len(own)]
            head = {"Content-Type": "application/x-www-form-urlencoded"}
            try:
                line.request("POST", path, body, head)
                answer = line.getresponse()
                answer.read()
                self.refused += answer.status != 200
            except (OSError, http.client.HTTPException):
                line.close()
                self.refused += 1
            self.took_s.append(time.monotonic() - due)
            sent += 1

    @contextmanager
    def sent(self) -> Iterator[None]:
        threads = [threading.Thread(target=self._keep, args=(at,)) for at in range(CLIENTS)]
        for thread in threads:
            thread.start()
        try:
            yield
        finally:
            self._over.set()
            for thread in threads:
                thread.join()


@dataclass
class Pool:
    """The processes; `shares` says what each of them computes."""

    nodes: int
    home: Path
    postgres: Postgres
    proxy: HAProxy
    registries: list[Daemon]
    daemon: Daemon
    pings: Pings
    config: Path
    sections: Mapping[str, Mapping[str, object]]

    def cpu(self) -> dict[str, float]:
        """Seconds that each had of a processor so far."""
        database = 0.0
        for pid in self.postgres.processes():
            # A connection's process may end meanwhile.
            with suppress(OSError):
                database += cpu_s(pid)
        return {
            "daemon": cpu_s(self.daemon.process.pid),
            "registries": sum(cpu_s(one.process.pid) for one in self.registries),
            "HAProxy": cpu_s(self.proxy.pid),
            "PostgreSQL": database,
        }


Row = tuple[str, str, str]


@contextmanager
def running(count: int) -> Iterator[Pool]:
    """A pool of `count` nodes with its backlog, which is held back; it was polled once."""
    with ExitStack() as stack:
        home = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="nodemanager-bench-")))
        postgres = Postgres(durable=True)
        stack.callback(postgres.stop)
        backlog, boots = count // BACKLOG_PART, count // BOOTS_PART
        database = postgres.new_database()
        slots = count + backlog + boots
        ports = [free_port() for _ in range(3)]
        prefill(database, count, backlog, slots)
        registries = [
            _registry(home, f"registry{port}", port, ports[0], database, slots)
            for port in ports[1:]
        ]
        stack.callback(end_all, registries)
        for one in registries:
            one.wait_for("server.started", name="registry", within=WITHIN_S)
        proxy = HAProxy(home, ports[0], [f"127.0.0.1:{port}" for port in ports[1:]])
        stack.callback(proxy.stop)
        until("both registries", lambda: len(proxy.up()) == 2, told=proxy.told)
        sections = _sections(home, ports[0], database, count, slots)
        config = write_config(home / "pool.cfg", sections)
        daemon = Daemon(
            config,
            home / "state",
            log=home / "daemon.log",
            module="benchmarks.preset",
            told={"BENCH_NODES": str(count), "BENCH_ANSWER_S": str(ANSWER_S)},
            patience_s=WITHIN_S,
        )
        stack.callback(end_all, [daemon])
        pings = Pings(ports[0], [_ping_of(number) for number in range(count)])
        with pings.sent():
            daemon.wait_for("backlog.found")
            yield Pool(count, home, postgres, proxy, registries, daemon, pings, config, sections)
        assert daemon.terminate() == 0, daemon.told()


def _registry(home: Path, name: str, port: int, public: int, database: str, slots: int) -> Daemon:
    sections = {
        "Daemon": {"pool": pools.POOL, "state_dir": home / name},
        "Cloud": {"provider": "dummy"},
        "Records": {"provider": "registry"},
        "Registry": {
            "database": database,
            "listen": f"127.0.0.1:{port}",
            "public_url": f"http://127.0.0.1:{public}",
            "token": "bench",
            "slots": slots,
        },
    }
    config = write_config(home / f"{name}.cfg", sections)
    (home / name).mkdir()
    return Daemon(config, home / name, command="registry", log=home / f"{name}.log")


def _sections(
    home: Path, public: int, database: str, count: int, slots: int
) -> dict[str, dict[str, object]]:
    (home / "state").mkdir()
    return {
        "Daemon": {
            "pool": pools.POOL,
            "state_dir": home / "state",
            "min_nodes": count,
            "max_nodes": slots,
            "poll_time": POLL_S,
            "max_poll_time": POLL_S,
        },
        "Cleaning": {"max_cleans_per_cycle": RATE},
        "Manage": {"port": 0},
        "Cloud": {"provider": "dummy"},
        "Cloud Create": {"ping_host": f"http://127.0.0.1:{public}"},
        "Records": {"provider": "registry"},
        "Registry": {"database": database, "listen": "", "slots": slots},
        f"Size {pools.SIZE.instance_type}": {
            "instance_type": pools.SIZE.instance_type,
            "cores": 2,
            "ram": 8000,
            "price": 0.1,
        },
    }


def prefill(url: str, count: int, stale: int, slots: int) -> None:
    """Put the records of `count` nodes into a new registry, and `stale` ones that nobody has."""
    store = SqlRecordStore(
        url,
        slots=slots,
        hostname="compute%(slot_number)d",
        domain="bench.example",
        public_url="http://127.0.0.1:1",
        clock=SystemClock(),
    )
    now, rows = time.time(), []
    for number in range(count + stale):
        row = pools.record_row(number, ping=1, pinged_at=now, stale=number >= count)
        rows.append(row | {"incarnation": pools.incarnation_of(number)})
    with store.db.writing() as connection:
        connection.execute(sa.insert(nodes), rows)
    store.close()


def _ping_of(number: int) -> tuple[str, str]:
    told = (
        f"ping_secret={number:032d}&instance_id={pools.instance_of(number)}&worker_state=busy"
        "&local_ipv4=10.0.0.1&total_cpu_cores=2"
    )
    return f"/arvados/v1/nodes/{pools.uuid_of(number)}/ping", told


@contextmanager
def measured(pool: Pool, rows: list[Row]) -> Iterator[None]:
    """Tell of what happens meanwhile: the pings, what each process computed, the cycles."""
    first, after, before, began = (
        len(pool.pings.took_s),
        pool.daemon.last(),
        pool.cpu(),
        time.time(),
    )
    refused = pool.pings.refused
    yield
    seconds = time.time() - began
    took = sorted(pool.pings.took_s[first:])
    p99 = took[int(len(took) * 0.99)]
    rows.append(("pings a second", f"{len(took) / seconds:.0f}", f"{pool.nodes / POLL_S:.0f}"))
    rows.append(("of these not taken", str(pool.pings.refused - refused), "0"))
    rows.append(("a ping's answer, median", f"{took[len(took) // 2] * 1e3:.1f} ms", ""))
    rows.append(("its 99th percentile", f"{p99 * 1e3:.0f} ms", f"<= {ANSWER_GOAL_S:g} s"))
    rows.append(("the longest", f"{took[-1]:.2f} s", ""))
    for name, now in pool.cpu().items():
        rows.append((f"{name}, of one processor", f"{(now - before[name]) / seconds:.1%}", ""))
    cycles = pool.daemon.lines("cycle.done", after=after)
    rows.append(("decisions a minute", f"{_decided(cycles):.1f}", ""))
    rows.append(("the longest time between two lines", f"{_longest_gap(cycles):.0f} s", ""))


def _decided(lines: list[Line]) -> float:
    """How many a minute: the log has a line of one that changed nothing once a minute."""
    first, last = lines[0], lines[-1]
    numbers = [int(line["plan"].rpartition("-")[2]) for line in (first, last)]
    return 60.0 * (numbers[1] - numbers[0]) / (_at(last) - _at(first))


def _at(line: Line) -> float:
    return datetime.fromisoformat(line["ts"]).timestamp()


def _longest_gap(lines: list[Line]) -> float:
    return max((_at(later) - _at(sooner) for sooner, later in pairwise(lines)), default=0.0)


def rests(pool: Pool) -> list[Row]:
    """All nodes work, nothing is to be done."""
    rows: list[Row] = []
    time.sleep(POLL_S)
    with measured(pool, rows):
        time.sleep(RESTS_POLLS * POLL_S)
    status = Path(f"/proc/{pool.daemon.process.pid}/status").read_text(encoding="ascii")
    memory = status.partition("VmRSS:")[2].split()[0]
    rows.append(("the daemon's memory", f"{int(memory) / 1024:.0f} MB", ""))
    return rows


def drains(pool: Pool) -> list[Row]:
    """The backlog is drained, and nodes are booted meanwhile."""
    rows: list[Row] = []
    backlog, boots = pool.nodes // BACKLOG_PART, pool.nodes // BOOTS_PART
    plan = pool.home / "backlog.plan"
    _command(pool, "backlog", "plan", "--out", str(plan))
    begin = pool.daemon.last()
    began = time.monotonic()
    with measured(pool, rows):
        _command(pool, "backlog", "apply", str(plan), "--rate", f"{RATE}/min", "--no-wait")
        more = {**pool.sections["Daemon"], "min_nodes": pool.nodes + boots}
        write_config(pool.config, {**pool.sections, "Daemon": more})
        pool.daemon.reload()
        pool.daemon.wait_for("node.created", after=begin, count=boots)
        booted_s = time.monotonic() - began
        done = pool.daemon.wait_for("backlog.done", after=begin)
        took_s = time.monotonic() - began
    rows.append((f"{backlog} stale records, freed", done["cleaned"], str(backlog)))
    rows.append(("a second", f"{int(done['cleaned']) / took_s:.1f}", ""))
    rows.append((f"{boots} nodes booted after", f"{booted_s:.0f} s", f"<= {took_s:.0f} s"))
    living = {pools.uuid_of(number) for number in range(pool.nodes)}
    wrong = living & {line["record"] for line in pool.daemon.lines("record.cleaned")}
    rows.append(("records of living nodes freed", str(len(wrong)), "0"))
    return rows


def _command(pool: Pool, *arguments: str) -> None:
    command = [sys.executable, "-m", "nodemanager", *arguments, "--config", str(pool.config)]
    subprocess.run(command, check=True, env=environment(), stdin=subprocess.DEVNULL, timeout=600)


def main() -> int:
    count = int(sys.argv[1]) if len(sys.argv) > 1 else NODES
    console = Console()
    phases: tuple[Callable[[Pool], list[Row]], ...] = (rests, drains)
    console.log(f"{count} nodes, on {os.cpu_count()} processors")
    with running(count) as pool:
        for phase in phases:
            console.log(phase.__doc__)
            table = Table(title=phase.__doc__)
            for heading in ("", "seen", "goal"):
                table.add_column(heading, justify="right" if heading else "left")
            for row in phase(pool):
                table.add_row(*row)
            console.print(table)
    return 0


if __name__ == "__main__":
    sys.exit(main())
