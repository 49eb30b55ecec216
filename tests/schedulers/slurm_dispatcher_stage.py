"""The simulated scheduler (tests/simulation/slurm.py) as a stage for scripts.

It is asked over the port, as a manager asks, and so is the real Slurm beside it: what is compared
is what the adapter makes of Slurm's words.
"""

from __future__ import annotations

from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

from nodemanager.core.model.world import CloudState
from nodemanager.errors import SchedulerRefused
from tests.schedulers.slurm_language import Picture, Step
from tests.schedulers.slurm_stages import NODES, picture_of
from tests.simulation.engine import EPOCH, Engine
from tests.simulation.slurm import ASKED_IN_S, LOOK_EVERY_S, SAVED_WITHIN_S, Dispatching, Slurm

NEVER_DONE_S = 1e9
NO_NAME = "Invalid node name specified"


@dataclass(eq=False)
class Body:
    """What the simulated scheduler knows of a machine."""

    hostname: str
    instance: Any
    engine: Engine
    on: bool = True
    up: bool = True
    cut_off: bool = False
    frozen: bool = False
    life: int = 1
    heard_at: float | None = 0.0
    busy_since: float | None = None

    def begin_job(self, lasts: float) -> None:
        self.busy_since = self.engine.now


class OnDispatcher:
    """The simulated scheduler, in a world with nothing else."""

    def __init__(self) -> None:
        self.engine = Engine("scripts")
        self.pool = SimpleNamespace(name="main", wanted=0)
        world: Any = SimpleNamespace(
            engine=self.engine,
            machines={},
            pools={"main": self.pool},
            registry=SimpleNamespace(naming=SimpleNamespace(host=lambda slot: f"n{slot}")),
            shape=SimpleNamespace(slots=len(NODES)),
        )
        self.machines: dict[str, Body] = world.machines
        self.slurm = Slurm(world, Dispatching(every=1.0, job_s=NEVER_DONE_S))
        self.bodies: dict[str, Body] = {}
        self.jobs: set[str] = set()
        self.over: set[str] = set()
        self.starts: dict[str, list[int]] = {}

    @property
    def now(self) -> float:
        return self.engine.now

    def turn(self, seconds: float) -> None:
        self.engine.run(self.engine.now + seconds)

    def look(self) -> Picture:
        seen = picture_of(self.slurm.listing(), self.starts)
        at_work = [node.name for node in self.slurm.nodes.values() if node.works_since is not None]
        waits = "waits" if self.pool.wanted else "over"
        for job in self.jobs:
            seen[f"job {job}"] = at_work[0] if at_work else waits
        return seen | dict.fromkeys((f"job {job}" for job in self.over), "over")

    def do(self, step: Step) -> str:
        try:
            self._do(step)
        except SchedulerRefused as error:
            return NO_NAME if "invalid node name" in str(error) else str(error)
        return ""

    def _do(self, step: Step) -> None:
        slurm, about = self.slurm, step.about
        if step.verb == "tell":
            self._tell(about, step.told[0], *step.told[1:])
        elif step.verb == "order":
            self._order(about, dict(word.split("=", 1) for word in step.told))
        elif step.verb == "register":
            tags = SimpleNamespace(pool="main")
            instance = SimpleNamespace(
                id=f"i-{len(self.machines)}",
                lives=True,
                state=CloudState.RUNNING,
                tags=tags,
                created_at=self.engine.now,
            )
            self.bodies[about] = Body(about, instance, self.engine)
            self.machines[instance.id] = self.bodies[about]
            self.starts.setdefault(about, []).append(int(EPOCH + self.engine.now))
            slurm.look()
        elif step.verb == "lose":
            self.bodies[about].on = self.bodies[about].instance.lives = False
        elif step.verb in ("freeze", "thaw"):
            self.bodies[about].frozen = step.verb == "freeze"
        elif step.verb in ("submit", "cancel", "requeue", "begin"):
            self._job(step)
        else:
            self._control(step)

    def _tell(self, name: str, verb: str, reason: str = "") -> None:
        if verb == "resume":
            self.slurm.resume(name)
        elif verb == "drain":
            self.slurm.drain(name, reason)
        else:
            self.slurm.mark_down(name, reason, "us")

    def _order(self, name: str, told: dict[str, str]) -> None:
        """Somebody else's."""
        node = self.slurm.node(name)
        if told["State"] == "DRAIN":
            node.drained, node.drained_at = told["Reason"], self.engine.now
        elif told["State"] == "UNDRAIN":
            node.drained = None
        elif told["State"] == "DOWN":
            self.slurm.give_up(node, told["Reason"])
        else:
            raise ValueError(f"no such order: {told}")

    def _job(self, step: Step) -> None:
        """It goes to whatever node is free: a script leaves one."""
        if step.verb == "submit":
            self.jobs.add(step.about)
            self.pool.wanted += 1
        elif step.verb == "cancel":
            self.jobs.remove(step.about)
            self.over.add(step.about)
            for body in self.bodies.values():
                body.busy_since = None
            self.slurm.look()

    def _control(self, step: Step) -> None:
        slurm = self.slurm
        if step.verb == "reserve":
            for name in step.about.split(","):
                slurm.node(name).reserved = True
        elif step.verb == "unreserve":
            for node in slurm.nodes.values():
                node.reserved = False
        elif step.verb == "kill":
            slurm.kill()
        elif step.verb == "start":
            slurm.restart()
            # The script goes on once the slurmds have registered again.
            self.turn(ASKED_IN_S + LOOK_EVERY_S)
        elif step.verb == "saved":
            self.turn(SAVED_WITHIN_S)
        elif step.verb == "configure":
            for name in step.told:
                slurm.take_name(name)
            for name in set(slurm.lacks) - set(step.told):
                slurm.give_name_back(name)
        elif step.verb != "stop":
            raise ValueError(f"no such step: {step}")
