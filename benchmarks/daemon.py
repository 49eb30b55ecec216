"""Threads and memory of the running daemon: its own process over a prefilled registry."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import sqlalchemy as sa

from benchmarks import pools
from nodemanager.lib.clock import SystemClock
from nodemanager.records.schema import nodes, store
from nodemanager.records.sql import SqlRecordStore

POLLS = 6
START_S = 180.0
REST_S = 1.5
CONFIG = """
[Daemon]
pool = {pool}
state_dir = {home}/state
min_nodes = 0
max_nodes = {slots}
poll_time = 5
max_poll_time = 10
[Manage]
port = 0
[Logging]
file = {home}/log
[Cloud]
provider = dummy
[Records]
provider = registry
[Registry]
database = sqlite:///{home}/registry.db
listen = 127.0.0.1:0
slots = {slots}
[Size {size}]
instance_type = {size}
cores = 2
ram = 8000
price = 0.1
"""


@dataclass(frozen=True)
class Footprint:
    """What the daemon took over some polls, once the first plan was made and written down.

    `cpu_s` is of one poll of everything (listings, folds, plans), each record pinged since the one
    before by another process. The peak is since the start.
    """

    threads: int
    resident_mb: float
    peak_mb: float
    cpu_s: float


def prefill(url: str, count: int) -> None:
    """Put `count` records into a new registry, each pinged within the last minute."""
    made = SqlRecordStore(
        url,
        slots=2 * count,
        hostname="compute%(slot_number)d",
        domain="bench.example",
        public_url="http://127.0.0.1:1",
        clock=SystemClock(),
    )
    made.close()
    now = time.time()
    rows = []
    for number in range(count):
        row = pools.record_row(number, ping=1, pinged_at=now, stale=False)
        rows.append(row | {"incarnation": pools.incarnation_of(number)})
    engine = sa.create_engine(url)
    with engine.begin() as connection:
        connection.execute(sa.insert(nodes), rows)
    engine.dispose()


def footprint(count: int) -> Footprint:
    """Run the daemon over `count` nodes and as many records for POLLS polls."""
    with tempfile.TemporaryDirectory(prefix="nodemanager-bench-") as home:
        prefill(f"sqlite:///{home}/registry.db", count)
        config = Path(home, "bench.cfg")
        config.write_text(
            CONFIG.format(
                pool=pools.POOL, home=home, slots=2 * count, size=pools.SIZE.instance_type
            )
        )
        config.chmod(0o600)
        with _daemon(count, config) as process:
            log, database = Path(home, "log"), f"sqlite:///{home}/registry.db"
            _wait_for(process, lambda: log.exists() and "event=cycle.done" in log.read_text())
            # The first plan is logged before the journal writes it, which takes as long as a poll.
            _wait_for(process, lambda: _rests(process))
            first, began_s = _polls(database), _cpu_s(process)
            for number in range(POLLS):
                _ping_all(database)
                _wait_for(process, lambda at=first + number: _polls(database) > at)
            # What the last poll brought is still to be decided about.
            _wait_for(process, lambda: _rests(process))
            polls, spent_s = _polls(database) - first, _cpu_s(process) - began_s
            status = Path(f"/proc/{process.pid}/status").read_text()
            return Footprint(
                threads=_number(status, "Threads"),
                resident_mb=_number(status, "VmRSS") / 1024,
                peak_mb=_number(status, "VmHWM") / 1024,
                cpu_s=spent_s / polls,
            )


@contextlib.contextmanager
def _daemon(count: int, config: Path) -> Iterator[subprocess.Popen[bytes]]:
    process = subprocess.Popen(
        [sys.executable, "-m", "benchmarks.preset", "run", "--config", str(config)],
        cwd=Path(__file__).parents[1],
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[1]), "BENCH_NODES": str(count)},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
    )
    try:
        yield process
    finally:
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(60)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _wait_for(process: subprocess.Popen[bytes], happened: Callable[[], bool]) -> None:
    until = time.monotonic() + START_S
    while time.monotonic() < until:
        if process.poll() is not None:
            assert process.stderr is not None
            raise RuntimeError(f"the daemon ended: {process.stderr.read().decode()[-2000:]}")
        if happened():
            return
        time.sleep(0.5)
    raise RuntimeError(f"the daemon did not come so far in {START_S:g} s")


def _polls(url: str) -> int:
    """How often the daemon read the store's clock: once with each record poll."""
    engine = sa.create_engine(url)
    with engine.connect() as connection:
        beats = connection.scalar(sa.select(store.c.heartbeats))
    engine.dispose()
    return int(beats or 0)


def _ping_all(url: str) -> None:
    """Change all records as pings do that only say that their nodes live."""
    at = round(time.time() * 1e9) - 100_000 * nodes.c.slot_number
    pinged = sa.update(nodes).values(last_ping_at=at, modified_at=at, version=nodes.c.version + 1)
    engine = sa.create_engine(url)
    with engine.begin() as connection:
        connection.execute(pinged)
    engine.dispose()


def _cpu_s(process: subprocess.Popen[bytes]) -> float:
    """CPU seconds of the process so far, its threads' all."""
    fields = Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _rests(process: subprocess.Popen[bytes]) -> bool:
    """Whether it has done all that its polls brought: for REST_S it takes next to no CPU time."""
    began_s = _cpu_s(process)
    time.sleep(REST_S)
    return _cpu_s(process) - began_s < 0.03


def _number(status: str, name: str) -> int:
    found = re.search(rf"^{name}:\s+(\d+)", status, re.MULTILINE)
    assert found is not None
    return int(found[1])
