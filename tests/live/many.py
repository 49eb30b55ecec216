"""Many nodes on EC2's API that come, ping and go; and how many creates and destroys run at once."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from datetime import datetime
from itertools import pairwise
from pathlib import Path
from typing import Any

import requests

from tests.live.cluster import TOKEN, Sections
from tests.live.ec2 import Ec2Cluster, ec2_cluster
from tests.live.harness import Daemon, Registry
from tests.waiting import until

Span = tuple[float, float]


def many_cluster(home: Path, nodes: int, *layers: Sections, poll_s: float = 5.0) -> Ec2Cluster:
    """A pool of up to that many nodes."""
    room: Sections = {
        "Daemon": {
            "max_nodes": nodes,
            "max_total_price": nodes,
            "poll_time": poll_s,
            "max_poll_time": 30,
            "poll_stale_after": 60,
            "node_stale_after": 120,
            "boot_fail_after": 600,
        },
        "Registry": {"slots": nodes},
        "Cloud Create": {"user_data": None},
    }
    return ec2_cluster(home, room, *layers)


def at_once(spans: Sequence[Span]) -> float:
    """How many of these calls ran at once, on average from the first one to the last."""
    return sum(ended - began for began, ended in spans) / took(spans)


def took(spans: Sequence[Span]) -> float:
    """Seconds from the first call's beginning to the last one's end."""
    return max(ended for _, ended in spans) - min(began for began, _ in spans)


class Pings:
    """The idle nodes' pings, one after the other, until their nodes are destroyed."""

    def __init__(self, cluster: Ec2Cluster, daemon: Daemon, every_s: float) -> None:
        self._cluster, self._daemon, self._every_s = cluster, daemon, every_s
        self._url = daemon.url_of("registry")
        self._secrets: dict[str, str] = {}
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, name="pings", daemon=True)
        self.longest_s = 0.0
        """The longest that a ping waited for its answer."""
        self.refused: list[str] = []

    def start(self) -> None:
        self._thread.start()

    def close(self) -> None:
        self._over.set()
        self._thread.join(60.0)

    def _run(self) -> None:
        with requests.Session() as session:
            session.trust_env = False
            while not self._over.wait(self._every_s):
                ended = {call["InstanceId.1"] for call in self._cluster.cloud.calls(TERMINATE)}
                made = self._daemon.lines("node.created")
                for line in [one for one in made if one["node"] not in ended]:
                    self._ping(session, line["node"], line["record"])

    def _ping(self, session: requests.Session, node: str, record: str) -> None:
        if record not in self._secrets:
            rows = Registry(self._url, TOKEN).rows().items()
            self._secrets = {uuid: row["info"].get("ping_secret", "") for uuid, row in rows}
        said: dict[str, Any] = {"ping_secret": self._secrets[record], "instance_id": node}
        url, began = f"{self._url}/arvados/v1/nodes/{record}/ping", time.monotonic()
        answer = session.post(url, data={**said, "worker_state": "idle"}, timeout=30)
        self.longest_s = max(self.longest_s, time.monotonic() - began)
        if not answer.ok:
            self.refused.append(f"{node}: {answer.status_code} {answer.text[:100]}")


RUN, TERMINATE = "RunInstances", "TerminateInstances"


@contextmanager
def pinging(cluster: Ec2Cluster, daemon: Daemon, every_s: float) -> Iterator[Pings]:
    with closing(Pings(cluster, daemon, every_s)) as pings:
        pings.start()
        yield pings


def grow(cluster: Ec2Cluster, daemon: Daemon, nodes: int, within_s: float) -> list[Span]:
    """Let that many nodes be created; the creates that made them."""
    cluster.want(nodes)
    what = f"{nodes} nodes"
    until(what, lambda: len(daemon.lines("node.created")) >= nodes, within_s, told=daemon.told)
    return cluster.cloud.spans(RUN)


def shrink(cluster: Ec2Cluster, daemon: Daemon, nodes: int, within_s: float) -> list[Span]:
    """Let as many idle nodes end; the destroys that ended them."""
    cluster.want(0)
    what = f"the end of {nodes} nodes"
    until(what, lambda: len(daemon.lines("node.gone")) >= nodes, within_s, told=daemon.told)
    return cluster.cloud.spans(TERMINATE)


def unseen(cluster: Ec2Cluster) -> list[str]:
    """The nodes that were destroyed more often than the cloud was asked what they pin (D2, D4)."""
    moto = cluster.cloud
    ended = Counter(call["InstanceId.1"] for call in moto.calls(TERMINATE))
    looked: Counter[str] = Counter()
    for call in moto.calls("DescribeInstances"):
        looked.update(value for key, value in call.items() if key.startswith("InstanceId."))
    return [node for node, times in ended.items() if looked[node] < times]


def longest_gap(daemon: Daemon) -> float:
    """The longest time in seconds between two decisions, as the log has them."""
    times = [datetime.fromisoformat(line["ts"]) for line in daemon.lines("cycle.done")]
    return max((after - before).total_seconds() for before, after in pairwise(times))
