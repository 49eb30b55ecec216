"""A real Slurm whose CLOUD nodes have records, with a slurmd for each node that is to live."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from nodemanager.core.model.scheduling import seat_of
from nodemanager.core.model.world import Record
from nodemanager.lib.clock import SystemClock
from nodemanager.records.slurm import SlurmRecordStore
from nodemanager.records.slurm_nodes import SlurmNodes
from nodemanager.schedulers.slurm.adapter import SlurmScheduler
from tests.contract.stores import open_sql
from tests.records.slurm_model import SLURMD_TIMEOUT_S, ModelCluster, SlurmModel
from tests.schedulers.slurm_cluster import SlurmCluster, free_ports_in_a_row, on_this_machine
from tests.schedulers.slurm_cluster import slurm_cluster as cluster_of
from tests.waiting import busy, until

FASTER = 30
REGISTERS_WITHIN_S = 12.0
CONF = (
    "ReturnToService=2",
    "PrivateData=cloud",
    "SlurmctldParameters=idle_on_node_suspend,power_save_interval=1",
    "ResumeProgram={resume}",
    "SuspendProgram={suspend}",
    "SuspendTime={suspend_time}",
    "SuspendTimeout=1",
    "ResumeTimeout={resume_timeout}",
    "ResumeRate=0",
    "SuspendRate=0",
    f"SlurmdTimeout={SLURMD_TIMEOUT_S}",
    "NodeName=small-[1-{small}] CPUs=1 RealMemory=500 Feature=instancetype=small Weight=10"
    " State=CLOUD",
    "NodeName=large-1 CPUs=2 RealMemory=900 Feature=instancetype=large Weight=20 State=CLOUD",
    "PartitionName=elastic Nodes=small-[1-{small}],large-1 Default=YES State=UP",
)
NODES = ("large-1", "small-1", "small-2")
"""In the order in which Slurm lists them."""


class CloudSlurm:
    """The cluster, and what happens to its machines."""

    def __init__(self, cluster: SlurmCluster | ModelCluster) -> None:
        self.cluster = cluster
        self.was = ""

    def store(self, database: Path, timeout: float = 10.0) -> SlurmRecordStore:
        options = getattr(self.cluster, "options", {})
        slurm = SlurmNodes(timeout, conf=str(self.cluster.conf), **options)
        clock = SystemClock()
        sql = open_sql(f"sqlite:///{database}", 1, clock=clock)
        return SlurmRecordStore(sql, slurm, clock)

    def scheduler(self) -> SlurmScheduler:
        return SlurmScheduler(10.0, conf=str(self.cluster.conf), power_saving=True)

    def words(self, name: str) -> set[str]:
        return self.cluster.node_words(name)

    def boot(self, name: str) -> None:
        """Start the machine's slurmd once Slurm expects it, and wait until Slurm has it."""
        self.was = self.start_of(name)
        if self.is_off(name):
            self.cluster.client("scontrol", "update", f"NodeName={name}", "State=POWER_UP")
        expected = {"POWERING_UP", "DOWN"}
        until("power up", lambda: self.words(name) & expected, told=self.cluster.log)
        self.start(name)
        again_at = time.monotonic() + REGISTERS_WITHIN_S * busy()

        def is_up() -> bool:
            nonlocal again_at
            if not self.is_up(name) and time.monotonic() > again_at:
                # A busy slurmctld may miss its registration, and a service would start it again.
                self.kill(name)
                self.start(name)
                again_at = time.monotonic() + REGISTERS_WITHIN_S * busy()
            return self.is_up(name)

        until("a slurmd", is_up, 3 * REGISTERS_WITHIN_S, told=self.cluster.log)

    def start(self, name: str) -> None:
        arguments = ("slurmd", "-D", "-b", "-N", name, "-f", str(self.cluster.conf))
        self.cluster.slurmds[name] = self.cluster._start(*arguments)

    def is_up(self, name: str) -> bool:
        away = {"NOT_RESPONDING", "POWERING_UP", "POWERED_DOWN", "POWERING_DOWN", "DOWN"}
        shown = self.shown(name)
        words = set(shown.partition(" State=")[2].split()[0].split("+"))
        return _start_in(shown) not in ("None", self.was) and not words & away

    def start_of(self, name: str) -> str:
        return _start_in(self.shown(name))

    def shown(self, name: str) -> str:
        told = ("scontrol", "--oneliner", "show", "node", name)
        return self.cluster.client(*told, SLURM_TIME_FORMAT="%s")

    def kill(self, name: str) -> None:
        self.cluster.kill_node(name)

    def lose(self, name: str) -> None:
        """Kill the machine, and wait until Slurm calls it down."""
        self.kill(name)
        until("its end", lambda: "DOWN" in self.words(name), told=self.cluster.log)

    def is_off(self, name: str) -> bool:
        return _are_off(self.words(name))

    def tidy(self) -> None:
        """Every node powered down."""
        if self.cluster.controller is None:
            self.cluster.start_controller()
        for name in list(self.cluster.slurmds):
            self.kill(name)
        for job in self.cluster.client("squeue", "--noheader", "--format=%A").split():
            self.cluster.client("scancel", job)
        for name in NODES:
            until("power off", lambda name=name: self.off(name), told=self.cluster.log)

    def off(self, name: str) -> bool:
        """Power the node down, as far as that goes now; whether it is."""
        words = self.words(name)
        state = None
        if "POWERED_DOWN" not in words and not words & {"POWERING_DOWN", "POWER_DOWN"}:
            state = "POWER_DOWN_FORCE"
        elif "POWERED_DOWN" in words and words & {"DOWN", "DRAIN"}:
            # On a node that is powering down it would call that off.
            state = "RESUME"
        if state is None:
            return _are_off(words)
        self.cluster._run("scontrol", "update", f"NodeName={name}", f"State={state}")
        return False


def _are_off(words: set[str]) -> bool:
    return words - {"NOT_RESPONDING"} == {"IDLE", "CLOUD", "POWERED_DOWN"}


def _start_in(shown: str) -> str:
    """When the node's slurmd began, in scontrol's words."""
    return shown.partition("SlurmdStartTime=")[2].split()[0]


@contextmanager
def cloud_slurm(
    folder: Path,
    *,
    resume: str = "/bin/true",
    suspend: str = "/bin/true",
    suspend_time: int = 600,
    resume_timeout: int,
    small: int = 2,
) -> Iterator[CloudSlurm]:
    given = {
        "resume": resume,
        "suspend": suspend,
        "suspend_time": suspend_time,
        "resume_timeout": resume_timeout,
        "small": small,
    }
    lines = [line.format(**given) for line in CONF]
    conf = on_this_machine(lines, free_ports_in_a_row(small + 1))
    with cluster_of(folder, nodes=(), nodes_conf=conf) as cluster:
        yield CloudSlurm(cluster)


def model_slurm() -> CloudSlurm:
    """The same nodes in a model, whose time runs faster, so that nothing is waited for."""
    began = time.time()
    sizes = {name: name.partition("-")[0] for name in NODES}
    model = SlurmModel(sizes, lambda: began + FASTER * (time.time() - began))
    return CloudSlurm(ModelCluster(model))


def of(record: Record) -> str:
    """The node that the record is."""
    return str(seat_of(record))
