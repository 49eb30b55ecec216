"""Where a script of tests/schedulers/slurm_language.py is played: a real Slurm, and the model."""

from __future__ import annotations

import re
import shutil
import signal
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol

from nodemanager.core.model.scheduling import SchedulerNode
from nodemanager.errors import SchedulerRefused
from nodemanager.schedulers.api import Scheduler
from nodemanager.schedulers.slurm.adapter import SlurmScheduler
from tests.records.slurm_model import SlurmModel, Times
from tests.schedulers.slurm_cluster import (
    STATE_FILES,
    SlurmCluster,
    free_ports_in_a_row,
    on_this_machine,
    slurm_cluster,
)
from tests.schedulers.slurm_language import Picture, Step, is_reached, unlike
from tests.waiting import busy, until

NODES = ("n1", "n2", "n3")
TIMES = Times(slurmd_timeout=5, resume_timeout=20, suspend_timeout=6)
CONF = (
    "ReturnToService=2",
    "PrivateData=cloud",
    "SlurmctldParameters=idle_on_node_suspend,power_save_interval=1",
    "ResumeProgram=/bin/true",
    "SuspendProgram=/bin/true",
    "SuspendTime=3600",
    "ResumeRate=0",
    "SuspendRate=0",
    f"SlurmdTimeout={TIMES.slurmd_timeout}",
    f"ResumeTimeout={TIMES.resume_timeout}",
    f"SuspendTimeout={TIMES.suspend_timeout}",
    *(f"NodeName={name} CPUs=1 RealMemory=500 State=CLOUD" for name in NODES),
)
PARTITION = "PartitionName=elastic Nodes={nodes} Default=YES State=UP\n"
PASSING = frozenset({"CLOUD", "PLANNED", "COMPLETING"})
"""Words of a node that are the same for all, or come and go with each job."""
LONGEST_S = 600.0
"""No wait of a script may take the model longer."""
UNLIKE_S = 25.0
"""So long a real Slurm may take to say what the model says, beyond the wait of the model."""
_SAID = re.compile(
    r"Invalid node (state|name) specified|configuration is not available"
    r"|Zero Bytes were transmitted"
)


class Unlike(AssertionError):
    """The two do not say the same."""


def said(text: str) -> str:
    """What matters of a refusal."""
    found = _SAID.search(text)
    return found[0] if found is not None else text.strip()


class ModelStage(Protocol):
    """A stage whose clock is turned by what a script waits for."""

    now: float

    def turn(self, seconds: float) -> None:
        """Let so much time pass."""
        ...

    def look(self) -> Picture: ...

    def do(self, step: Step) -> str:
        """Make it happen; what was answered, in the words that matter."""
        ...


def reach(stage: ModelStage, step: Step) -> tuple[Picture, float]:
    """What it says once the step is reached, and how long that took."""
    began = stage.now
    while not is_reached(step, seen := stage.look()):
        if stage.now - began > LONGEST_S:
            raise Unlike(f"{step}: the model never comes to that: {dict(seen)}")
        stage.turn(0.25)
    return seen, stage.now - began


class OnModel:
    """The model of slurmctld."""

    def __init__(self) -> None:
        self.now = 1_000_000.0
        self.slurm = SlurmModel(dict.fromkeys(NODES, "small"), lambda: self.now, TIMES)
        self.jobs: dict[str, str] = {}
        self._starts: dict[str, list[int]] = defaultdict(list)
        self.turn(10.0)

    def turn(self, seconds: float) -> None:
        for _ in range(int(seconds / 0.25)):
            self.now += 0.25
            self.slurm.settle()

    def do(self, step: Step) -> str:
        slurm, about = self.slurm, step.about
        if step.verb == "order":
            argv = ("scontrol", "update", f"NodeName={about}", *step.told)
            return said(slurm.run("slurm", argv, 10.0).said)
        if step.verb == "register":
            # Starts are told in whole seconds.
            self.turn(1.0)
            slurm.start_slurmd(about)
            started = slurm.nodes[about].slurmd
            assert started is not None
            self._starts[about].append(started)
        elif step.verb in ("lose", "freeze"):
            slurm.kill_slurmd(about)
        elif step.verb == "thaw":
            slurm.hear_again(about)
        elif step.verb == "submit":
            id = slurm.submit(step.told[0])
            self.jobs |= {about: id} if id else {}
            return "" if id else "configuration is not available"
        elif step.verb in ("cancel", "requeue", "begin"):
            acts = {"cancel": slurm.end_job, "requeue": slurm.requeue, "begin": slurm.begin_now}
            acts[step.verb](self.jobs[about])
        elif step.verb in ("reserve", "unreserve"):
            self._reserve(step)
        else:
            self._control(step)
        return ""

    def _reserve(self, step: Step) -> None:
        if step.verb == "unreserve":
            self.slurm.end_reservation("ours")
        else:
            names, maintenance = step.about.split(","), "maintenance" in step.told
            self.slurm.reserve("ours", names, maintenance=maintenance)

    def _control(self, step: Step) -> None:
        slurm = self.slurm
        if step.verb in ("stop", "kill"):
            slurm.stop(killed=step.verb == "kill")
        elif step.verb == "start":
            slurm.start()
        elif step.verb == "saved":
            self.turn(3 * TIMES.saved_in)
        elif step.verb == "partition":
            told = ("scontrol", "update", "PartitionName=elastic", f"Nodes={','.join(step.told)}")
            slurm.run("slurm", told, 10.0)
        elif step.verb == "configure":
            names = tuple(name for name in NODES if name not in step.told)
            slurm.sizes, slurm.configured = dict.fromkeys(names, "small"), {"elastic": names}
        elif step.verb == "reconfigure":
            slurm.reconfigure()
        else:
            raise ValueError(f"no such step: {step}")

    def look(self) -> Picture:
        self.slurm.settle()
        seen: dict[str, str] = {}
        for name, node in self.slurm.nodes.items():
            start = None if node.start is None else self._starts[name].index(node.start) + 1
            reason = node.reason[0] if node.reason is not None else ""
            seen |= _of_node(name, node.words, reason, start, self.slurm.line(node))
        for job, id in self.jobs.items():
            state, on = self.slurm.state_of(id), self.slurm.node_of(id)
            if state == "PENDING":
                is_resting = self.slurm.jobs[id].begins > self.now
                seen[f"job {job}"] = "rests" if is_resting else "waits"
            else:
                seen[f"job {job}"] = on or "over"
        return seen


class OnSlurm:
    """A real Slurm, anew for each script. Its nodes are CLOUD ones, or `always_on`."""

    def __init__(self, cluster: SlurmCluster, *, always_on: bool = False) -> None:
        self.cluster = cluster
        self.scheduler = SlurmScheduler(15.0, conf=str(cluster.conf))
        self._start_with = () if always_on else ("-b",)
        self._look = self._port_seen if always_on else self._nodes_seen
        self._conf = cluster.conf.read_text(encoding="utf-8")
        self.jobs: dict[str, str] = {}
        self._starts: dict[str, list[int]] = defaultdict(list)
        self._ordered: dict[str, int] = {}
        """When each node was ordered something last, or a job requeued, in whole seconds."""
        self._saved: dict[str, bytes] = {}
        """What its state files had when all was saved last."""

    def anew(self) -> None:
        cluster = self.cluster
        for name in list(cluster.slurmds):
            cluster.kill_node(name)
        self._kill()
        self._saved.clear()
        shutil.rmtree(cluster.folder / "state")
        (cluster.folder / "state").mkdir()
        self._configure(())
        self.jobs.clear()
        self._starts.clear()
        self._ordered.clear()
        cluster.start_controller()

    def _configure(self, without: Sequence[str]) -> None:
        names = [name for name in NODES if name not in without]
        lines = [
            line
            for line in self._conf.splitlines()
            if not any(line.startswith(f"NodeName={name} ") for name in without)
            and not line.startswith("PartitionName=")
        ]
        text = "\n".join(lines) + "\n" + PARTITION.format(nodes=",".join(names))
        self.cluster.conf.write_text(text, encoding="utf-8")

    def reach(self, step: Step, expected: Picture, within: float) -> None:
        """Wait until it says what the model said there; raises Unlike where it never does."""
        limit = time.monotonic() + within + UNLIKE_S * busy()
        while True:
            seen = self.look()
            found = unlike(step, seen, expected)
            if is_reached(step, seen) and not found:
                return
            if time.monotonic() > limit:
                raise Unlike(
                    f"{step}: (real, model) of {found or step.about}\n{self.cluster.log()}"
                )
            # Each look is two programs of Slurm, and work of slurmctld.
            time.sleep(0.2)

    def do(self, step: Step) -> str:
        cluster, about = self.cluster, step.about
        if step.verb == "order":
            told = self._told("scontrol", "update", f"NodeName={about}", *step.told)
            self._ordered[about] = int(time.time())
            return told
        if step.verb == "tell":
            return told_by_port(self.scheduler, about, *step.told)
        if step.verb == "register":
            self._register(about)
        elif step.verb == "lose":
            if about in self._jobs_seen().values():
                # One that is still being launched would fail by itself.
                until("its job's process", lambda: cluster.runs_on(about), told=cluster.log)
            cluster.kill_node(about)
        elif step.verb in ("freeze", "thaw"):
            sent = signal.SIGSTOP if step.verb == "freeze" else signal.SIGCONT
            cluster.slurmds[about].send_signal(sent)
        elif step.verb == "submit":
            return self._submit(about, step.told[0])
        elif step.verb in ("cancel", "requeue", "begin"):
            id = self.jobs[about]
            if step.verb == "begin":
                # Else a slurmd takes it for the run that was just revoked, and ends it.
                asked = int(time.time())
                until("another second", lambda: int(time.time()) > asked + 1)
            begin = ("scontrol", "update", f"JobId={id}", "StartTime=now")
            acts = {"cancel": ("scancel", id), "requeue": ("scontrol", "requeue", id)}
            return self._told(*acts.get(step.verb, begin))
        elif step.verb == "reserve":
            flags = ("Flags=MAINT,IGNORE_JOBS",) if "maintenance" in step.told else ()
            what = ("ReservationName=ours", "StartTime=now", "Duration=60", "Users=root")
            return self._told("scontrol", "create", *what, f"Nodes={about}", *flags)
        elif step.verb == "unreserve":
            return self._told("scontrol", "delete", "ReservationName=ours")
        else:
            return self._control(step)
        return ""

    def _control(self, step: Step) -> str:
        cluster = self.cluster
        if step.verb == "stop":
            cluster.stop_controller()
        elif step.verb == "kill":
            self._kill()
        elif step.verb == "start":
            cluster.start_controller()
        elif step.verb == "saved":
            self._is_saved()
        elif step.verb == "partition":
            names = ",".join(step.told)
            return self._told("scontrol", "update", "PartitionName=elastic", f"Nodes={names}")
        elif step.verb == "configure":
            self._configure(step.told)
        elif step.verb == "reconfigure":
            return self._told("scontrol", "reconfigure")
        else:
            raise ValueError(f"no such step: {step}")
        return ""

    def _told(self, *argv: str) -> str:
        done = self.cluster._run(*argv)
        return "" if done.returncode == 0 else said(done.stderr)

    def _register(self, name: str) -> None:
        # Starts are told in whole seconds, and one of these names one slurmd.
        # slurmctld takes a start of the second of an order, or of the one before it as it rounds,
        # for that of the machine before, and hears nothing of it.
        last = max(*self._starts[name], self._ordered.get(name, 0) + 1, 0)
        until("another second", lambda: int(time.time()) > last)
        self._starts[name].append(int(time.time()))
        start = ("slurmd", "-D", *self._start_with, "-N", name, "-f", str(self.cluster.conf))
        self.cluster.slurmds[name] = self.cluster._start(*start)

    def _submit(self, job: str, node: str) -> str:
        options = ("--parsable", "--output=/dev/null", "-w", node, "--wrap=exec sleep 600")
        done = self.cluster._run("sbatch", *options)
        if done.returncode != 0:
            return said(done.stderr)
        self.jobs[job] = done.stdout.strip()
        return ""

    def _kill(self) -> None:
        """Kill -9 it, before it has saved anything since the script last waited for that."""
        controller = self.cluster.controller
        if controller is not None:
            controller.kill()
            controller.wait(10)
        self.cluster.controller = None
        for file, saved in self._saved.items():
            (self.cluster.folder / "state" / file).write_bytes(saved)

    def _is_saved(self) -> None:
        self.cluster.until_saved(NODES[-1], self.jobs.values())
        paths = (self.cluster.folder / "state" / file for file in STATE_FILES)
        self._saved = {path.name: path.read_bytes() for path in paths if path.exists()}

    def look(self) -> Picture:
        return {**self._look(), **self._jobs_seen()}

    def _port_seen(self) -> Picture:
        return picture_of(self.scheduler.nodes().items, self._starts)

    def _nodes_seen(self) -> Picture:
        seen: dict[str, str] = {}
        shown = self.cluster._run("scontrol", "-o", "show", "node", SLURM_TIME_FORMAT="%s").stdout
        for line in shown.splitlines():
            name, state = _told(line, "NodeName"), _told(line, "State")
            if not name:
                continue
            reason = re.search(r" Reason=(.*?) \[", line)
            start = _told(line, "SlurmdStartTime")
            which = None
            if start.isdecimal() and int(start):
                # It begins a moment after it was started.
                before = [at for at in self._starts[name] if at <= int(start)]
                which = len(before)
            why = reason[1] if reason is not None else ""
            seen |= _of_node(name, state.split("+"), why, which, line)
        return seen

    def _jobs_seen(self) -> Picture:
        seen: dict[str, str] = {}
        shown = self.cluster._run("scontrol", "-o", "show", "job").stdout
        names = {id: job for job, id in self.jobs.items()}
        for line in shown.splitlines():
            job = names.get(_told(line, "JobId"))
            if job is not None:
                seen[f"job {job}"] = _job(line)
        return seen


def told_by_port(scheduler: Scheduler, node: str, verb: str, *reason: str) -> str:
    """What the port makes of the answer."""
    orders: dict[str, Callable[..., None]] = {
        "drain": scheduler.drain,
        "resume": scheduler.resume,
        "down": scheduler.mark_down,
    }
    try:
        orders[verb](node, *reason)
    except SchedulerRefused as error:
        return said(str(error))
    return ""


def picture_of(
    nodes: Iterable[SchedulerNode], starts: Mapping[str, Sequence[int]]
) -> dict[str, str]:
    """What the port says of nodes, whoever is behind it; `starts` are those of each one's slurmds.

    A slurmd begins a moment after it was started.
    """
    seen: dict[str, str] = {}
    for node in nodes:
        marks = {"draining": node.draining, "reserved": node.reserved, "silent": not node.responds}
        seen[node.name] = " ".join((node.state.value, *(mark for mark in marks if marks[mark])))
        if node.reason:
            seen[f"{node.name} reason"] = node.reason
        if node.started_at is not None:
            known = sum(at <= node.started_at for at in starts.get(node.name, ()))
            seen[f"{node.name} slurmd"] = str(known)
    return seen


def _told(line: str, key: str) -> str:
    found = re.search(rf"(?:^| ){key}=(\S+)", line)
    return found[1] if found is not None else ""


def _job(line: str) -> str:
    state, reason = _told(line, "JobState"), _told(line, "Reason")
    if state == "PENDING":
        if reason == "BeginTime":
            return "rests"
        return "held" if "held" in reason.lower() else "waits"
    if state in ("RUNNING", "CONFIGURING", "COMPLETING"):
        return _told(line, "NodeList")
    return "over"


def _of_node(
    name: str, words: Sequence[str], reason: str, start: int | None, line: str
) -> dict[str, str]:
    seen = {name: " ".join(sorted(word for word in words if word not in PASSING))}
    seen[f"{name} slurmd"] = "unknown" if start is None else str(start)
    seen[f"{name} partitions"] = _told(line, "Partitions") or "none"
    if reason:
        seen[f"{name} reason"] = reason
    return seen


@contextmanager
def real_stage(folder: Path, *, always_on: bool = False) -> Iterator[OnSlurm]:
    lines = CONF
    if always_on:
        lines = tuple(line.replace("State=CLOUD", "State=UNKNOWN") for line in CONF)
    conf = on_this_machine(lines, free_ports_in_a_row(len(NODES)))
    conf += PARTITION.format(nodes=",".join(NODES))
    with slurm_cluster(folder, nodes=(), nodes_conf=conf) as cluster:
        yield OnSlurm(cluster, always_on=always_on)


def played_on(
    stage: ModelStage, steps: Sequence[Step]
) -> Iterator[tuple[Step, str, Picture, float]]:
    """Each step, what it was answered or what was seen then, and how long that was waited for."""
    for step in steps:
        if step.verb in ("until", "look"):
            seen, waited = reach(stage, step)
            yield step, "", seen, waited
        else:
            yield step, stage.do(step), {}, 0.0


def play(steps: Sequence[Step], real: OnSlurm, model: ModelStage) -> None:
    """Play it on both; raises Unlike at the first step where they differ."""
    # The whole on the model first: what it says depends on its own clock alone.
    played = list(played_on(model, steps))
    real.anew()
    for step, answered, seen, waited in played:
        if step.verb in ("until", "look"):
            real.reach(step, seen, waited)
            continue
        both = real.do(step), answered
        if both != step.differs.get("answer", (answered, answered)):
            raise Unlike(f"{step}: (real, model) answer {both}")
