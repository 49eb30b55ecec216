"""A cluster in a cloud of the test's own: a farm plays its nodes, and jobs wait for some of them.

Each cloud has a module that makes such a cluster: ec2, openstack, hypervisor, azure, gce.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from configparser import RawConfigParser
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import Any, Generic, TypeVar

from tests.live.cluster import Cluster, Sections
from tests.live.farm import PING_EVERY_S, Cloud, NodeFarm
from tests.live.harness import TREE, Daemon
from tests.waiting import until

C = TypeVar("C", bound=Cloud)


class CloudCluster(Cluster, Generic[C]):
    """A pool whose demand is what a test wants; `close` ends its nodes and its cloud, too."""

    def __init__(
        self,
        home: Path,
        cloud: C,
        *layers: Sections,
        module: str = "nodemanager",
        ping_every: float = PING_EVERY_S,
        drain_hooks: bool = False,
        metadata: Callable[[str], str] | None = None,
    ) -> None:
        home.mkdir(parents=True, exist_ok=True)
        self.module = module
        self.cloud = cloud
        self.environment: dict[str, str] = {}
        """What the environment of its daemons has beside."""
        self._closing = ExitStack()
        self._closing.callback(cloud.close)
        self.farm = NodeFarm(
            cloud,
            home / "farm",
            ping_every=ping_every,
            drain_hooks=drain_hooks,
            metadata=metadata,
        )
        self._closing.callback(self.farm.close)
        self._wishlist = home / "wishlist"
        command = home / "print-wishlist"
        command.write_text(f"#!/bin/sh\nexec cat {self._wishlist}\n", encoding="utf-8")
        command.chmod(0o700)
        self.want(0)
        demand: Sections = {
            "Daemon": {"min_nodes": 0, "max_nodes": 4, "wishlist_command": command},
            "Cleaning": {"visible_after": 0.5},
        }
        super().__init__(home, demand, *layers)

    def start(self, *arguments: str, told: Mapping[str, str] | None = None, **how: Any) -> Daemon:
        """See Cluster."""
        return super().start(*arguments, told={**self.environment, **(told or {})}, **how)

    def want(self, nodes: int) -> None:
        """That many jobs wait, each for a node of its own."""
        self.want_jobs(*({"id": f"job-{number}", "cores": 1} for number in range(nodes)))

    def want_jobs(self, *jobs: dict[str, Any]) -> None:
        """These jobs wait."""
        new = self._wishlist.with_suffix(".new")
        new.write_text("".join(f"{json.dumps(job)}\n" for job in jobs), encoding="ascii")
        new.replace(self._wishlist)

    def want_none(self, daemon: Daemon) -> None:
        """No job waits, and the daemon knows it."""
        self.want(0)
        until(
            "no wish",
            lambda: self.status(daemon)["nodes_wish"] == 0,
            self.patience_s,
            told=daemon.told,
        )

    def close(self) -> None:
        try:
            super().close()
        finally:
            self._closing.close()


K = TypeVar("K", bound=CloudCluster[Any])


@contextmanager
def at_work(cluster: K) -> Iterator[K]:
    """A cluster with its farm and a daemon, from here to its end."""
    with closing(cluster):
        cluster.farm.start()
        cluster.start()
        yield cluster


def forerunner(provider: str) -> Sections:
    """The forerunner's example for that cloud as it is written, comments behind values and all."""
    parser = RawConfigParser(delimiters=("=",), comment_prefixes=("#",), strict=True)
    parser.optionxform = str  # type: ignore[assignment,method-assign]
    parser.read(TREE / f"tests/config/files/{provider}.cfg", encoding="utf-8")
    return {name: dict(parser[name]) for name in parser.sections()}


HERE: Sections = {
    "Daemon": {"certs_file": None, "max_nodes": 4, "dispatcher": None},
    "Logging": {"file": None},
    "Arvados": {"host": None},
    "Records": {"provider": "registry"},
    "Cloud Create": {"ping_host": None},
}
"""What whoever fills in one of those examples has to say of this machine. No Slurm runs here: a
wishlist stands for its queue, and the nodes' pings for what it says of them."""
