"""Measure, and print one table."""

from __future__ import annotations

import argparse
import sys
import tempfile
from contextlib import ExitStack
from glob import glob
from pathlib import Path

from rich.console import Console
from rich.table import Table

from benchmarks import commands, daemon, planner, pools, queue, registry
from nodemanager.lib.clock import SystemClock
from nodemanager.lib.memory import collecting

COUNTS = (100, 1_000, 10_000, 100_000)
QUEUES = 10_000, 100_000
GROWTH_GOAL, DECODING_GOAL, LITTLE_GOAL = 11.0, 1.5, 0.3
PINGS_GOAL = 4_000
"""Pings a second over 16 connections, on SQLite."""
DAEMON_NODES, THREADS_GOAL, MEMORY_GOAL, POLL_GOAL = 10_000, 52, 250, 2.5
"""Of the threads, 32 are for creates and destroys."""
PLAIN = 2_000
"""The plain pairing is measured at this many; at ten thousand it costs the square of five more."""


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="leave 100,000 nodes out")
    parts = {"commands": starting, "queue": waiting}
    parser.add_argument("--only", choices=parts, help="measure only that part")
    given = parser.parse_args()
    quick = given.quick
    console = Console()
    if given.only:
        parts[given.only](console)
        return 0
    starting(console)
    with collecting(SystemClock()):  # as in the daemon
        deciding(console, COUNTS[:-1] if quick else COUNTS)
    waiting(console)
    running(console)
    pinging(console)
    return 0


def starting(console: Console) -> None:
    """What an operator waits for before a command says anything, or completes a word."""
    table = Table(
        title="The command's start, the shortest of a dozen",
        caption="the ratio is to `python -c pass` in turns; the goals are for a quiet machine",
    )
    for heading in ("", "ms", "ratio", "goal ms"):
        table.add_column(heading, justify="right" if heading else "left")
    console.log("the command's start")
    with tempfile.TemporaryDirectory() as home:
        for one in commands.starts(Path(home)):
            took = f"{one.seconds * 1e3:.0f}"
            table.add_row(one.what, took, f"{one.ratio:.1f}", f"<= {one.goal_s * 1e3:.0f}")
    console.print(table)


def deciding(console: Console, counts: tuple[int, ...]) -> None:
    """What a round of deciding costs, beside what it must not cost more than."""
    costs: dict[tuple[int, bool], planner.Round] = {}
    for count in counts:
        for stale in (False, True):
            measured = 3 if count > 10_000 else 7
            console.log(f"deciding about {count:,} nodes{', 10 % stale' if stale else ''}")
            costs[count, stale] = planner.rounds(
                count, stale=count // 10 if stale else 0, measured=measured
            )
    table = Table(
        title="Both listings folded and one plan, CPU time",
        caption="as many records as nodes; 'cold' after other work; 'gc' once in ten minutes",
    )
    for heading in ("nodes", "pool", "ms", "us each", "cold us", "gc ms", "keep", "clean + defer"):
        table.add_column(heading, justify="right")
    for (count, stale), cost in costs.items():
        table.add_row(
            f"{count:,}",
            "10 % stale" if stale else "steady",
            f"{cost.cpu_s * 1e3:.1f}",
            f"{cost.cpu_s * 1e6 / count:.2f}",
            f"{cost.cold_s * 1e6 / count:.2f}",
            f"{cost.gc_s * 1e3:.0f}",
            f"{cost.kept:,}",
            f"{cost.cleans} + {cost.deferred:,}",
        )
    console.print(table)
    console.log("decoding JSON; pairing by search")
    decoding = planner.decoding(10_000)
    plain = planner.plain_pairing(PLAIN)
    ratios = Table(title="Ratios of this run")
    for heading in ("ratio", "steady", "10 % stale", "goal"):
        ratios.add_column(heading, justify="right")
    if 100_000 in counts:
        ratios.add_row(
            "100,000 / 10,000 nodes, cold",
            *(f"{costs[100_000, s].cold_s / costs[10_000, s].cold_s:.1f}" for s in (False, True)),
            f"<= {GROWTH_GOAL:g}",
        )
        ratios.add_row(
            "100,000 / 10,000 nodes, warm (the size of the cache, too)",
            *(f"{costs[100_000, s].cpu_s / costs[10_000, s].cpu_s:.1f}" for s in (False, True)),
            "",
        )
    ratios.add_row(
        f"deciding / decoding both listings' JSON at 10,000 ({decoding * 1e3:.0f} ms)",
        *(f"{costs[10_000, s].cpu_s / decoding:.2f}" for s in (False, True)),
        f"<= {DECODING_GOAL:g}",
    )
    little, whole = planner.little_changed(10_000, 7)
    ratios.add_row(
        f"one node in {pools.CHANGED_EVERY} changed / all of them pinged, at 10,000",
        f"{little / whole:.2f}",
        "",
        f"<= {LITTLE_GOAL:g}",
    )
    scaled = plain * (10_000 / PLAIN) ** 2
    ratios.add_row(
        f"nodes-times-records pairing / deciding at 10,000 (measured at {PLAIN:,}: "
        f"{plain * 1e3:.0f} ms, times {(10_000 / PLAIN) ** 2:g})",
        *(f"{scaled / costs[10_000, s].cpu_s:.0f}" for s in (False, True)),
        "",
    )
    console.print(ratios)


def waiting(console: Console) -> None:
    """What a queue costs, and how that grows with it."""
    few, many = QUEUES
    table = Table(
        title=f"A queue of {few:,} and of {many:,} jobs beside {queue.NODES} nodes, CPU time",
        caption="'of decoding': the ratio to decoding the longer queue's lines of JSON",
    )
    for heading in ("", *(f"{count:,}, ms" for count in QUEUES), "growth", "of decoding", "goal"):
        table.add_column(heading, justify="right" if heading else "left")
    console.log("waiting jobs")
    with collecting(SystemClock()):
        steps = [queue.costs(few, 7), queue.costs(many, 3)]
    for one, other in zip(*steps, strict=True):
        table.add_row(
            one.what,
            *(f"{cost.seconds * 1e3:.1f}" for cost in (one, other)),
            f"{other.seconds / one.seconds:.1f}",
            f"{other.seconds / other.lines_s:.1f}",
            f"<= {other.goal:g}",
        )
    console.print(table)


def running(console: Console) -> None:
    """What the daemon takes while it runs."""
    console.log(f"the daemon over {DAEMON_NODES:,} nodes")
    seen = daemon.footprint(DAEMON_NODES)
    table = Table(title=f"The running daemon at {DAEMON_NODES:,} nodes and records")
    for heading in ("", "seen", "goal"):
        table.add_column(heading, justify="right")
    table.add_row("threads", str(seen.threads), f"<= {THREADS_GOAL}")
    table.add_row("resident now", f"{seen.resident_mb:.0f} MB", f"<= {MEMORY_GOAL} MB")
    table.add_row("resident at its peak", f"{seen.peak_mb:.0f} MB", "")
    decoding = planner.decoding(DAEMON_NODES)
    table.add_row("CPU of a poll of everything", f"{seen.cpu_s * 1e3:.0f} ms", "")
    table.add_row(
        f"the same / decoding both listings' JSON ({decoding * 1e3:.0f} ms)",
        f"{seen.cpu_s / decoding:.1f}",
        f"<= {POLL_GOAL:g}",
    )
    console.print(table)


def pinging(console: Console) -> None:
    """What the registry answers, every check and the wait for the disk included."""
    table = Table(
        title=f"Pings to a registry of {registry.RECORDS:,} records",
        caption="'bare' is an application that only answers, on the same server, in this run: "
        f"'of bare' says how near we come. Goal: {PINGS_GOAL:,}/s over 16 connections on SQLite",
    )
    for heading in (
        "",
        "connections",
        "beside",
        "pings/s",
        "of bare",
        "CPU us",
        "p50 ms",
        "p99 ms",
    ):
        table.add_column(heading, justify="right")
    bare: dict[tuple[int, str], float] = {}
    alone: dict[str, float] = {}
    with ExitStack() as closing:
        home = closing.enter_context(tempfile.TemporaryDirectory())
        databases = [(registry.BARE, None), ("SQLite", f"sqlite:///{home}/registry.db")]
        if glob("/usr/lib/postgresql/*/bin/postgres"):
            from tests.contract.stores import Postgres

            server = Postgres(durable=True)
            closing.callback(server.stop)
            databases.append(("PostgreSQL", server.new_database()))
        for name, database in databases:
            console.log(f"pings: {name}")
            for rate in registry.measure(name, database):
                key = rate.connections, rate.beside
                bare.setdefault(key, rate.pings_s)
                if not rate.beside:
                    alone[f"{name} {rate.connections}"] = rate.p99_ms
                longer = rate.p99_ms / alone[f"{name} {rate.connections}"]
                beside = rate.beside
                if beside == registry.WORST:
                    beside += f": p99 x{longer:.1f} (goal <= {registry.WORST_GOAL:g})"
                table.add_row(
                    name,
                    str(rate.connections),
                    beside,
                    f"{rate.pings_s:,.0f}",
                    f"{rate.pings_s / bare[key]:.0%}",
                    f"{rate.cpu_us:.0f}",
                    f"{rate.p50_ms:.1f}",
                    f"{rate.p99_ms:.1f}" + (f" ({rate.refused} refused)" if rate.refused else ""),
                )
    console.print(table)


if __name__ == "__main__":
    sys.exit(main())
