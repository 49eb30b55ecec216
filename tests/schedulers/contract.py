"""The schedulers that the contract suite runs over. One more adapter is one more entry."""

from __future__ import annotations

import itertools
import json
import sys
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from nodemanager.schedulers.api import Scheduler
from nodemanager.schedulers.command import CommandScheduler
from nodemanager.schedulers.slurm.adapter import AnswerFormat, SlurmScheduler
from tests.schedulers.slurm_cluster import CORES, SlurmCluster
from tests.waiting import until

TIMEOUT_S = 15.0
SHORT_S = 1.0


class World(Protocol):
    """One scheduler under test, with idle nodes and no jobs, and what happens around it."""

    nodes: tuple[str, ...]

    def scheduler(self, timeout: float = TIMEOUT_S) -> Scheduler:
        """An adapter for it with that time limit."""
        ...

    def work_on(self, node: str) -> str:
        """Start a job that fills the node; its id."""
        ...

    def end(self, job: str) -> None:
        """End the job; its node does nothing any more."""
        ...

    def vanish(self, node: str) -> None:
        """Take the machine away, without a word to the scheduler."""
        ...

    def wait_for_nodes(self, cores: int, ram_mb: int, priority: int) -> str:
        """Submit a job while every node is full; its id. The higher priority goes first."""
        ...

    def starts(self, job: str) -> bool:
        """Whether the job runs, once the scheduler has had the time to start it."""
        ...

    def stop(self) -> None:
        """Stop the scheduler, until the end of the test."""
        ...

    def frozen(self) -> AbstractContextManager[None]:
        """The scheduler takes requests and answers none."""
        ...


@dataclass
class SlurmWorld:
    """A real Slurm, asked for its answers in one form."""

    cluster: SlurmCluster
    answers: AnswerFormat

    @property
    def nodes(self) -> tuple[str, ...]:
        return self.cluster.nodes

    def scheduler(self, timeout: float = TIMEOUT_S) -> Scheduler:
        return SlurmScheduler(timeout, conf=str(self.cluster.conf), answers=self.answers)

    def work_on(self, node: str) -> str:
        job = self.cluster.submit("-w", node, "-n", str(CORES))
        until(f"job {job} to run", lambda: self.cluster.job_state(job) == "RUNNING")
        return job

    def end(self, job: str) -> None:
        self.cluster.client("scancel", job)
        until(f"the end of job {job}", lambda: self.cluster.job_state(job) == "CANCELLED")
        until("no job that ends", lambda: not self.cluster.client("squeue", "-h", "-t", "CG"))

    def vanish(self, node: str) -> None:
        self.cluster.kill_node(node)

    def wait_for_nodes(self, cores: int, ram_mb: int, priority: int) -> str:
        what = (f"--cpus-per-task={cores}", f"--mem={ram_mb}", "-x", "cloud1")
        job = self.cluster.submit(*what)
        self.cluster.client("scontrol", "update", f"JobId={job}", f"Priority={priority}")
        return job

    def starts(self, job: str) -> bool:
        def runs() -> bool:
            return self.cluster.job_state(job) == "RUNNING"

        # The reason for not starting it is there after one round of Slurm's scheduler.
        until(f"a word on job {job}", lambda: runs() or self.cluster.job_reason(job) != "None")
        return runs()

    def stop(self) -> None:
        self.cluster.stop_controller()

    def frozen(self) -> AbstractContextManager[None]:
        return self.cluster.controller_frozen()


@dataclass
class ToyWorld:
    """A scheduler in a file, joined by a command for each verb."""

    file: Path
    nodes: tuple[str, ...] = ("c1", "c2")
    ids: Iterator[int] = field(default_factory=lambda: itertools.count(1))

    def __post_init__(self) -> None:
        idle = {"state": "idle", "features": ["rack1", "instancetype=small"], "weight": 5}
        nodes = {name: {"node": name, **idle, "cores": 4} for name in self.nodes}
        self._write({"mode": "up", "nodes": nodes, "jobs": {}})

    def scheduler(self, timeout: float = TIMEOUT_S) -> Scheduler:
        verbs = ("nodes", "queue", "drain", "resume", "down", "describe", "comment", "cancel")
        toy = str(Path(__file__).with_name("toy_scheduler.py"))
        programs = {verb: (sys.executable, "-I", "-S", toy, str(self.file), verb) for verb in verbs}
        return CommandScheduler(programs, timeout)

    def work_on(self, node: str) -> str:
        world = self._read()
        world["nodes"][node]["state"] = "busy"
        return self._submit(world, node=node)

    def end(self, job: str) -> None:
        world = self._read()
        node = world["jobs"].pop(job)["node"]
        world["nodes"][node]["state"] = "idle"
        self._write(world)

    def vanish(self, node: str) -> None:
        """Its scheduler would not notice."""

    def wait_for_nodes(self, cores: int, ram_mb: int, priority: int) -> str:
        return self._submit(self._read(), cores=cores, ram_mb=ram_mb, priority=priority)

    def starts(self, job: str) -> bool:
        world = self._read()
        for name, node in world["nodes"].items():
            if node["state"] == "idle" and not node.get("draining"):
                world["jobs"][job]["node"] = name
                node["state"] = "busy"
                self._write(world)
                return True
        return False

    def stop(self) -> None:
        self._write(self._read() | {"mode": "down"})

    @contextmanager
    def frozen(self) -> Iterator[None]:
        self._write(self._read() | {"mode": "frozen"})
        yield
        self._write(self._read() | {"mode": "up"})

    def _submit(self, world: dict[str, Any], **what: Any) -> str:
        job = {"id": str(next(self.ids)), "node": None, "cores": 1, "ram_mb": 0, "priority": 1}
        world["jobs"][job["id"]] = job | what
        self._write(world)
        return str(job["id"])

    def _read(self) -> dict[str, Any]:
        return dict(json.loads(self.file.read_text(encoding="utf-8")))

    def _write(self, world: dict[str, Any]) -> None:
        self.file.write_text(json.dumps(world), encoding="utf-8")
