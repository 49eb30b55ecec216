"""Managers that are killed, paused, started twice, or have no disk."""

from __future__ import annotations

from tests.simulation.faults.script import LONG, MIDDLING, Effect, Scene, fault
from tests.simulation.hosts import Host
from tests.simulation.manager import Manager
from tests.simulation.weather import Watcher


def killing(scene: Scene, manager: Manager | None = None) -> None:
    """kill -9 now; a new one starts after `lasts`."""
    pool = scene.pool
    manager = manager or pool.manager
    if manager is None or not manager.alive:
        return
    scene.world.note(f"{manager.name} is killed")
    manager.kill()
    scene.finally_(lambda: scene.world.start_again(pool))


CALLS = (
    *(f"cloud.{one}" for one in ("create", "destroy", "ask", "find", "list")),
    *(f"store.{one}" for one in ("create", "claim", "clean", "read", "list", "update")),
)
SETUP_CALLS = ("cloud.create", "store.create", "store.claim")


def at_a_call(act: Effect, calls: tuple[str, ...] = CALLS) -> Effect:
    """Not at once, but when a call of some kind reaches a stage: between any two steps."""

    def effect(scene: Scene) -> None:
        manager = scene.pool.manager
        if manager is None or not manager.alive:
            return
        method = scene.random.choice(calls)
        stage = scene.random.choice(("sent", "done"))
        steps = scene.random.randrange(4)

        def strike() -> None:
            if not scene.world.engine.calm:
                act(scene)

        def soon() -> None:
            scene.later(scene.random.random() * 0.1 * steps, strike)

        watcher = Watcher(manager.name, method, stage, soon)
        scene.world.weather.watchers.append(watcher)

    return effect


fault("manager killed", weight=3, lasts=(1.0, 300.0))(killing)
fault("manager killed at a call", weight=4, lasts=(1.0, 120.0))(at_a_call(killing))


def pausing(scene: Scene) -> None:
    manager = scene.pool.manager
    if manager is not None and manager.alive:
        scene.world.note(f"{manager.name} is paused for {scene.fault.lasts:.0f} s")
        manager.pause(scene.fault.lasts)


fault("manager paused", weight=2, lasts=(5.0, 900.0))(pausing)
fault("manager paused at a call", weight=4, lasts=(5.0, 900.0))(at_a_call(pausing))


@fault("manager killed at a write of its journal", weight=4, lasts=(1.0, 120.0))
def _(scene: Scene) -> None:
    """In the middle of a handler: between two writes, or a write and what is sent after it."""
    manager, paper = scene.pool.manager, scene.pool.journal
    if manager is None or not manager.alive:
        return
    left = scene.random.randrange(1, 40)
    if scene.random.random() < 0.5:
        # At one that tells of a deed, not of a decision: those are by far the most.
        left = scene.random.randrange(1, 8)
        paper.deeds_alone = True

    def strikes(writer: str) -> bool:
        nonlocal left
        left -= writer == manager.name
        if left > 0 or writer != manager.name:
            return False
        disarm()
        killing(scene, manager)
        return True

    def disarm() -> None:
        paper.before = paper.after = None
        paper.deeds_alone = False

    if scene.random.random() < 0.5:
        paper.before = strikes
    else:
        paper.after = strikes
    scene.world.calms.append(disarm)


def stopping(scene: Scene) -> None:
    """SIGTERM: it ends in good order, and a new one starts."""
    pool, manager = scene.pool, scene.pool.manager
    if manager is None or not manager.alive or manager.stopping:
        return
    scene.world.note(f"{manager.name} is told to stop")
    manager.stop(lambda: scene.finally_(lambda: scene.world.start_again(pool)))


fault("manager restarted by systemd", weight=2, lasts=(1.0, 20.0))(stopping)
fault("manager restarted by systemd at a call", weight=2, lasts=(1.0, 20.0))(at_a_call(stopping))


@fault("manager's machine reboots", lasts=(30.0, 300.0))
def _(scene: Scene) -> None:
    """Its boottime counts from anew: nothing that was written down with the old one means that."""
    pool, world = scene.pool, scene.world
    if pool.manager is None or not pool.manager.alive:
        return
    for one in (pool.manager, pool.shadow):
        if one is not None and one.alive:
            one.kill()

    clock = pool.manager.clock

    def boot() -> None:
        # Another fault may have started one meanwhile: none lives through its machine's boot.
        for one in world.managers.values():
            if one.clock is clock and one.alive:
                one.kill()
        clock.booted_at = world.engine.now - 20.0
        world.start_again(pool)

    scene.finally_(boot)


def cut_off(scene: Scene, host: Host) -> None:
    """It does not reach the database, and with it neither its lease nor its journal."""
    scene.world.note(f"{host.name} does not reach the database")
    host.cut_off = True
    scene.finally_(lambda: setattr(host, "cut_off", False))


def taken_over(scene: Scene) -> None:
    """Someone removed the lock file, and a second manager started: both run for a while."""
    pool, world = scene.pool, scene.world
    old = pool.manager
    if old is None or not old.alive:
        return
    if old.host is not None:
        cut_off(scene, old.host)
        return
    world.start(pool)
    scene.finally_(old.kill)


fault("the lease is taken over", weight=0.7, lasts=(5.0, 60.0))(taken_over)


@fault("the lease is taken over amid a set-up", share=0.06, lasts=(60.0, 200.0))
def _(scene: Scene) -> None:
    """When a claim or a create is on its way, or soon after: some are to be sent yet (U10)."""
    for node in scene.nodes()[:3]:
        # So that there is something to create.
        scene.world.cloud.end(node)
    at_a_call(taken_over, SETUP_CALLS)(scene)


@fault("a dry run beside it", weight=0.7, lasts=LONG)
def _(scene: Scene) -> None:
    shadow = scene.world.start(scene.pool, mode="dry-run")
    scene.finally_(shadow.kill)


@fault("the journal's disk is full", weight=2, lasts=LONG)
def _(scene: Scene) -> None:
    journal = scene.pool.journal
    journal.fail("the disk is full")
    scene.finally_(journal.heal)


@fault("the journal takes some writes", weight=2, lasts=MIDDLING)
def _(scene: Scene) -> None:
    """One of several that belong together fails, and the others do not."""
    journal, random = scene.pool.journal, scene.random
    chance = 0.1 + 0.6 * random.random()
    journal.fault = lambda call: "the disk is slow" if random.random() < chance else None
    scene.finally_(journal.heal)


@fault("the journal is lost", weight=0.7, lasts=(1.0, 60.0))
def _(scene: Scene) -> None:
    """Under a running manager, which ends, or while none runs; holds and pre-images go with it."""
    pool = scene.pool
    pool.holds.clear()
    if scene.random.random() < 0.5:
        killing(scene)
    pool.journal.lose()


# Several managers with a lease in a database.


def host_of(scene: Scene) -> Host:
    return scene.random.choice(scene.pool.hosts)


@fault("the active manager does not reach the database", weight=3, lasts=(5.0, 200.0), leased=True)
def _(scene: Scene) -> None:
    manager = scene.pool.manager
    if manager is not None and manager.alive and manager.host is not None:
        cut_off(scene, manager.host)


@fault("a host does not reach the database", weight=2, lasts=(5.0, 200.0), leased=True)
def _(scene: Scene) -> None:
    cut_off(scene, host_of(scene))


@fault("the database of the lease is away", weight=2, lasts=(5.0, 200.0), leased=True)
def _(scene: Scene) -> None:
    leases = scene.pool.leases
    leases.is_up = False
    scene.finally_(lambda: setattr(leases, "is_up", True))


@fault("the clock of the lease's database is set", weight=2, lasts=(5.0, 400.0), leased=True)
def _(scene: Scene) -> None:
    """Or it fails over to a machine whose clock is wrong."""
    step, clock = scene.random.choice((-300.0, -20.0, 20.0, 3600.0)), scene.pool.leases.clock

    def move(by: float) -> None:
        clock.error += by

    move(step)
    scene.finally_(lambda: move(-step))


@fault("a host is killed", weight=2, lasts=(1.0, 300.0), leased=True)
def _(scene: Scene) -> None:
    killing(scene, host_of(scene).manager)


fault("the active manager is killed at a call", weight=2, lasts=(60.0, 300.0), leased=True)(
    at_a_call(killing)
)


@fault("a host stands still", weight=2, lasts=(5.0, 600.0), leased=True)
def _(scene: Scene) -> None:
    manager = host_of(scene).manager
    if manager is not None and manager.alive:
        manager.pause(scene.fault.lasts)


fault("the active manager stands still at a call", weight=3, lasts=(20.0, 600.0), leased=True)(
    at_a_call(pausing)
)
fault("the active manager ends in order", weight=2, lasts=(1.0, 60.0), leased=True)(stopping)
