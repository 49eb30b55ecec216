"""How many creates and destroys run at once on EC2's API: python -m benchmarks.creates [NODES].

Each takes two seconds. moto is the API, in a process of its own beside the daemon.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from rich.console import Console
from rich.table import Table

from tests.live.cluster import Sections
from tests.live.ec2 import Ec2Cluster
from tests.live.harness import Daemon
from tests.live.many import (
    RUN,
    TERMINATE,
    at_once,
    grow,
    longest_gap,
    many_cluster,
    pinging,
    shrink,
    took,
    unseen,
)
from tests.waiting import until

NODES = 200
TAKES_S = 2.0
POLL_S = 20.0
PER_S = 10.0
WITHIN_S = 600.0
AT_ONCE_GOAL, THROTTLED_GOAL, VAIN_GOAL = 12.0, 1.25, 5


def main() -> int:
    nodes = int(sys.argv[1]) if len(sys.argv) > 1 else NODES
    table = Table(
        title=f"{nodes} nodes, {TAKES_S:g} s for each create and each destroy",
        caption="moto needs a processor for itself, and most for listings: hence so few polls",
    )
    for heading in ("", "seen", "goal"):
        table.add_column(heading, justify="right" if heading else "left")
    console = Console()
    for measured in (old, many, throttled, quota):
        console.log(measured.__doc__)
        for row in measured(nodes):
            table.add_row(*row)
    console.print(table)
    return 0


Row = tuple[str, str, str]


@contextmanager
def _running(nodes: int, *layers: Sections) -> Iterator[tuple[Ec2Cluster, Daemon]]:
    with (
        tempfile.TemporaryDirectory(prefix="nodemanager-bench-") as home,
        closing(many_cluster(Path(home), nodes, *layers, poll_s=POLL_S)) as cluster,
    ):
        for action in (RUN, TERMINATE):
            cluster.cloud.slow(action, TAKES_S)
        daemon = cluster.start()
        daemon.wait_for("cycle.done")
        yield cluster, daemon


def old(nodes: int) -> Iterator[Row]:
    """Three at once, as it was, for a quarter as many nodes."""
    few: Sections = {"Cloud": {"max_creates": 3}}
    with _running(nodes // 4, few) as (cluster, daemon):
        made = grow(cluster, daemon, nodes // 4, WITHIN_S)
        yield "with max_creates = 3: creates at once", f"{at_once(made):.1f}", ""
        yield "nodes created a second", f"{len(made) / took(made):.1f}", ""


def many(nodes: int) -> Iterator[Row]:
    """As it is; the nodes ping, and end once nobody wants them."""
    with _running(nodes) as (cluster, daemon), pinging(cluster, daemon, TAKES_S) as pings:
        made = grow(cluster, daemon, nodes, WITHIN_S)
        yield "creates at once", f"{at_once(made):.1f}", f">= {AT_ONCE_GOAL:g}"
        yield "nodes created a second", f"{len(made) / took(made):.1f}", ""
        ended = shrink(cluster, daemon, nodes, WITHIN_S)
        yield "destroys at once", f"{at_once(ended):.1f}", f">= {AT_ONCE_GOAL:g}"
        yield "destroyed without a look before", str(len(unseen(cluster))), "0"
        yield "longest answer to a ping", f"{pings.longest_s:.2f} s", "<= 1 s"
        yield "longest time between two plans", f"{longest_gap(daemon):.1f} s", f"<= {POLL_S + 1} s"


def throttled(nodes: int) -> Iterator[Row]:
    """The cloud serves ten calls a second, and up to 32 creates at once would be more."""
    wide: Sections = {"Cloud": {"max_creates": 32}}
    with _running(nodes, wide) as (cluster, daemon):
        cluster.cloud.allow(PER_S)
        made = grow(cluster, daemon, nodes, WITHIN_S)
        ratio = took(made) / (nodes / PER_S)
        yield f"with {PER_S:g} calls a second: times the limit's own", f"{ratio:.2f}", "<= 1.25"
        tries = len(cluster.cloud.calls(RUN))
        yield "creates sent for each node", f"{tries / nodes:.2f}", ""


def quota(nodes: int) -> Iterator[Row]:
    """The account may have three fifths of what is wanted."""
    allowed = nodes * 3 // 10
    with _running(nodes // 2, {"Daemon": {"boot_fail_after": 30}}) as (cluster, daemon):
        cluster.cloud.quota(allowed)
        with pinging(cluster, daemon, TAKES_S):
            cluster.want(nodes // 2)
            daemon.wait_for("node.boot_refused", reason="at_quota", within=WITHIN_S)
            tries = len(cluster.cloud.calls(RUN))
            yield f"a quota of {allowed}: creates in vain", str(tries - allowed), f"<= {VAIN_GOAL}"
            until("a probe", lambda: len(cluster.cloud.calls(RUN)) > tries, WITHIN_S)
            yield "and then, as a probe", str(len(cluster.cloud.calls(RUN)) - tries), "1"


if __name__ == "__main__":
    sys.exit(main())
