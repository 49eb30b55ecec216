"""Clocks: a step or drift is measured by the manager; a lie in the measuring is not."""

from __future__ import annotations

from tests.simulation.faults.managers import at_a_call
from tests.simulation.faults.script import LONG, MIDDLING, Scene, fault


@fault("the store's clock steps", weight=2, lasts=LONG)
def _(scene: Scene) -> None:
    step = scene.random.choice((-7200.0, -900.0, -90.0, 90.0, 900.0, 7200.0))
    world = scene.world
    world.step_store_clock(step)
    if scene.random.random() < 0.6:
        scene.finally_(lambda: world.step_store_clock(-step))


@fault("the store's clock drifts", lasts=LONG)
def _(scene: Scene) -> None:
    """One second in a hundred: less than a step between any two readings."""
    rate = scene.random.choice((-0.01, -0.002, 0.002, 0.01))
    world = scene.world
    world.registry.drift(rate)
    world.clock_lies += abs(rate) * scene.fault.lasts
    scene.finally_(lambda: world.registry.drift(0.0))


@fault("the manager's clock steps", lasts=LONG)
def _(scene: Scene) -> None:
    step = scene.random.choice((-7200.0, 90.0, 900.0, 7200.0))
    pool = scene.pool

    pool.move_clocks(step)
    scene.finally_(lambda: pool.move_clocks(-step))


ONE_CLOCK = "the one clock of manager and store steps"
PHASES = (
    ("store.claim",),
    ("cloud.create",),
    ("cloud.destroy",),
    ("cloud.ask",),
    ("cloud.find",),
    ("store.clean",),
    ("store.list",),
)
"""The calls that a node's life consists of, from its claim to the clean of its record."""


@fault(ONE_CLOCK, share=0.12, lasts=LONG)
def _(scene: Scene) -> None:
    """The store runs on the manager's machine, and its date moves, at any moment of a node's life.

    Some nodes come up slowly then, and say so. The date may be set right again.
    """
    random, world = scene.random, scene.world
    step = random.choice((-7200.0, -900.0, -90.0, 90.0, 900.0, 7200.0, 7200.0))
    is_set_right = random.random() < 0.5

    over_at = world.engine.now + scene.fault.lasts

    def strike(_: Scene) -> None:
        world.step_one_clock(step)
        # In the calm nobody sets a date any more.
        left_s = over_at - world.engine.now
        if is_set_right and left_s > 0:
            scene.later(left_s, lambda: world.step_one_clock(-step))

    for machine in scene.machines():
        if random.random() < 0.5:
            machine.is_down = True
            scene.finally_(lambda machine=machine: setattr(machine, "is_down", False))
    if random.random() < 0.3:
        strike(scene)
    else:
        at_a_call(strike, random.choice(PHASES))(scene)


@fault("the store's clock is measured wrong", lasts=MIDDLING, breaks="A3")
def _(scene: Scene) -> None:
    lie = scene.random.choice((-2000.0, -300.0, 300.0, 2000.0))
    scene.world.break_assumption("A3", f"the store's clock is measured {lie} s wrong")
    scene.world.bulletin.clock_lie += lie
    scene.world.clock_lies += abs(lie)
    bulletin = scene.world.bulletin
    scene.finally_(lambda: setattr(bulletin, "clock_lie", bulletin.clock_lie - lie))
