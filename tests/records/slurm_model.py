"""A slurmctld in memory, behind the programs that the record store and its tests run.

It has of Slurm what the record store in its CLOUD nodes relies on. tests/records/test_slurm_records
runs the same tests on it and on a real Slurm, so that it can't drift from that.
"""

from __future__ import annotations

import itertools
import subprocess
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from nodemanager.errors import SchedulerError
from nodemanager.program import Ended

SLURMD_TIMEOUT_S = 4
RESUME_TIMEOUT_S = 10
SUSPEND_TIMEOUT_S = 1
SHORTEST_ANSWER_S = 0.01
UP = ("DOWN", "NOT_RESPONDING", "POWERED_DOWN", "POWERING_DOWN", "POWERING_UP")
"""What the registration of a slurmd ends, with ReturnToService=2; a drain stays."""


@dataclass(frozen=True)
class Times:
    """The times of slurm.conf, in seconds, by their names there.

    Without `suspend_time` Slurm powers down no node by itself.
    """

    slurmd_timeout: float = SLURMD_TIMEOUT_S
    resume_timeout: float = RESUME_TIMEOUT_S
    suspend_timeout: float = SUSPEND_TIMEOUT_S
    suspend_time: float | None = None


@dataclass
class Node:
    name: str
    size: str
    flags: set[str] = field(default_factory=lambda: {"POWERED_DOWN"})
    extra: str = ""
    reason: tuple[str, int] | None = None
    start: int | None = None
    """When the slurmd that registered last was started."""
    slurmd: int | None = None
    """When the one that runs now was started."""
    since: float = 0.0
    """When its power, or the silence of its slurmd, changed last."""
    job: str | None = None
    idle_since: float = 0.0
    """When its newest job ended, or its slurmd registered."""

    @property
    def words(self) -> list[str]:
        base = "DOWN" if "DOWN" in self.flags else ("ALLOCATED" if self.job else "IDLE")
        return [base, "CLOUD", *sorted(self.flags - {"DOWN"})]

    @property
    def takes_work(self) -> bool:
        return self.job is None and not self.flags

    def line(self) -> str:
        shown = f"NodeName={self.name} Arch=x86_64 State={'+'.join(self.words)}"
        shown += f" AvailableFeatures=instancetype={self.size} NodeAddr={self.name}"
        shown += (
            f" Partitions=elastic SlurmdStartTime={'None' if self.start is None else self.start}"
        )
        if self.extra:
            shown += f" Extra={self.extra}"
        if self.reason is not None:
            shown += f" Reason={self.reason[0]} [root@{self.reason[1]}]"
        return shown


class SlurmModel:
    """The controller, its nodes by name with the size of each, and their machines' slurmds.

    `clock` gives epoch seconds. What time alone changes is done before each request.
    """

    def __init__(
        self, sizes: Mapping[str, str], clock: Callable[[], float], times: Times | None = None
    ) -> None:
        self.times = times or Times()
        self.nodes = {name: Node(name, size) for name, size in sizes.items()}
        self.clock = clock
        self.answers = True
        self.jobs: dict[str, str] = {}
        """Each job that was not cancelled, and the node that it asks for."""
        self._numbers = itertools.count(1)

    # The machines.

    def start_slurmd(self, name: str) -> None:
        self.settle()
        node = self.nodes[name]
        # Its start is another than any before, as the store tells lives by it.
        node.slurmd = max(int(self.clock()), (node.start or 0) + 1)
        self.settle()

    def kill_slurmd(self, name: str) -> None:
        self.settle()
        self.nodes[name].slurmd, self.nodes[name].since = None, self.clock()

    def hear_again(self, name: str) -> None:
        """The slurmd that registered last answers again: it was not started anew.

        One that is powered down or to be is not asked, and one that powers up waits for a new one.
        """
        self.settle()
        node = self.nodes[name]
        if not node.flags & {"POWERED_DOWN", "POWERING_DOWN", "POWERING_UP"}:
            node.slurmd, node.since = node.start, self.clock()
            node.flags -= {"DOWN", "NOT_RESPONDING"}
            node.reason = node.reason if "DRAIN" in node.flags else None
        self.settle()

    # Programs.

    def run(
        self,
        what: str,
        argv: Sequence[str],
        timeout: float,
        *,
        given: bytes = b"",
        environment: Mapping[str, str] | None = None,
    ) -> Ended:
        """What nodemanager.program.run does, for Slurm's programs."""
        if timeout < SHORTEST_ANSWER_S:
            raise SchedulerError(f"{what} {argv[0]!r} took longer than {timeout} s")
        if not self.answers:
            said = "slurm_load_ctl_conf error: Unable to contact slurm controller"
            return Ended(1, b"", said)
        self.settle()
        output, refused = self._called(argv[0], argv[1:])
        self.settle()
        return Ended(1 if refused else 0, output.encode(), refused)

    def _called(self, program: str, told: Sequence[str]) -> tuple[str, str]:
        """The output, and why it was refused."""
        if program == "squeue":
            return "\n".join(self.jobs), ""
        if program == "scancel":
            self.end_job(told[-1])
            return "", ""
        if "update" in told:
            changes = dict(word.split("=", 1) for word in told if "=" in word)
            node = self.nodes.get(changes.pop("NodeName"))
            if node is None:
                return "", "Invalid node name specified"
            return "", self._update(node, changes)
        if "config" in told:
            head = f"Configuration data as of {int(self.clock())}\n"
            return head + "ClusterName             = model\nPrivateData             = cloud\n", ""
        named = [self.nodes[word] for word in told if word in self.nodes]
        return "".join(f"{node.line()}\n" for node in named or self.nodes.values()), ""

    def _update(self, node: Node, changes: Mapping[str, str]) -> str:
        state = changes.get("State")
        if state is not None and not self._may_become(node, state):
            return "slurm_update error: Invalid node state specified"
        if "Extra" in changes:
            node.extra = changes["Extra"]
        if state == "DRAIN":
            node.flags.add("DRAIN")
            node.reason = (changes["Reason"], int(self.clock()))
        elif state == "UNDRAIN":
            node.flags.discard("DRAIN")
            node.reason = node.reason if "DOWN" in node.flags else None
        elif state == "RESUME":
            node.flags -= {"DOWN", "DRAIN", "NOT_RESPONDING"}
            node.reason = None
        elif state == "POWER_UP":
            self._power_up(node)
        elif state == "DOWN":
            node.flags.add("DOWN")
            node.job, node.reason = None, (changes.get("Reason", ""), int(self.clock()))
        elif state == "POWER_DOWN_FORCE":
            # What ran there is queued again.
            node.job = None
            self._power_down(node)
        elif state == "POWER_DOWN":
            node.flags.add("POWER_DOWN")
        return ""

    def _may_become(self, node: Node, state: str) -> bool:
        if state == "RESUME":
            return bool(node.flags & {"DOWN", "DRAIN"})
        if state == "POWER_UP":
            return "POWERED_DOWN" in node.flags
        if state in ("POWER_DOWN", "POWER_DOWN_FORCE"):
            return not node.flags & {"POWERING_DOWN", "POWERED_DOWN"}
        return state in ("DRAIN", "UNDRAIN", "DOWN")

    # Time.

    def _power_up(self, node: Node) -> None:
        node.flags = (node.flags - {"POWERED_DOWN"}) | {"POWERING_UP"}
        node.since = self.clock()

    def _power_down(self, node: Node) -> None:
        node.flags = (node.flags - {"POWERING_UP", "POWER_DOWN"}) | {"POWERING_DOWN"}
        node.since = self.clock()

    def settle(self) -> None:
        """What the controller noticed and did since the last request."""
        if not self.answers:
            return
        for node in self.nodes.values():
            self._noticed(node, self.clock() - node.since)
        for job, name in self.jobs.items():
            node = self.nodes[name]
            if node.takes_work:
                node.job = job
            elif node.flags == {"POWERED_DOWN"} and node.job is None:
                self._power_up(node)

    def _noticed(self, node: Node, passed: float) -> None:
        if "POWER_DOWN" in node.flags and node.job is None:
            # It waits for the end of a job.
            self._power_down(node)
        elif "POWERING_DOWN" in node.flags:
            if passed > self.times.suspend_timeout:
                # idle_on_node_suspend
                node.flags = {"POWERED_DOWN"}
        elif node.slurmd is not None and node.slurmd != node.start:
            node.start = node.slurmd
            node.flags -= set(UP)
            node.reason = node.reason if "DRAIN" in node.flags else None
            node.idle_since = self.clock()
        elif "POWERING_UP" in node.flags and passed > self.times.resume_timeout:
            node.reason = None
            self._down(node, "ResumeTimeout reached")
            node.flags = (node.flags - {"DRAIN"}) | {"POWERED_DOWN"}
        elif node.slurmd is None and not node.flags & set(UP):
            if passed > self.times.slurmd_timeout:
                self._down(node, "Not responding")
        elif self._is_suspended(node):
            node.flags, node.since = node.flags | {"POWERING_DOWN"}, self.clock()

    def _is_suspended(self, node: Node) -> bool:
        """Slurm powers it down by itself: it was idle for SuspendTime."""
        suspends = self.times.suspend_time
        idle = not node.flags and node.job is None
        return suspends is not None and idle and self.clock() - node.idle_since > suspends

    def _down(self, node: Node, why: str) -> None:
        node.flags = (node.flags - {"POWERING_UP"}) | {"DOWN", "NOT_RESPONDING"}
        node.job = None
        if node.reason is None or node.reason[0] == why:
            # The reason of a drain stands.
            node.reason = (why, int(self.clock()))

    # Jobs.

    def submit(self, name: str) -> str:
        job = str(next(self._numbers))
        self.jobs[job] = name
        return job

    def state_of(self, job: str) -> str:
        self.settle()
        runs = any(node.job == job for node in self.nodes.values())
        return "RUNNING" if runs else "PENDING" if job in self.jobs else "CANCELLED"

    def end_job(self, job: str) -> None:
        """It is cancelled, or done."""
        self.jobs.pop(job, None)
        for node in self.nodes.values():
            if node.job == job:
                node.job, node.idle_since = None, self.clock()


class ModelCluster:
    """The model in the place of slurm_cluster.SlurmCluster, for CloudSlurm."""

    conf = "model"
    log = ""

    def __init__(self, model: SlurmModel) -> None:
        self.model = model
        self.controller: Any = object()
        self.slurmds: dict[str, Any] = {}

    @property
    def options(self) -> dict[str, Any]:
        """What a store of this cluster is made with."""
        return {"call": self.model.run}

    def client(self, *argv: str, **environment: str) -> str:
        ended = self.model.run("slurm", argv, 10.0)
        assert ended.returncode == 0, ended.said
        return ended.output.decode()

    def _run(self, *argv: str, **environment: str) -> subprocess.CompletedProcess[str]:
        ended = self.model.run("slurm", argv, 10.0)
        return subprocess.CompletedProcess(argv, ended.returncode, ended.output.decode(), "")

    def _start(self, *argv: str) -> Any:
        self.model.start_slurmd(argv[argv.index("-N") + 1])
        return object()

    def kill_node(self, name: str) -> None:
        self.slurmds.pop(name, None)
        self.model.kill_slurmd(name)

    def submit(self, *options: str) -> str:
        return self.model.submit(options[options.index("-w") + 1])

    def job_state(self, job: str) -> str:
        return self.model.state_of(job)

    def node_words(self, name: str) -> set[str]:
        self.model.settle()
        return set(self.model.nodes[name].words)

    def stop_controller(self) -> None:
        self.controller = None
        self.model.answers = False

    def start_controller(self) -> None:
        self.controller = object()
        self.model.answers = True
