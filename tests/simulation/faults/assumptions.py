"""What breaks A1 and A2."""

from __future__ import annotations

from nodemanager.records import wire
from tests.simulation.cloud import Instance
from tests.simulation.faults.calls import slow, spell
from tests.simulation.faults.clouds import hiding
from tests.simulation.faults.script import KINDS, LONG, Scene, fault


@fault("living nodes are denied", weight=2, lasts=(400.0, 1500.0), breaks="A1")
def _(scene: Scene) -> None:
    """And some of them are neither listed nor heard, so that someone comes to ask."""
    chance = 0.5 + scene.random.random()
    random = scene.random

    def denial(instance: Instance) -> bool:
        return random.random() < chance

    denials = scene.world.cloud.denials
    denials.append(denial)
    scene.finally_(lambda: denials.remove(denial))
    if random.random() < 0.7:
        KINDS["a zone vanishes from sight"].effect(scene)


@fault("a living node is written off", weight=4, lasts=(900.0, 1500.0), breaks="A1")
def _(scene: Scene) -> None:
    """Neither listed nor heard, and denied, until long after its record was freed; then it is back.

    And meanwhile its record may be deleted, or what was known of it lost.
    """
    world, node = scene.world, scene.node()
    if node is None or node.machine is None:
        return
    machine = node.machine
    machine.cut_off = True
    scene.finally_(lambda: setattr(machine, "cut_off", False))
    hiding(scene, [node])

    def denial(instance: Instance) -> bool:
        return instance is node

    world.cloud.denials.append(denial)
    scene.finally_(lambda: world.cloud.denials.remove(denial))
    sequel = scene.random.choice(("", "", "lost", "deleted"))

    def loses() -> None:
        scene.pool.holds.clear()
        scene.pool.journal.lose()

    def deletes() -> None:
        uuid = machine.uuid
        if uuid in world.registry.rows:
            world.break_assumption("A5", f"an operator deletes {uuid}", uuid)
            world.registry.delete(uuid, "operator")

    if sequel == "lost":
        # Late enough that the clean was written down in the lost one.
        scene.later(scene.fault.lasts - 30.0, loses)
    elif sequel == "deleted":
        scene.later(scene.fault.lasts - 30.0, deletes)


@fault("the credentials lead to another account", lasts=LONG, breaks="A1")
def _(scene: Scene) -> None:
    cloud = scene.world.cloud
    cloud.wrong_account = True
    scene.finally_(lambda: setattr(cloud, "wrong_account", False))


@fault("creates take effect far too late", weight=2, lasts=LONG, breaks="A2")
def _(scene: Scene) -> None:
    for node in scene.nodes()[:2]:
        scene.world.cloud.end(node)
    spell("cloud.create", slow(300, 1500))(scene)


@fault("a ping hangs in the server", weight=3, lasts=(350.0, 900.0), breaks="A4")
def _(scene: Scene) -> None:
    """And writes the record in the end as it was read in the beginning, whatever came since.

    Only where the store does not compare. Its node is no more by then.
    """
    world, node = scene.world, scene.node()
    if node is None or node.machine is None or not world.shape.fenced:
        return
    registry, machine = world.registry, node.machine
    row = registry.rows.get(machine.uuid)
    if row is None or row["first_ping_at"] is None:
        return
    read = dict(row["info"])
    world.cloud.end(node)

    def write() -> None:
        now = registry.rows.get(machine.uuid)
        if now is None:
            return
        if now["info"].get(wire.PING_SECRET) != read.get(wire.PING_SECRET):
            world.break_assumption("A4", f"{machine.uuid} is pinged back", machine.uuid)
        values = {"info": read, "last_ping_at": registry.now_ns()}
        registry.change(now, values, f"secret {machine.secret}", "ping", sign=True)

    scene.finally_(write)
