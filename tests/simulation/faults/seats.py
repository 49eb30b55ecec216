"""Slurm's nodes as records: what others do to them, and slurmctld's own restarts."""

from __future__ import annotations

from tests.simulation.faults.script import LONG, MIDDLING, Scene, fault
from tests.simulation.seats import Controller

REASON = "bad disk (ann)"


def _controller(scene: Scene) -> Controller:
    controller = scene.world.controller
    assert controller is not None
    return controller


def _tell(scene: Scene, name: str, *told: str) -> None:
    argv = ("scontrol", "update", f"NodeName={name}", *told)
    _controller(scene).model.run("slurm", argv, 10.0)


@fault("somebody drains a seat", lasts=MIDDLING, seated=True)
def drains(scene: Scene) -> None:
    model = _controller(scene).model
    names = [name for name, node in model.nodes.items() if "DRAIN" not in node.flags]
    if not names:
        return
    name = scene.random.choice(names)

    def undrain() -> None:
        reason = model.nodes[name].reason
        if reason is not None and reason[0] == REASON:
            # One whose machine was lost meanwhile is down, and for that reason, as all can see.
            is_down = "DOWN" in model.nodes[name].flags
            _tell(scene, name, "State=RESUME" if is_down else "State=UNDRAIN")

    _tell(scene, name, "State=DRAIN", f"Reason={REASON}")
    scene.finally_(undrain)
    scene.world.calms.append(undrain)


@fault("seats are reserved for maintenance", weight=0.5, lasts=LONG, seated=True)
def reserved(scene: Scene) -> None:
    """One, or all of them."""
    model = _controller(scene).model
    names = list(model.nodes)
    some = names if scene.random.random() < 0.5 else [scene.random.choice(names)]
    which = f"maintenance {scene.fault.number}"

    def end() -> None:
        if which in model.reservations:
            model.end_reservation(which)

    model.reserve(which, some, maintenance=True)
    scene.finally_(end)
    scene.world.calms.append(end)


@fault("a seat is taken out of its partition", lasts=LONG, seated=True)
def retired(scene: Scene) -> None:
    """Its job runs on, and it gets no other until it is back."""
    model = _controller(scene).model
    partition = _controller(scene).partition_of(scene.fault.pool)
    names = model.partitions[partition]
    if len(names) < 2:
        return
    name = scene.random.choice(names)

    def put_back() -> None:
        if name not in model.partitions[partition]:
            model.partitions[partition] += (name,)

    model.partitions[partition] = tuple(one for one in names if one != name)
    scene.finally_(put_back)
    scene.world.calms.append(put_back)


@fault("somebody calls a seat down", lasts=MIDDLING, seated=True, share=0.15)
def calls_down(scene: Scene) -> None:
    """With a reason of their own. A slurmd that answers ends that; a node that is off stays so."""
    model = _controller(scene).model
    name = scene.random.choice(list(model.nodes))

    def resume() -> None:
        reason = model.nodes[name].reason
        if reason is not None and reason[0] == REASON:
            _tell(scene, name, "State=RESUME")

    _tell(scene, name, "State=DOWN", f"Reason={REASON}")
    _controller(scene).look()
    scene.finally_(resume)
    scene.world.calms.append(resume)


@fault("somebody cancels jobs", lasts=MIDDLING, seated=True, share=0.25)
def cancels(scene: Scene) -> None:
    """Those that wait, or all."""
    controller = _controller(scene)
    controller.look()
    for job in list(controller.jobs.values()):
        if job.on is None or scene.random.random() < 0.5:
            controller.cancel(job)
    controller.look()


@fault("slurmctld restarts", seated=True)
def restarts(scene: Scene) -> None:
    _controller(scene).restart()


@fault("slurmctld is killed", seated=True)
def is_killed(scene: Scene) -> None:
    """With what it knows since its last save; it is started again at once."""
    _controller(scene).restart(killed=True)
