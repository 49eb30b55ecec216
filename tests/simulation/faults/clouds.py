"""The cloud: listings that are not what it has, questions, creates, destroys."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from random import Random

from nodemanager.core.model.world import CloudNode, CloudState, Listed
from nodemanager.errors import BadRequest, CapacityUnavailable, CloudError, QuotaExceeded
from nodemanager.records.wire import POOL
from tests.simulation.choices import ZONES
from tests.simulation.cloud import Instance
from tests.simulation.faults.calls import CLOUD_QUESTIONS, raises, slow, spell, throttled, twice
from tests.simulation.faults.script import LONG, MIDDLING, SHORT, Effect, Scene, fault

# Listings of the cloud.

fault("cloud list fails", weight=2, lasts=MIDDLING)(
    spell("cloud.list", raises(lambda: CloudError("500"), throttled))
)
fault("cloud list hangs", lasts=SHORT)(spell("cloud.list", slow(61, 400)))
fault("cloud list slow", lasts=MIDDLING)(spell("cloud.list", slow(5, 55)))


def altering(change: Callable[[Scene, tuple[CloudNode, ...]], Listed[CloudNode]]) -> Effect:
    """While it lasts, some cloud listings are not what the cloud has."""

    def effect(scene: Scene) -> None:
        chance = 0.3 + 0.7 * scene.random.random()

        def make(_: Random) -> Callable[[tuple[CloudNode, ...]], Listed[CloudNode]]:
            def alter(nodes: tuple[CloudNode, ...]) -> Listed[CloudNode]:
                if scene.random.random() >= chance:
                    return Listed(nodes)
                return change(scene, nodes)

            return alter

        alterations = scene.world.cloud.alterations
        alterations.append(make)
        scene.finally_(lambda: alterations.remove(make))

    return effect


@fault("cloud list empty", weight=2, lasts=MIDDLING)
@altering
def _(scene: Scene, nodes: tuple[CloudNode, ...]) -> Listed[CloudNode]:
    return Listed(())


@fault("cloud list short", weight=3, lasts=MIDDLING)
@altering
def _(scene: Scene, nodes: tuple[CloudNode, ...]) -> Listed[CloudNode]:
    """A node that is listed twice lacks both entries: one of them alone may call it terminated."""
    kept: dict[str, bool] = {}
    for node in nodes:
        kept.setdefault(node.id, scene.random.random() < 0.6)
    return Listed(tuple(node for node in nodes if kept[node.id]))


@fault("cloud list incomplete", weight=3, lasts=LONG)
@altering
def _(scene: Scene, nodes: tuple[CloudNode, ...]) -> Listed[CloudNode]:
    """And from another replica: it may show what the others hide."""
    cloud = scene.world.cloud
    hidden = [cloud.shown(cloud.instances[one]) for one in sorted(cloud.hidden)]
    all_of_them = (*nodes, *(node for node in hidden if node is not None))
    kept = tuple(node for node in all_of_them if scene.random.random() < 0.5)
    return Listed(kept, complete=False, problems=("an item could not be identified",))


@fault("cloud list duplicated", weight=1.5, lasts=MIDDLING)
def _(scene: Scene) -> None:
    """Any node each time; or the same all the time, one that is stopped and to be destroyed."""
    node = scene.node() if scene.random.random() < 0.5 else None
    if node is None or node.machine is None:
        altering(doubled)(scene)
        return
    cloud, machine = scene.world.cloud, node.machine
    cloud.set_state(node, CloudState.STOPPED)
    machine.power_off()

    def make(_: Random) -> Callable[[tuple[CloudNode, ...]], Listed[CloudNode]]:
        return lambda nodes: Listed((*nodes, *(one for one in nodes if one.id == node.id)))

    def start() -> None:
        cloud.alterations.remove(make)
        if node.lives and node.state is CloudState.STOPPED:
            cloud.start_again(node)
            machine.boot()

    cloud.alterations.append(make)
    scene.finally_(start)


def doubled(scene: Scene, nodes: tuple[CloudNode, ...]) -> Listed[CloudNode]:
    if not nodes:
        return Listed(nodes)
    twice = scene.random.choice(nodes)
    if scene.random.random() < 0.5:
        twice = replace(twice, state=CloudState.TERMINATED)
    return Listed((*nodes, twice))


@fault("cloud list out of order", lasts=LONG)
@altering
def _(scene: Scene, nodes: tuple[CloudNode, ...]) -> Listed[CloudNode]:
    shuffled = list(nodes)
    scene.random.shuffle(shuffled)
    return Listed(tuple(shuffled))


@fault("cloud list unreadable items", lasts=MIDDLING)
@altering
def _(scene: Scene, nodes: tuple[CloudNode, ...]) -> Listed[CloudNode]:
    def broken(node: CloudNode) -> CloudNode:
        if scene.random.random() < 0.5:
            return node
        problems = ("its launch time is no time",) if scene.random.random() < 0.5 else ()
        return replace(node, created_at=None, problems=problems)

    return Listed(tuple(broken(node) for node in nodes))


def hiding(scene: Scene, nodes: list[Instance]) -> None:
    """They are in no listing while it lasts; questions by id and tag are answered truly."""
    hidden = {one.id for one in nodes}
    cloud = scene.world.cloud
    cloud.hidden |= hidden
    scene.finally_(lambda: cloud.hidden.difference_update(hidden))


@fault("cloud list truncated for good", weight=3, lasts=LONG)
def _(scene: Scene) -> None:
    """Some nodes are never listed while it lasts: the filter is wrong."""
    hiding(scene, [one for one in scene.nodes() if scene.random.random() < 0.4])


@fault("a created node is never listed and never boots", share=0.05, lasts=LONG)
def _(scene: Scene) -> None:
    """The next one, and for good, also in the calm: its id and its tag alone tell of it (D13)."""
    world, name = scene.world, scene.pool.name
    until = world.engine.now + scene.fault.lasts
    for node in scene.nodes()[:1]:
        # So that there is something to create.
        world.cloud.end(node)

    def made(node: Instance, by: str) -> None:
        nonlocal until
        if world.engine.now > until or node.tags.pool != name or world.cloud.twins:
            # A twin's pings would make its record one that was heard, which D13 says nothing of.
            return
        until = float("-inf")
        world.cloud.hidden.add(node.id)
        # It has its machine only after that.
        scene.later(0.0, lambda: stillborn(node))

    def stillborn(node: Instance) -> None:
        if node.machine is not None:
            node.machine.fail_to_boot()
        elif node.create:
            # The cloud goes on with it.
            scene.later(1.0, lambda: stillborn(node))

    world.cloud.books.created.append(made)


@fault("a node vanishes from sight", weight=4, lasts=(400.0, 1500.0))
def _(scene: Scene) -> None:
    """Neither listed nor heard, and alive."""
    node = scene.node()
    if node is None or node.machine is None:
        return
    machine = node.machine
    machine.cut_off = True
    scene.finally_(lambda: setattr(machine, "cut_off", False))
    hiding(scene, [node])


@fault("a zone vanishes from sight", weight=1.5, lasts=(300.0, 1200.0))
def _(scene: Scene) -> None:
    chosen = [one for one in scene.nodes() if scene.random.random() < 0.5]
    for node in chosen:
        if node.machine is not None:
            node.machine.cut_off = True

    def back() -> None:
        for node in chosen:
            if node.machine is not None:
                node.machine.cut_off = False

    scene.finally_(back)
    hiding(scene, chosen)


@fault("cloud list late", weight=3, lasts=LONG)
def _(scene: Scene) -> None:
    """Every listing shows the cloud as it was minutes ago."""
    cloud = scene.world.cloud
    cloud.late_by = 30 + scene.random.random() * 400
    scene.finally_(lambda: setattr(cloud, "late_by", 0.0))


@fault("cloud lists another account", lasts=MIDDLING)
@altering
def _(scene: Scene, nodes: tuple[CloudNode, ...]) -> Listed[CloudNode]:
    return Listed((CloudNode("i-other", "other", CloudState.RUNNING, managed=False),))


# Questions to the cloud, creates, destroys.


fault("cloud questions fail", lasts=MIDDLING)(
    spell(CLOUD_QUESTIONS, raises(lambda: CloudError("500"), throttled))
)
fault("cloud questions slow", lasts=MIDDLING)(spell(CLOUD_QUESTIONS, slow(5, 90)))
fault("creates refused", weight=2, lasts=MIDDLING)(
    spell(
        "cloud.create",
        raises(
            lambda: QuotaExceeded("quota"),
            lambda: CapacityUnavailable("none of this size"),
            lambda: BadRequest("bad image"),
            throttled,
        ),
    )
)
fault("creates fail", lasts=MIDDLING)(spell("cloud.create", raises(lambda: CloudError("500"))))
fault("creates time out but succeed", weight=3, lasts=MIDDLING)(
    spell("cloud.create", slow(30, 290))
)
fault("creates answered by an error but succeed", weight=2, lasts=MIDDLING)(
    spell("cloud.create", raises(lambda: CloudError("502"), effect=True))
)


@fault("creates happen twice", weight=2, lasts=LONG)
def _(scene: Scene) -> None:
    cloud = scene.world.cloud
    cloud.twins = True
    for node in scene.nodes()[:1]:
        # So that there is something to create.
        cloud.end(node)
    scene.finally_(lambda: setattr(cloud, "twins", False))


@fault("a zone has no room", share=0.05, lasts=LONG)
def _(scene: Scene) -> None:
    """Now one of them and now another, or all; a world in which this comes has such zones (D6)."""
    world, random = scene.world, scene.random
    until = world.engine.now + scene.fault.lasts

    def change() -> None:
        still = world.engine.now < until
        world.cloud.full = {one for one in ZONES if still and random.random() < 0.6}
        for node in scene.nodes()[:1] if still else ():
            # So that there is something to create.
            world.cloud.end(node)
        if still:
            scene.later(30 + random.random() * 90, change)

    change()
    scene.finally_(world.cloud.full.clear)


@fault("the image changes", share=0.12, lasts=LONG)
def _(scene: Scene) -> None:
    """Now and then, and some new nodes get the former one all the same; also when it is over.

    A world in which this comes tells each node's image (D15).
    """
    cloud, random = scene.world.cloud, scene.random
    until = scene.world.engine.now + scene.fault.lasts

    def change() -> None:
        cloud.stale_image = cloud.image if random.random() < 0.3 else None
        cloud.change_image()
        wait = 200 + random.random() * 500
        if scene.world.engine.now + wait < until:
            scene.later(wait, change)

    def over() -> None:
        cloud.stale_image = None
        cloud.change_image()

    change()
    scene.finally_(over)


@fault("new nodes get the former image", share=0.05, lasts=LONG)
def _(scene: Scene) -> None:
    """All that are booted meanwhile, as from a template that names it; so no replacement helps.

    A world in which this comes tells each node's image (D15).
    """
    cloud = scene.world.cloud
    cloud.stale_image = cloud.image
    cloud.change_image()

    def over() -> None:
        cloud.stale_image = None
        cloud.change_image()

    scene.finally_(over)


@fault("no replacement can be had", share=0.06, lasts=LONG)
def _(scene: Scene) -> None:
    """While nodes are to be replaced: somebody else takes what a node that goes gives up.

    It is the account's quota, the slots, or the money, of which there is less than nodes cost now.
    A world in which this comes tells each node's image (D15).
    """
    scene.world.cloud.change_image()
    short = scene.random.choice((_short_of_quota, _short_of_slots, _short_of_money))
    short(scene)


@fault("the cloud ends nodes in their set-up", share=0.08, lasts=LONG)
def _(scene: Scene) -> None:
    """As a spot node that is taken at once; some of them, each before its first ping."""
    world, name = scene.world, scene.pool.name
    until = world.engine.now + scene.fault.lasts
    for node in scene.nodes()[:1]:
        # So that there is something to create.
        world.cloud.end(node)

    def made(node: Instance, by: str) -> None:
        if world.engine.now > until or node.tags.pool != name or world.cloud.twins:
            return
        if scene.random.random() < 0.6:
            wait = scene.random.random() * 30.0
            scene.later(wait, lambda: _end_unheard(scene, node))

    world.cloud.books.created.append(made)


def _end_unheard(scene: Scene, node: Instance) -> None:
    machine = node.machine
    if machine is None or machine.heard_at is None:
        scene.world.cloud.end(node)


_short_of_quota = spell(
    "cloud.create", raises(lambda: QuotaExceeded("no more for this account")), often=(1.0, 1.0)
)


def _short_of_slots(scene: Scene) -> None:
    """Another pool takes each slot that is free."""
    registry, until = scene.world.registry, scene.world.engine.now + scene.fault.lasts
    taken: list[str] = []

    def take() -> None:
        for slot in registry.free_slots():
            values = {"properties": {POOL: "elsewhere"}, "slot_number": slot}
            taken.append(registry.insert(values, "somebody", "taken")["uuid"])
        if scene.world.engine.now + 5.0 < until:
            scene.later(5.0, take)

    def give_back() -> None:
        for uuid in taken:
            # By then somebody else may have deleted it.
            if registry.record(uuid) is not None:
                registry.delete(uuid, "somebody")

    take()
    scene.finally_(give_back)


def _short_of_money(scene: Scene) -> None:
    pool = scene.pool
    before = pool.settings.max_total_price
    prices = {size.name: size.price or 0.0 for size in pool.settings.sizes}
    costs = sum(prices.get(one.tags.size or "", 0.0) for one in scene.nodes())

    def reload(cap: float) -> None:
        pool.settings = replace(pool.settings, max_total_price=cap)
        if pool.manager is not None and pool.manager.alive:
            pool.manager.reload(pool.settings)

    reload(max(0.1, costs / 2))
    scene.finally_(lambda: reload(before))


fault("creates lost", lasts=MIDDLING)(spell("cloud.create", slow(100, 200, effect=False)))
fault("destroys fail", lasts=MIDDLING)(
    spell("cloud.destroy", raises(lambda: CloudError("500"), lambda: BadRequest("no")))
)
fault("destroys answered by an error but happen", lasts=MIDDLING)(
    spell("cloud.destroy", raises(lambda: CloudError("502"), effect=True))
)
fault("destroys slow", lasts=MIDDLING)(spell("cloud.destroy", slow(20, 200)))


@fault("destroys accepted and never happen", weight=2, lasts=LONG)
def _(scene: Scene) -> None:
    cloud = scene.world.cloud
    cloud.lazy_destroys = True
    scene.finally_(lambda: setattr(cloud, "lazy_destroys", False))


fault("cloud requests arrive twice", lasts=MIDDLING)(
    spell("cloud.destroy cloud.release cloud.adopt", twice)
)
fault("the account can't be asked for", lasts=MIDDLING)(
    spell("cloud.account", raises(lambda: CloudError("500"), throttled))
)
fault("what nodes pin can't be asked for", weight=0.7, lasts=LONG)(
    spell("cloud.pins cloud.leftovers", raises(lambda: CloudError("500"), throttled))
)
fault("releases of leftovers fail", weight=0.7, lasts=LONG)(
    spell("cloud.release", raises(lambda: CloudError("500"), lambda: BadRequest("in use")))
)
fault("adoptions fail", weight=1.0, lasts=LONG)(
    spell("cloud.adopt", raises(lambda: CloudError("500"), lambda: BadRequest("no tags here")))
)
