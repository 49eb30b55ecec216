"""The scheduler: its polls and orders that fail, hang or come late, and what others order there."""

from __future__ import annotations

from nodemanager.core.model.scheduling import OURS
from nodemanager.errors import RemoteError, SchedulerError, SchedulerRefused
from tests.simulation.faults.calls import lost_reply, raises, slow, spell, twice
from tests.simulation.faults.script import LONG, MIDDLING, SHORT, Scene, fault
from tests.simulation.slurm import Node
from tests.simulation.weather import Fate

POLLS = "scheduler.queue scheduler.nodes scheduler.relay scheduler.config"
ORDERS = "scheduler.drain scheduler.resume scheduler.down scheduler.up"
ALL = f"{POLLS} {ORDERS} scheduler.describe scheduler.comment"


def failed() -> RemoteError:
    return SchedulerError("slurm_load_node error: Unable to contact slurm controller")


def refused() -> RemoteError:
    return SchedulerRefused("Access/permission denied")


fault("the scheduler's polls fail", weight=2, lasts=MIDDLING, dispatched=True)(
    spell(POLLS, raises(failed))
)
fault("the scheduler is lost", weight=2, lasts=LONG, dispatched=True)(
    spell(ALL, raises(failed), often=(1.0, 1.0))
)
fault("the scheduler hangs", weight=2, lasts=MIDDLING, dispatched=True)(
    spell(ALL, lambda scene: lambda: Fate(effect=False, there=1e6), often=(1.0, 1.0))
)
fault("the scheduler answers late", weight=3, lasts=MIDDLING, dispatched=True)(
    spell(ALL, slow(2, 100))
)
fault("the scheduler's orders fail", weight=2, lasts=MIDDLING, dispatched=True)(
    spell(ORDERS, raises(failed, refused))
)
fault("the scheduler's replies are lost", weight=3, lasts=MIDDLING, dispatched=True)(
    spell(ORDERS, lost_reply)
)
fault("the scheduler's orders arrive twice", weight=2, lasts=MIDDLING, dispatched=True)(
    spell(ORDERS, twice)
)


def _someones(scene: Scene) -> Node | None:
    """A node of the scheduler that nobody keeps from work."""
    slurm = scene.world.slurm
    assert slurm is not None
    nodes = [node for node in slurm.nodes.values() if node.drained is None and not node.reserved]
    return scene.random.choice(nodes) if nodes else None


@fault("somebody drains a node", lasts=MIDDLING, dispatched=True)
def someone_drains(scene: Scene) -> None:
    node = _someones(scene)
    if node is None:
        return
    node.drained = "disk"

    def resume() -> None:
        if node.drained == "disk":
            node.drained = None

    scene.finally_(resume)
    scene.world.calms.append(resume)


@fault("somebody reserves a node", lasts=MIDDLING, dispatched=True)
def someone_reserves(scene: Scene) -> None:
    node = _someones(scene)
    if node is None:
        return
    node.reserved = True

    def release() -> None:
        node.reserved = False

    scene.finally_(release)
    scene.world.calms.append(release)


@fault("somebody marks a node down", lasts=SHORT, dispatched=True)
def someone_marks_down(scene: Scene) -> None:
    """And returns it to service: with ReturnToService=2 only a slurmd's start would."""
    slurm, node = scene.world.slurm, _someones(scene)
    if node is None or slurm is None or node.down is not None:
        return
    slurm.give_up(node, "broken")

    def resume() -> None:
        if node.down == "broken":
            node.down = None

    scene.finally_(resume)
    scene.world.calms.append(resume)


@fault("somebody deletes a node's record", share=0.3, dispatched=True)
def deletes_a_record(scene: Scene) -> None:
    """Of a node that works on, as the scheduler tells by its hostname (D7)."""
    world, node = scene.world, _someones(scene)
    record = None if node is None or node.machine is None else node.machine.uuid
    if record in world.registry.rows:
        world.break_assumption("A5", f"somebody deletes {record}", record)
        world.registry.delete(record, "operator")


@fault("the controller forgets who is drained", dispatched=True)
def forgets(scene: Scene) -> None:
    """As after a cold start: its nodes are as slurm.conf has them."""
    slurm = scene.world.slurm
    assert slurm is not None
    for node in slurm.nodes.values():
        if node.drained is not None and node.drained.startswith(OURS):
            node.drained = None
            slurm.forgotten[node.name] = scene.world.engine.now
        node.weight, node.features = 1, ()


@fault("the controller is killed", dispatched=True, apart=True)
def controller_killed(scene: Scene) -> None:
    """With what it was told in the last seconds."""
    slurm = scene.world.slurm
    assert slurm is not None
    slurm.kill()


@fault("machines never join the scheduler", lasts=LONG, dispatched=True, later=True)
def never_join(scene: Scene) -> None:
    """Their image's slurmd does not start: they ping, and the scheduler never hears them."""
    slurm = scene.world.slurm
    assert slurm is not None
    name = scene.fault.pool
    slurm.deafens.add(name)
    scene.finally_(lambda: slurm.deafens.discard(name))
    scene.world.calms.append(lambda: slurm.deafens.discard(name))


@fault("slurm.conf lacks a name", lasts=LONG, dispatched=True, apart=True)
def lacks_a_name(scene: Scene) -> None:
    """One that a machine has, or is to have; it comes back."""
    slurm, world = scene.world.slurm, scene.world
    assert slurm is not None
    name = world.registry.naming.host(scene.random.randrange(1, world.shape.slots + 1))
    slurm.take_name(name)
    scene.finally_(lambda: slurm.give_name_back(name))
    world.calms.append(lambda: slurm.give_name_back(name))


@fault("all nodes are reserved for maintenance", lasts=LONG, dispatched=True, apart=True)
def all_reserved(scene: Scene) -> None:
    """Those to come, too: slurm.conf names them all."""
    slurm = scene.world.slurm
    assert slurm is not None
    nodes = [node for node in slurm.nodes.values() if not node.reserved]

    def end() -> None:
        for node in nodes:
            node.reserved = False

    for node in nodes:
        node.reserved = True
    scene.finally_(end)
    scene.world.calms.append(end)


@fault("somebody drains all nodes", lasts=LONG, dispatched=True, apart=True)
def drains_all(scene: Scene) -> None:
    """Also those whose machine is to come."""
    slurm = scene.world.slurm
    assert slurm is not None
    nodes = [node for node in slurm.nodes.values() if node.drained is None]

    def resume() -> None:
        for node in nodes:
            if node.drained == "upgrade":
                node.drained = None

    for node in nodes:
        node.drained = "upgrade"
    scene.finally_(resume)
    scene.world.calms.append(resume)
