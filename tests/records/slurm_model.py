"""A slurmctld in memory, behind the programs that ask it and order it.

The seat worlds of the simulation and the tests of what reads Slurm play on it. It is held against a
real Slurm by scripts that both play (tests/schedulers/slurm_scripts.py): mend it there first.
"""

from __future__ import annotations

import itertools
import subprocess
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from nodemanager.errors import SchedulerError
from nodemanager.lib.program import ProgramResult

SLURMD_TIMEOUT_S = 4
RESUME_TIMEOUT_S = 10
SUSPEND_TIMEOUT_S = 1
SHORTEST_ANSWER_S = 0.01
UNASKED = frozenset({"POWERED_DOWN", "POWERING_DOWN", "POWERING_UP"})
"""Slurm asks no slurmd of a node that is powered down, or about to be, for a sign of life; nor the
old one where it wants a new one."""
SET_ASIDE = frozenset({"RESERVED", "MAINTENANCE"})
RESUMED = frozenset({"DOWN", "DRAIN", "POWERING_DOWN"})
"""Slurm refuses to resume a node that is none of this."""


@dataclass(frozen=True)
class Times:
    """The times of slurm.conf, in seconds, by their names there.

    Without `suspend_time` Slurm powers down no node by itself. `answered_in` is the longest that a
    slurmd which lives is not asked, and `power_interval` how often powers are looked at; after a
    start, slurmds are asked to register `asked_in`. `saved_in` is when a change is on the disk, and
    `requeued_for` how long a job that was requeued waits for its turn.
    """

    slurmd_timeout: float = SLURMD_TIMEOUT_S
    resume_timeout: float = RESUME_TIMEOUT_S
    suspend_timeout: float = SUSPEND_TIMEOUT_S
    suspend_time: float | None = None
    power_interval: float = 1.0
    answered_in: float = 1.5
    asked_in: float = 4.0
    saved_in: float = 3.0
    requeued_for: float = 120.0


@dataclass
class Node:
    name: str
    size: str
    flags: set[str] = field(default_factory=lambda: {"POWERED_DOWN"})
    reason: tuple[str, int] | None = None
    start: int | None = None
    """When the slurmd that registered last was started, as far as this controller knows."""
    registered: int | None = None
    """When the slurmd that registered last was started, with whatever controller."""
    slurmd: int | None = None
    """When the one that runs now was started."""
    since: float = 0.0
    """When its power changed last."""
    silent_at: float = 0.0
    """Since when its slurmd is silent."""
    ordered_at: float = 0.0
    """When it was last ordered something."""
    job: str | None = None
    job_on: int | None = None
    """The slurmd that its job began on."""
    idle_since: float = 0.0
    """When its newest job ended, or its slurmd registered."""

    @property
    def words(self) -> list[str]:
        base = "DOWN" if "DOWN" in self.flags else ("ALLOCATED" if self.job else "IDLE")
        return [base, "CLOUD", *sorted(self.flags - {"DOWN"})]

    @property
    def takes_work(self) -> bool:
        return self.job is None and not self.flags

    @property
    def is_asked(self) -> bool:
        return not self.flags & UNASKED

    def line(self, partitions: Sequence[str]) -> str:
        shown = f"NodeName={self.name} Arch=x86_64 State={'+'.join(self.words)}"
        shown += f" AvailableFeatures=instancetype={self.size} NodeAddr={self.name}"
        if partitions:
            shown += f" Partitions={','.join(partitions)}"
        shown += f" SlurmdStartTime={'None' if self.start is None else self.start}"
        if self.reason is not None:
            shown += f" Reason={self.reason[0]} [root@{self.reason[1]}]"
        return shown


@dataclass
class Waiting:
    """A job that was not cancelled. It asks for one node, by name."""

    id: str
    name: str
    begins: float = 0.0
    """When its turn is: a job that was requeued waits a while."""


@dataclass
class Disk:
    """What slurmctld has in its state files."""

    nodes: dict[str, Node] = field(default_factory=dict)
    jobs: dict[str, Waiting] = field(default_factory=dict)
    reservations: dict[str, tuple[frozenset[str], tuple[str, ...]]] = field(default_factory=dict)


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
        self.jobs: dict[str, Waiting] = {}
        self.partitions: dict[str, tuple[str, ...]] = {"elastic": tuple(sizes)}
        self.reservations: dict[str, tuple[frozenset[str], tuple[str, ...]]] = {}
        """By name, with its flags and its nodes."""
        self.configured = dict(self.partitions)
        """The partitions as slurm.conf has them."""
        self.sizes = dict(sizes)
        """The nodes as slurm.conf has them."""
        self._numbers = itertools.count(1)
        self.began = clock()
        """When it was started."""
        self._copied_at = self.clock()
        self._disk = self._newer = self._memory()

    # The controller's own life.

    def stop(self, *, killed: bool = False) -> None:
        """It ends, with all that it knows on the disk; one that was killed, without the newest."""
        self.settle()
        if not killed:
            self._disk = self._memory()
        self.answers = False

    def start(self) -> None:
        """It begins again, with what is on the disk and in slurm.conf."""
        machines = {name: (node.slurmd, node.registered) for name, node in self.nodes.items()}
        disk, now = self._disk, self.clock()
        self._newer = disk
        self.nodes, self.jobs = dict(disk.nodes), dict(disk.jobs)
        self.reservations = dict(disk.reservations)
        for name, node in self.nodes.items():
            self.nodes[name] = replace(node, flags=set(node.flags), start=None, silent_at=now)
            # A slurmd whose name was gone for a while is not heard any more.
            self.nodes[name].slurmd, self.nodes[name].registered = machines.get(name, (None, None))
        self.answers, self.began = True, now
        self.configure()
        self.settle()

    def restart(self) -> None:
        self.stop()
        self.start()

    def register_again(self) -> None:
        """Those slurmds that it asks have registered with it since it began."""
        for node in self.nodes.values():
            if node.slurmd is not None and node.is_asked:
                node.start = node.registered

    def reconfigure(self) -> None:
        """It reads slurm.conf, and has every slurmd do so, which then registers again."""
        self.configure()
        for node in self.nodes.values():
            if node.slurmd is not None and "POWERING_UP" in node.flags:
                self._registers(node)

    def configure(self) -> None:
        """What slurm.conf says of partitions holds again; names come and go."""
        self.partitions = dict(self.configured)
        for name in set(self.nodes) - set(self.sizes):
            job = self.nodes.pop(name).job
            if job is not None:
                # It has failed with its node.
                del self.jobs[job]
        for name, size in self.sizes.items():
            self.nodes.setdefault(name, Node(name, size))

    def _memory(self) -> Disk:
        return Disk(
            {name: replace(node, flags=set(node.flags)) for name, node in self.nodes.items()},
            {id: replace(job) for id, job in self.jobs.items()},
            dict(self.reservations),
        )

    def _save(self) -> None:
        """Write what was so a while ago, as the state is saved every few seconds."""
        if self.clock() - self._copied_at >= self.times.saved_in:
            self._disk, self._newer, self._copied_at = self._newer, self._memory(), self.clock()

    # The machines.

    def start_slurmd(self, name: str) -> None:
        self.settle()
        node = self.nodes[name]
        # Its start is another than any before, as lives are told apart by it.
        node.slurmd = max(int(self.clock()), (node.registered or 0) + 1)
        self.settle()

    def kill_slurmd(self, name: str) -> None:
        self.settle()
        self.nodes[name].slurmd, self.nodes[name].silent_at = None, self.clock()

    def hear_again(self, name: str) -> None:
        """The slurmd that registered last answers again, where it is asked: it is not a new one."""
        self.settle()
        node = self.nodes[name]
        if node.is_asked and node.registered is not None:
            node.slurmd = node.registered
            self._answers(node)
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
    ) -> ProgramResult:
        """What nodemanager.lib.program.run does, for Slurm's programs."""
        if timeout < SHORTEST_ANSWER_S:
            raise SchedulerError(f"{what} {argv[0]!r} took longer than {timeout} s")
        if not self.answers:
            said = "slurm_load_ctl_conf error: Unable to contact slurm controller"
            return ProgramResult(1, b"", said)
        self.settle()
        output, refused = self._called(argv[0], argv[1:])
        self.settle()
        return ProgramResult(1 if refused else 0, output.encode(), refused)

    def _called(self, program: str, told: Sequence[str]) -> tuple[str, str]:
        """The output, and why it was refused."""
        if program == "squeue":
            return "\n".join(self.jobs), ""
        if program == "scancel":
            self.end_job(told[-1])
            return "", ""
        if "update" in told:
            return "", self._updated(dict(word.split("=", 1) for word in told if "=" in word))
        if "config" in told:
            says = {
                "BOOT_TIME": int(self.began),
                "ClusterName": "model",
                "PrivateData": "cloud",
                "SlurmdTimeout": f"{int(self.times.slurmd_timeout)} sec",
            }
            head = f"Configuration data as of {int(self.clock())}\n"
            return head + "".join(f"{key:24}= {said}\n" for key, said in says.items()), ""
        if told[-1] == "node":
            return "".join(f"{self.line(node)}\n" for node in self.nodes.values()), ""
        named = self.nodes.get(told[-1])
        return (f"{self.line(named)}\n", "") if named else ("", f"Node {told[-1]} not found")

    def line(self, node: Node) -> str:
        """The node, as `scontrol --oneliner show node` has it."""
        of = [name for name, nodes in self.partitions.items() if node.name in nodes]
        return node.line(of)

    def _updated(self, changes: dict[str, str]) -> str:
        if "PartitionName" in changes:
            self.partitions[changes["PartitionName"]] = tuple(changes["Nodes"].split(","))
            return ""
        node = self.nodes.get(changes.pop("NodeName"))
        if node is None:
            return "slurm_update error: Invalid node name specified"
        if changes.get("State") == "RESUME" and not node.flags & RESUMED:
            return "slurm_update error: Invalid node state specified"
        node.ordered_at = self.clock()
        if "State" in changes:
            self._order(node, changes["State"])
        if "Reason" in changes:
            node.reason = (changes["Reason"], int(self.clock()))
        return ""

    def _order(self, node: Node, state: str) -> None:
        if state == "DRAIN":
            node.flags.add("DRAIN")
        elif state == "UNDRAIN":
            node.flags.discard("DRAIN")
            self._doubt(node)
            node.reason = node.reason if "DOWN" in node.flags else None
        elif state == "RESUME":
            if "POWERING_DOWN" in node.flags:
                node.flags = (node.flags - {"POWERING_DOWN"}) | {"POWERED_DOWN"}
            if node.flags & {"DOWN", "DRAIN"}:
                node.flags -= {"DOWN", "DRAIN"}
                self._doubt(node)
            node.reason = None
        elif state == "DOWN":
            node.flags.add("DOWN")
            self._requeue(node)
        elif state == "POWER_UP":
            if "POWERED_DOWN" in node.flags:
                node.flags.add("POWER_UP")
            elif "POWERING_UP" in node.flags:
                node.flags |= {"POWER_UP", "POWERED_DOWN"}
        elif state in ("POWER_DOWN", "POWER_DOWN_FORCE") and "POWERING_DOWN" not in node.flags:
            if "POWERED_DOWN" in node.flags or state == "POWER_DOWN_FORCE":
                # It is asked again until then, also one that no slurmd was waited for on any more.
                node.silent_at = self.clock()
            node.flags = (node.flags - {"POWERED_DOWN"}) | {"POWER_DOWN"}
            if state == "POWER_DOWN_FORCE":
                node.flags.discard("POWERING_UP")
                self._requeue(node)

    def _doubt(self, node: Node) -> None:
        """It has to answer once more, within SlurmdTimeout."""
        node.flags.add("NOT_RESPONDING")
        if node.slurmd is None:
            node.silent_at = self.clock()

    # Time.

    def settle(self) -> None:
        """What the controller noticed and did since the last request."""
        if not self.answers:
            return
        for node in self.nodes.values():
            self._hear(node)
            self._power(node)
        self._mark_reserved()
        for job in self.jobs.values():
            self._place(job)
        self._save()

    def _hear(self, node: Node) -> None:
        now, times = self.clock(), self.times
        if node.slurmd is not None and node.slurmd != node.registered:
            self._registers(node)
        elif not node.is_asked:
            return
        elif node.slurmd is None:
            if now - node.silent_at > times.slurmd_timeout:
                self._silent(node)
        elif now - node.ordered_at >= times.answered_in:
            self._answers(node)
        if node.slurmd is not None and now - self.began > times.asked_in:
            node.start = node.registered

    def _silent(self, node: Node) -> None:
        if "DOWN" not in node.flags:
            self._down(node, "Not responding")
        node.flags.add("NOT_RESPONDING")

    def _registers(self, node: Node) -> None:
        node.start = node.registered = node.slurmd
        if "POWERING_DOWN" in node.flags:
            # It is taken at once, and the node stays on its way off.
            return
        node.flags -= UNASKED
        self._answers(node)
        node.idle_since = self.clock()
        if node.job_on is not None:
            # It knows nothing of the job that its forerunner ran.
            self._requeue(node)
        elif node.job is not None:
            node.job_on = node.slurmd

    def _answers(self, node: Node) -> None:
        """With ReturnToService=2 that ends `down`, whoever said so; a drain stays."""
        if node.flags & {"DOWN", "NOT_RESPONDING"}:
            node.flags -= {"DOWN", "NOT_RESPONDING"}
            node.reason = node.reason if "DRAIN" in node.flags else None

    def _power(self, node: Node) -> None:
        now, times, flags = self.clock(), self.times, node.flags
        is_due = now - node.ordered_at >= times.power_interval
        if {"POWER_UP", "POWERED_DOWN"} <= flags and is_due:
            self._power_up(node)
        elif "POWER_DOWN" in flags and is_due and not node.job and "POWERING_UP" not in flags:
            self._power_down(node)
        elif "POWERING_DOWN" in flags and now - node.since > times.suspend_timeout:
            node.flags = (flags - {"POWERING_DOWN", "NOT_RESPONDING"}) | {"POWERED_DOWN"}
        elif "POWERING_UP" in flags and now - node.since > times.resume_timeout:
            node.flags = flags - {"POWERING_UP", "POWER_DOWN", "DRAIN"}
            is_told = node.job is not None and node.slurmd is not None
            self._down(node, "ResumeTimeout reached")
            node.flags.add("POWERED_DOWN")
            if is_told:
                # A slurmd that lives answers the order to end the job.
                self._answers(node)
        elif self._is_suspended(node):
            self._power_down(node)

    def _power_up(self, node: Node) -> None:
        node.flags -= {"POWER_UP", "POWERED_DOWN"}
        node.flags |= {"POWERING_UP", "NOT_RESPONDING"}
        node.since, node.reason = self.clock(), None

    def _power_down(self, node: Node) -> None:
        """That ends a drain, too, and `down`."""
        node.flags -= {"POWER_DOWN", "POWERED_DOWN", "DRAIN", "DOWN", "NOT_RESPONDING"}
        node.flags.add("POWERING_DOWN")
        node.since = self.clock()

    def _is_suspended(self, node: Node) -> bool:
        """Slurm powers it down by itself: it was idle for SuspendTime."""
        suspends = self.times.suspend_time
        idle = not node.flags and node.job is None
        return suspends is not None and idle and self.clock() - node.idle_since > suspends

    def _down(self, node: Node, why: str) -> None:
        node.flags |= {"DOWN", "NOT_RESPONDING"}
        self._requeue(node)
        if "DRAIN" not in node.flags:
            # The reason of a drain stands.
            node.reason = (why, int(self.clock()))

    # Reservations.

    def reserve(self, name: str, nodes: Sequence[str], *, maintenance: bool) -> None:
        flags = SET_ASIDE if maintenance else frozenset({"RESERVED"})
        self.reservations[name] = flags, tuple(nodes)
        self.settle()

    def end_reservation(self, name: str) -> None:
        del self.reservations[name]
        self.settle()

    def _mark_reserved(self) -> None:
        for node in self.nodes.values():
            node.flags -= SET_ASIDE
        for flags, names in self.reservations.values():
            for name in names:
                if name in self.nodes:
                    self.nodes[name].flags |= flags

    # Jobs.

    def is_in_use(self, name: str) -> bool:
        """Whether a partition has it."""
        return any(name in nodes for nodes in self.partitions.values())

    def submit(self, name: str) -> str:
        """The id of a job for that node; none where no partition has it."""
        if not self.is_in_use(name):
            return ""
        job = Waiting(str(next(self._numbers)), name)
        self.jobs[job.id] = job
        return job.id

    def _place(self, job: Waiting) -> None:
        """It begins, or has its node powered up, once that is free."""
        node = self.nodes.get(job.name)
        if node is None or node.job is not None or job.begins > self.clock():
            return
        if not self.is_in_use(job.name):
            return
        if node.takes_work:
            node.job, node.job_on = job.id, node.registered
        elif node.flags - {"NOT_RESPONDING"} == {"POWERED_DOWN"}:
            node.job = job.id
            self._power_up(node)

    def _requeue(self, node: Node) -> None:
        """What ran there is queued again, and waits for its turn."""
        job = self.jobs.get(node.job or "")
        if job is not None:
            job.begins = self.clock() + self.times.requeued_for
        node.job, node.job_on = None, None

    def requeue(self, job: str) -> None:
        """By an operator."""
        for node in self.nodes.values():
            if node.job == job:
                self._requeue(node)
                node.idle_since = self.clock()

    def begin_now(self, job: str) -> None:
        """Its turn is now."""
        self.jobs[job].begins = 0.0
        self.settle()

    def state_of(self, job: str) -> str:
        self.settle()
        if job not in self.jobs:
            return "CANCELLED"
        on = self.node_of(job)
        if on is None:
            return "PENDING"
        return "RUNNING" if self.nodes[on].is_asked else "CONFIGURING"

    def node_of(self, job: str) -> str | None:
        return next((name for name, node in self.nodes.items() if node.job == job), None)

    def end_job(self, job: str) -> None:
        """It is cancelled, or done."""
        self.jobs.pop(job, None)
        for node in self.nodes.values():
            if node.job == job:
                node.job, node.job_on, node.idle_since = None, None, self.clock()


class ModelCluster:
    """The model in the place of slurm_cluster.SlurmCluster, for CloudSlurm."""

    conf = "model"
    log = str

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
        self.model.stop()

    def start_controller(self) -> None:
        self.controller = object()
        self.model.start()
