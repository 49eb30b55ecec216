"""Nodes that die, freeze, reboot, stop, boot slowly or never, and those of strangers."""

from __future__ import annotations

from nodemanager.core.model.world import CloudState
from tests.simulation.cloud import Instance
from tests.simulation.faults.script import LONG, MIDDLING, Scene, fault


@fault("a node dies unseen", weight=5)
def _(scene: Scene) -> None:
    node = scene.node()
    if node is not None:
        scene.world.cloud.end(node)


@fault("the cloud takes nodes with notice", lasts=LONG, apart=True)
def _(scene: Scene) -> None:
    """Some in time; of the others it takes its notice back (D18)."""
    chosen = [one for one in scene.machines() if scene.random.random() < 0.5]
    for machine in chosen:
        machine.is_taken = True
        if scene.random.random() < 0.5:
            node, after = machine.instance, scene.random.uniform(30.0, 300.0)
            scene.world.engine.after(after, lambda node=node: scene.world.cloud.end(node))

    def take_back() -> None:
        for machine in chosen:
            machine.is_taken = False

    scene.finally_(take_back)


@fault("all nodes die", weight=0.7)
def _(scene: Scene) -> None:
    for node in scene.nodes():
        scene.world.cloud.end(node)


@fault("a node freezes", weight=3, lasts=(100.0, 1500.0))
def _(scene: Scene) -> None:
    machine = scene.machine()
    if machine is not None:
        machine.frozen = True
        scene.finally_(lambda: setattr(machine, "frozen", False))


@fault("a node loses the network", weight=3, lasts=(100.0, 1500.0))
def _(scene: Scene) -> None:
    machine = scene.machine()
    if machine is not None:
        machine.cut_off = True
        scene.finally_(lambda: setattr(machine, "cut_off", False))


@fault("all nodes lose the network", lasts=(100.0, 1200.0))
def _(scene: Scene) -> None:
    machines = scene.machines()
    for machine in machines:
        machine.cut_off = True

    def back() -> None:
        for machine in machines:
            machine.cut_off = False

    scene.finally_(back)


@fault("a node reboots", weight=1.5)
def _(scene: Scene) -> None:
    machine = scene.machine()
    if machine is not None:
        machine.reboot()


@fault("a node goes down in a reboot", weight=1.5)
def _(scene: Scene) -> None:
    """And never comes back: the cloud shows it running."""
    machine = scene.machine()
    if machine is not None:
        machine.power_off()


@fault("a node says that it is down", weight=1.5, lasts=(30.0, 900.0))
def _(scene: Scene) -> None:
    machine = scene.machine()
    if machine is not None:
        machine.is_down = True
        scene.finally_(lambda: setattr(machine, "is_down", False))


@fault("the cloud does not tell a node's state", weight=1.5, lasts=LONG)
def _(scene: Scene) -> None:
    cloud = scene.world.cloud
    chosen = [one for one in scene.nodes() if scene.random.random() < 0.5]

    def tell(told: bool) -> None:
        for node in chosen:
            node.view = None
            if told:
                cloud.unknown.discard(node.id)
            else:
                cloud.unknown.add(node.id)

    tell(False)
    scene.finally_(lambda: tell(True))


@fault("[Cloud List] matches only some", lasts=LONG)
def _(scene: Scene) -> None:
    """The others are shown by their tag alone, where the cloud is asked for that (T5)."""
    chosen = [one for one in scene.world.cloud.living() if scene.random.random() < 0.5]
    for node in chosen:
        node.matches = False

    def back() -> None:
        for node in chosen:
            node.matches = True

    scene.finally_(back)


@fault("a node is stopped", weight=2, lasts=(60.0, 1200.0))
def _(scene: Scene) -> None:
    node = scene.node()
    if node is None or node.machine is None:
        return
    cloud, machine = scene.world.cloud, node.machine
    cloud.set_state(node, CloudState.STOPPED)
    machine.power_off()

    def start() -> None:
        if node.lives and node.state is CloudState.STOPPED:
            cloud.start_again(node)
            machine.boot()

    scene.finally_(start)


@fault("a node pings late", weight=2, lasts=LONG)
def _(scene: Scene) -> None:
    machine = scene.machine()
    if machine is not None:
        machine.late = 30 + scene.random.random() * 600
        scene.finally_(lambda: setattr(machine, "late", 0.0))


@fault("nodes boot slowly", lasts=MIDDLING)
def _(scene: Scene) -> None:
    scene.world.moods.boot_slowly = 50 + scene.random.random() * 500
    scene.finally_(lambda: setattr(scene.world.moods, "boot_slowly", 0.0))


@fault("nodes never boot", lasts=MIDDLING)
def _(scene: Scene) -> None:
    scene.world.moods.never_boot = True
    scene.finally_(lambda: setattr(scene.world.moods, "never_boot", False))


@fault("no node ever boots", weight=0.5, lasts=(900.0, 2000.0))
def _(scene: Scene) -> None:
    """Long enough for a boot loop (B5)."""
    scene.world.moods.never_boot = True
    scene.pool.wanted = scene.pool.settings.max_nodes
    for node in scene.nodes():
        scene.world.cloud.end(node)
    scene.finally_(lambda: setattr(scene.world.moods, "never_boot", False))


@fault("the cloud takes back what boots", lasts=(900.0, 2000.0), apart=True)
def _(scene: Scene) -> None:
    """As a market without spare capacity does: each node ends before it pings (B5)."""
    world, pool = scene.world, scene.pool
    until = world.engine.now + scene.fault.lasts
    pool.wanted = pool.settings.max_nodes

    def take_back(node: Instance, by: str = "") -> None:
        if world.engine.now < until and node.tags.pool == pool.name:
            scene.later(scene.random.random() * 15.0, lambda: world.cloud.end(node))

    for node in scene.nodes():
        take_back(node)
    world.cloud.books.created.append(take_back)


@fault("a stranger's node appears", lasts=LONG)
def _(scene: Scene) -> None:
    made = scene.world.stranger(scene.random.choice((None, "elsewhere")))
    scene.finally_(lambda: scene.world.cloud.end(made))
