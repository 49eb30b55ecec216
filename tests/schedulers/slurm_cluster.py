"""A real Slurm: munged, slurmctld and a slurmd for each node, as processes of this user.

Nothing of it is the machine's own: keys, sockets, ports and files are below one folder, and munge
is found by `AuthInfo`. SERVERS: slurmctld slurmd slurm-client munge (make test-deps).
"""

from __future__ import annotations

import getpass
import os
import re
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from itertools import cycle
from pathlib import Path

from tests.waiting import until

CORES, MEMORY_MB, DISK_MB = 4, 4000, 1000
NODES = ("c1", "c2")
LARGE, LARGE_CORES = "cloud1", 8
"""A CLOUD node of another size, which is powered down: nothing starts it."""

STATE_FILES = ("node_state", "job_state")
"""In slurmctld's own folder."""

CONF = Path(__file__).parents[2] / "etc" / "demo" / "slurm.conf"
OWN = """\
DefMemPerCPU=10
PriorityType=priority/basic
PrivateData=cloud
KillWait=1
MessageTimeout=3
SlurmdTimeout={silence_s}
"""
"""What every cluster of these tests has, beside the lines of the demo's."""
NODES_CONF = """\
ReturnToService=2
GresTypes=license
ResumeProgram=/bin/true
SuspendProgram=/bin/true
SuspendTime=-1
{nodes}
NodeName={large} NodeAddr=127.0.0.1 NodeHostname={host} Port={spare} CPUs={large_cores} \
RealMemory=8000 TmpDisk={disk} State=CLOUD Feature=big,instancetype=large Weight=80
PartitionName=main Nodes=ALL Default=YES MaxTime=INFINITE State=UP
PartitionName=other Nodes={names} MaxTime=INFINITE State=UP
"""
NODE = """\
NodeName={name} NodeAddr=127.0.0.1 NodeHostname={host} Port={port} CPUs={cores} \
RealMemory={memory} TmpDisk={disk} State=UNKNOWN Gres=license:site:4 \
Feature=rack1,instancetype=small Weight=5"""


@dataclass
class SlurmCluster:
    """A running cluster. `conf` is its slurm.conf, which every client needs in SLURM_CONF."""

    folder: Path
    conf: Path
    nodes: tuple[str, ...]
    controller: subprocess.Popen[bytes] | None = None
    slurmds: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)

    def client(self, *argv: str, **environment: str) -> str:
        """What a program of Slurm prints; a question that found the controller busy is repeated."""
        for _ in range(5):
            done = self._run(*argv, **environment)
            if "Socket timed out" not in done.stderr or "update" in argv:
                break
        assert done.returncode == 0, (argv, done.stderr)
        return done.stdout

    def _run(self, *argv: str, **environment: str) -> subprocess.CompletedProcess[str]:
        ours = {"PATH": os.environ["PATH"], "SLURM_CONF": str(self.conf), "LC_ALL": "C"}
        return subprocess.run(
            argv,
            env={**ours, **environment},
            cwd=self.folder,
            capture_output=True,
            text=True,
            timeout=20.0,
            check=False,
        )

    def submit(self, *options: str, seconds: int = 600) -> str:
        """The id of a batch job that sleeps."""
        out = self.client(
            "sbatch", "--parsable", "--output=/dev/null", *options, f"--wrap=exec sleep {seconds}"
        )
        return out.strip()

    def job_state(self, job: str) -> str:
        found = re.search(r"JobState=(\w+)", self.client("scontrol", "show", "job", job))
        assert found is not None
        return found[1]

    def job_reason(self, job: str) -> str:
        found = re.search(r" Reason=(\S+)", self.client("scontrol", "show", "job", "-o", job))
        assert found is not None
        return found[1]

    def node_words(self, node: str) -> set[str]:
        return self.words_of(node)[node]

    def words_of(self, nodes: str) -> dict[str, set[str]]:
        """The words of each node's state, asked for at once; `nodes` as Slurm writes them."""
        told = self.client("scontrol", "show", "node", "-o", nodes)
        found = re.findall(r"^NodeName=(\S+) .*? State=(\S+)", told, re.MULTILINE)
        assert found, told
        return {name: set(state.split("+")) for name, state in found}

    def log(self) -> str:
        return "\n".join(
            f"== {path.name}\n" + path.read_text(encoding="utf-8", errors="replace")[-3000:]
            for path in sorted(self.folder.glob("*.log"))
        )

    def start_controller(self) -> None:
        self.controller = self._start("slurmctld", "-D", "-f", str(self.conf))
        until("slurmctld", self._answers, told=self.log)

    def until_saved(self, node: str, jobs: Iterable[str] = ()) -> None:
        """Until all that slurmctld knows by now is on its disk: what comes later, a kill loses."""
        # It saves what changed: here a comment, which is of no interest.
        began = time.time()
        self.client("scontrol", "update", f"NodeName={node}", "Comment=saved")
        files = STATE_FILES[:1]
        for job in jobs:
            self._run("scontrol", "update", f"JobId={job}", "Comment=saved")
            files = STATE_FILES
        for file in files:
            path = self.folder / "state" / file
            until(f"a new {file}", partial(_is_newer, path, began), told=self.log)

    def stop_controller(self) -> None:
        _end([self.controller])
        self.controller = None

    @contextmanager
    def controller_frozen(self) -> Iterator[None]:
        """It takes connections and answers none, as one that hangs."""
        assert self.controller is not None
        self.controller.send_signal(signal.SIGSTOP)
        try:
            yield
        finally:
            self.controller.send_signal(signal.SIGCONT)

    def start_node(self, node: str) -> None:
        self.slurmds[node] = self._start("slurmd", "-D", "-N", node, "-f", str(self.conf))

    def kill_node(self, node: str) -> None:
        """End its slurmd at once, and what runs on the node, as when the machine goes."""
        slurmd = self.slurmds.pop(node)
        slurmd.kill()
        slurmd.wait(10)
        self._kill_jobs(f"SLURMD_NODENAME={node}")
        # The next machine of that name does not remember which jobs it once ended.
        spool = self.folder / f"spool-{node}"
        until(f"no {spool.name}", lambda: _removed(spool))

    def tidy(self) -> None:
        """No jobs, and every node idle, as at the start."""
        if self.controller is None:
            self.start_controller()
        self.client("scancel", "--user", getpass.getuser())
        for node in self.nodes:
            if node not in self.slurmds:
                self.start_node(node)
        until("an empty queue", lambda: not self.client("squeue", "-h"), told=self.log)
        for node, words in self._words().items():
            if words & {"DRAIN", "DOWN"}:
                # Refused where the node's new slurmd brought it back first.
                self._run("scontrol", "update", f"NodeName={node}", "State=RESUME")
        until("idle nodes", self._all_idle, told=self.log)

    def end(self) -> None:
        _end([*self.slurmds.values(), self.controller])
        self._kill_jobs("SLURMD_NODENAME=")

    def runs_on(self, node: str) -> bool:
        """Whether a job has a process there."""
        jobs = self._processes(f"SLURMD_NODENAME={node}")
        return any(_comm(process) == "sleep" for process in jobs)

    def _processes(self, variable: str) -> Iterator[Path]:
        """Those of this cluster's jobs with that in their environment."""
        ours = f"SLURM_CONF={self.conf}".encode()
        for process in Path("/proc").glob("[0-9]*"):
            with suppress(OSError):
                environment = (process / "environ").read_bytes()
                if ours in environment and variable.encode() in environment:
                    yield process

    def _kill_jobs(self, variable: str) -> None:
        """Kill the jobs with that in their environment, each after the slurmstepd above it."""
        for process in self._processes(variable):
            with suppress(OSError):
                stat = (process / "stat").read_text(encoding="utf-8")
                above = Path("/proc", stat.rpartition(")")[2].split()[1])
                if _comm(above) == "slurmstepd":
                    os.kill(int(above.name), signal.SIGKILL)
                os.kill(int(process.name), signal.SIGKILL)

    def _all_idle(self) -> bool:
        return all(words == {"IDLE"} for words in self._words().values())

    def _words(self) -> dict[str, set[str]]:
        return self.words_of(",".join(self.nodes)) if self.nodes else {}

    def _answers(self) -> bool:
        assert self.controller is not None
        assert self.controller.poll() is None, self.log()
        return self._run("scontrol", "ping").returncode == 0

    def _start(self, *argv: str) -> subprocess.Popen[bytes]:
        # Daemons of Debian are in sbin, which an ordinary user's PATH may lack.
        path = f"{os.environ['PATH']}:/usr/sbin:/sbin"
        with (self.folder / f"{argv[0]}.out").open("ab") as out:
            return subprocess.Popen(
                argv,
                cwd=self.folder,
                env={"PATH": path, "LC_ALL": "C"},
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=out,
                start_new_session=True,
            )


def on_this_machine(lines: Iterable[str], ports: Sequence[int]) -> str:
    """Lines of slurm.conf with their nodes here: one port each, and no name to be resolved."""
    host = socket.gethostname().partition(".")[0]
    left = list(ports)
    done = []
    for line in lines:
        named = re.match(r"NodeName=\S+?(?:\[0*(\d+)-0*(\d+)\])? ", line)
        if named is not None:
            count = 1 if named[1] is None else int(named[2]) - int(named[1]) + 1
            ports_of = str(left[0]) if named[1] is None else f"[{left[0]}-{left[count - 1]}]"
            del left[:count]
            line += f" NodeAddr=127.0.0.1 NodeHostname={host} Port={ports_of}"
        done.append(line)
    return "\n".join([*done, ""])


@contextmanager
def slurm_cluster(
    folder: Path,
    nodes: Iterable[str] = NODES,
    *,
    nodes_conf: str | None = None,
    silence_s: int = 300,
) -> Iterator[SlurmCluster]:
    """A cluster whose nodes are idle; it has ended, with all its jobs, when this ends.

    `nodes_conf` has other nodes and partitions; then `nodes` are those to start. A node that does
    not answer for `silence_s` is down.
    """
    names = tuple(nodes)
    conf = folder / "slurm.conf"
    (folder / "state").mkdir()
    host = socket.gethostname().partition(".")[0]
    controller, spare, *ports = free_ports_in_a_row(len(names) + 2)
    lines = [
        NODE.format(name=name, host=host, port=port, cores=CORES, memory=MEMORY_MB, disk=DISK_MB)
        for name, port in zip(names, ports, strict=True)
    ]
    base = (CONF.read_text(encoding="utf-8") + OWN).format(
        cluster="test",
        host=host,
        folder=folder,
        user=getpass.getuser(),
        controller=controller,
        silence_s=silence_s,
    )
    own = NODES_CONF.format(
        host=host,
        spare=spare,
        nodes="\n".join(lines),
        names=",".join(names),
        large=LARGE,
        large_cores=LARGE_CORES,
        disk=DISK_MB,
    )
    conf.write_text(base + (own if nodes_conf is None else nodes_conf), encoding="utf-8")
    (folder / "gres.conf").write_text("Name=license Type=site Count=4\n", encoding="utf-8")
    cluster = SlurmCluster(folder, conf, names)
    with ExitStack() as stack:
        stack.enter_context(_munge(cluster))
        stack.callback(cluster.end)
        cluster.start_controller()
        cluster.tidy()
        yield cluster


@contextmanager
def _munge(cluster: SlurmCluster) -> Iterator[None]:
    folder = cluster.folder
    key = folder / "munge.key"
    key.write_bytes(os.urandom(1024))
    key.chmod(0o400)
    files = [f"--{name}-file={folder}/munge.{name}" for name in ("key", "pid", "seed")]
    # --force: it takes a socket below a folder that others may write, such as /tmp.
    socket_at = folder / "munge.socket"
    munged = cluster._start(
        "munged", "--foreground", "--force", f"--socket={socket_at}", *files, "--num-threads=2"
    )
    try:
        until("munged", socket_at.exists, told=(folder / "munged.out").read_text)
        yield
    finally:
        _end([munged])


_OWN = 10_000 + int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw")) % 8 * 2_500
"""Where this worker's own ports begin: two that look at one moment must not find the same free."""
_PORTS = cycle((*range(_OWN, 30_000), *range(10_000, _OWN)))


def free_ports_in_a_row(count: int) -> list[int]:
    """Free ports that this worker of pytest has not given away before, and no other has.

    They are below the ports that outgoing connections get: one of those would take it meanwhile.
    """
    tried = 0
    while tried < 20_000:
        ports = [next(_PORTS) for _ in range(count)]
        tried += count
        with suppress(OSError), ExitStack() as stack:
            for port in ports:
                stack.enter_context(socket.create_server(("127.0.0.1", port)))
            if ports[-1] - ports[0] == count - 1:
                return ports
    raise RuntimeError("this machine has no free ports")


def _comm(process: Path) -> str:
    with suppress(OSError):
        return (process / "comm").read_text(encoding="utf-8").strip()
    return ""


def _is_newer(path: Path, at: float) -> bool:
    with suppress(FileNotFoundError):
        return path.stat().st_mtime > at
    return False


def _removed(folder: Path) -> bool:
    """Whether it is gone; what was killed may still write a last file into it."""
    shutil.rmtree(folder, ignore_errors=True)
    return not folder.exists()


def _end(processes: Iterable[subprocess.Popen[bytes] | None]) -> None:
    started = [one for one in processes if one is not None]
    for one in started:
        one.send_signal(signal.SIGCONT)
        one.terminate()
    for one in started:
        try:
            one.wait(10)
        except subprocess.TimeoutExpired:
            one.kill()
            one.wait(10)
