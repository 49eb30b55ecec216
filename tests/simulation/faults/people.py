"""Demand, and what operators do to records and nodes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from nodemanager.actors.messages import Ordered
from nodemanager.core.model.annotations import FORCIBLE
from nodemanager.core.model.reasons import Reason
from nodemanager.core.model.world import Job, Record, Tags
from nodemanager.core.operate.replies import Command, Reply, Result
from nodemanager.core.operate.verbs import Verb
from nodemanager.records import wire
from tests.simulation.choices import POLL_TIMES, SPOT, reloaded
from tests.simulation.cloud import Instance
from tests.simulation.faults.script import LONG, MIDDLING, Scene, fault
from tests.simulation.people import INSIST_S
from tests.simulation.seats import with_kept_nodes
from tests.simulation.world import Pool, World


@fault("demand changes", weight=3)
def _(scene: Scene) -> None:
    scene.pool.wanted = scene.random.randrange(scene.pool.settings.max_nodes + 2)


@fault("the wishlist fails", lasts=MIDDLING)
def _(scene: Scene) -> None:
    scene.pool.wishlist_fails = True
    scene.finally_(lambda: setattr(scene.pool, "wishlist_fails", False))


@fault("a job that fits no size", weight=0.7, lasts=LONG)
def _(scene: Scene) -> None:
    pool = scene.pool
    odd = scene.random.choice((Job("vast", cores=64), Job("wide", ram_mb=10**6)))
    pool.odd_jobs = (odd, Job("many", count=pool.settings.max_nodes + 1))
    scene.finally_(lambda: setattr(pool, "odd_jobs", ()))


@fault("a job for a larger size", weight=1.5, lasts=LONG)
def _(scene: Scene) -> None:
    pool = scene.pool
    count = scene.random.randrange(1, 3)
    large, cheap = Job("large", cores=2, count=count), Job("cheap", count=count, preemptible=True)
    pool.odd_jobs = (large, cheap) if SPOT in pool.settings.sizes else (large,)
    scene.finally_(lambda: setattr(pool, "odd_jobs", ()))


@fault("a large job waits beside spare nodes", share=0.05, lasts=LONG)
def _(scene: Scene) -> None:
    """Now and then, and from the end on for good: spare nodes fill its pool (D14).

    A world in which this comes keeps as many small spare nodes as it may have nodes.
    """
    pool, random = scene.pool, scene.random
    large = (Job("large", cores=2),)
    until = scene.world.engine.now + scene.fault.lasts

    def change() -> None:
        if scene.world.engine.now < until:
            pool.odd_jobs = () if pool.odd_jobs else large
            scene.later(200 + random.random() * 400, change)

    def over() -> None:
        pool.odd_jobs, pool.wanted = large, 0

    change()
    scene.finally_(over)


@fault("the settings are reloaded", weight=3)
def _(scene: Scene) -> None:
    """Any window and limit, with whatever is in flight."""
    pool = scene.pool
    seated = scene.world.shape.seated
    pool.settings = reloaded(pool.settings, scene.random, seated=seated is not None)
    if seated is not None:
        pool.settings = with_kept_nodes(pool.settings, seated)
    pool.poll_time = scene.random.choice((pool.poll_time, *POLL_TIMES))
    if pool.manager is not None and pool.manager.alive:
        pool.manager.reload(pool.settings)


@fault("an operator holds a record", weight=1.5, lasts=LONG)
def _(scene: Scene) -> None:
    registry = scene.world.registry
    if not registry.rows:
        return
    uuid = scene.random.choice(sorted(registry.rows))

    def mark(held: bool) -> None:
        row = registry.rows.get(uuid)
        if row is not None:
            properties = {**row["properties"]}
            properties.pop(wire.HOLD, None)
            if held:
                properties[wire.HOLD] = "wait for me"
            registry.change(row, {"properties": properties}, "operator", "hold")

    mark(True)
    scene.finally_(lambda: mark(False))


@fault("an operator holds a node", weight=1.5, lasts=LONG)
def _(scene: Scene) -> None:
    node = scene.node()
    if node is None:
        return

    def mark(held: bool) -> None:
        node.held, node.view = held, None

    mark(True)
    scene.finally_(lambda: mark(False))


@fault("an operator holds by command", weight=1.5, lasts=LONG)
def _(scene: Scene) -> None:
    """`nodemanager hold ID`, of a record or a node, and `release ID`."""
    pool, world = scene.pool, scene.world
    names = [*sorted(world.registry.rows), *(one.id for one in scene.nodes())]
    if not names or pool.manager is None or not pool.manager.alive:
        return
    name = scene.random.choice(names)

    def answered(reply: Reply) -> None:
        if reply.ok:
            pool.holds.add(name)

    hold = Command(Verb.HOLD, "operator", "wait for me", name, unlisted=True)
    pool.manager.daemon.tell(Ordered(hold, answered))
    scene.finally_(lambda: release(world, pool, name))


def release(world: World, pool: Pool, name: str) -> None:
    """By an operator who says it again where the answer is that it failed: the hold stands then."""

    def answered(reply: Reply) -> None:
        # One that stood still takes the hold and its release when it goes on.
        pool.holds.discard(name)
        if reply.result is Result.FAILED:
            world.engine.after(INSIST_S, lambda: release(world, pool, name))

    pool.holds.discard(name)
    if pool.manager is not None and pool.manager.alive:
        pool.manager.daemon.tell(Ordered(Command(Verb.RELEASE, "operator", "", name), answered))


@fault("an operator cordons nodes", share=0.04, lasts=LONG)
def _(scene: Scene) -> None:
    """One after the other, to look into them: each takes no more work, and stays (O5)."""
    pool, world = scene.pool, scene.world
    until = world.engine.now + scene.fault.lasts
    cordoned: set[str] = set()

    def cordon() -> None:
        node = scene.node()
        if world.engine.now >= until:
            return
        if node is not None and pool.manager is not None and pool.manager.alive:
            cordoned.add(node.id)
            command = Command(Verb.CORDON, "ann", "look into it", node.id)
            pool.manager.daemon.tell(Ordered(command, lambda reply: None))
        scene.later(60.0 + scene.random.random() * 240.0, cordon)

    cordon()
    scene.finally_(lambda: [uncordon(world, pool, one) for one in sorted(cordoned)])


def uncordon(world: World, pool: Pool, node_id: str) -> None:
    command = Command(Verb.UNCORDON, "ann", "go", node_id)
    insist(world, pool, command, lambda: not world.cloud.instances[node_id].lives)


def insist(
    world: World, pool: Pool, command: Command, is_moot: Callable[[], bool] = lambda: False
) -> None:
    """Until it is answered: a manager that is killed or can't write keeps what it had."""
    is_done = False

    def answered(reply: Reply) -> None:
        nonlocal is_done
        stands = reply.result is Result.FAILED or reply.reason is Reason.SHUTTING_DOWN
        is_done = not stands

    def say() -> None:
        if is_done or is_moot():
            return
        if pool.manager is not None and pool.manager.alive:
            pool.manager.daemon.tell(Ordered(command, answered))
        world.engine.after(INSIST_S, say)

    say()


@fault("an operator parks the pool", lasts=LONG, apart=True)
def _(scene: Scene) -> None:
    """It empties, and boots nothing until it is unparked (O7)."""
    unpark = Command(Verb.UNPARK, "ann", "go")
    insist(scene.world, scene.pool, Command(Verb.PARK, "ann", "until Monday"))
    scene.finally_(lambda: insist(scene.world, scene.pool, unpark))


@fault("an operator ends a node", weight=1.5)
def _(scene: Scene) -> None:
    node = scene.node()
    if node is not None:
        scene.world.cloud.end(node)


@fault("an operator buries a young node", weight=0.7)
def _(scene: Scene) -> None:
    """It dies right after its first ping, and its slot is wanted before a denial counts (C11)."""
    pool, world = scene.pool, scene.world
    seen = False

    def pinged(record: Record, secret: str) -> None:
        nonlocal seen
        first = record.first_ping_at == record.last_ping_at
        if seen or not first or record.pool != pool.name or world.engine.calm:
            return
        seen = True
        for node in scene.nodes():
            if node.tags.record == record.uuid:
                world.cloud.end(node)
        bury = Command(Verb.CLEAN, "ann", "dead", record.uuid, forced=tuple(FORCIBLE))
        clean = Ordered(bury, lambda reply: None)
        scene.later(1.7 * pool.poll_time, lambda: tell(clean))

    def tell(message: Ordered) -> None:
        if pool.manager is not None and pool.manager.alive:
            pool.manager.daemon.tell(message)

    world.registry.pinged.append(pinged)


@fault("an operator kills a node whose twin is unseen", share=0.02, lasts=LONG)
def _(scene: Scene) -> None:
    """Its create made two, of which the cloud need not show the other for a while (C20)."""
    pool, cloud = scene.pool, scene.world.cloud

    def twinned(twin: Instance) -> None:
        if twin.tags.pool != pool.name or scene.world.engine.calm:
            return
        twin.shown_at = twin.created_at + cloud.traits.visible_after
        for node in cloud.by_record[twin.tags.record or ""]:
            if node is not twin and node.lives:
                kill = Ordered(Command(Verb.KILL, "ann", "wrong", node.id), lambda reply: None)
                wait = scene.random.choice((0.4, 1.7)) * pool.poll_time
                scene.later(wait, lambda kill=kill: tell(kill))

    def tell(message: Ordered) -> None:
        if pool.manager is not None and pool.manager.alive:
            pool.manager.daemon.tell(message)

    cloud.twins = True
    cloud.books.twinned.append(twinned)
    scene.finally_(lambda: setattr(cloud, "twins", False))
    scene.finally_(lambda: cloud.books.twinned.remove(twinned))


@fault("an operator deletes a record", breaks="A5")
def _(scene: Scene) -> None:
    registry = scene.world.registry
    if registry.rows:
        uuid = scene.random.choice(sorted(registry.rows))
        scene.world.break_assumption("A5", f"an operator deletes {uuid}", uuid)
        registry.delete(uuid, "operator")


@fault("an operator deletes a record that is looked at", breaks="A5")
def _(scene: Scene) -> None:
    """Right after its manager has asked to read it once more, to free or to prune it."""
    world, left = scene.world, scene.random.randrange(1, 4)

    def sent(manager: str, method: str, about: str) -> None:
        nonlocal left
        left -= left > 0 and method == "store.read" and about in world.registry.rows
        if left != 0 or world.engine.calm or about not in world.registry.rows:
            return
        left -= 1
        world.break_assumption("A5", f"an operator deletes {about}", about)
        world.registry.delete(about, "operator")

    world.weather.sent.append(sent)


@fault("an operator edits a record", breaks="A5")
def _(scene: Scene) -> None:
    registry, random = scene.world.registry, scene.random
    if not registry.rows:
        return
    uuid = random.choice(sorted(registry.rows))
    row = registry.rows[uuid]
    scene.world.break_assumption("A5", f"an operator edits {uuid}", uuid)
    values: dict[str, Any] = random.choice(
        (
            {"slot_number": None, "hostname": None},
            {"last_ping_at": None, "first_ping_at": None},
            {"properties": {}},
            {"info": {}},
            {"ip_address": None},
            {"last_ping_at": registry.now_ns() + int(9000e9)},
        )
    )
    registry.change(row, values, "operator", "edit")


@fault("an operator takes a node's tags", breaks="A5")
def _(scene: Scene) -> None:
    node = scene.node()
    if node is not None:
        tags, why = node.tags, f"an operator takes the tags of {node.id}"
        scene.world.break_assumption("A5", why, node.id, *filter(None, (tags.record,)))
        kept = scene.random.choice((Tags(), replace(tags, record=None), Tags(pool=tags.pool)))
        scene.world.cloud.retag(node, kept)
