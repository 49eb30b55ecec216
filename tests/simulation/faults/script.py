"""What a script of faults is made of, and how it is put on the heap.

A script is drawn from a seed and can be played without some of its faults, which is how a failing
one is made short. Each fault draws from a stream of its own, named by its number, so that taking
one out leaves what the others do.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from random import Random

from tests.simulation.cloud import Instance
from tests.simulation.engine import START
from tests.simulation.machine import Machine
from tests.simulation.world import Pool, World


@dataclass(frozen=True)
class Fault:
    """One thing that goes wrong: `at` seconds from the start, for `lasts` seconds.

    `number` names its stream of choices; `pool` is whose manager or nodes it strikes.
    """

    kind: str
    at: float
    lasts: float
    number: int
    pool: str = "main"

    def __str__(self) -> str:
        return f"{self.at:7.0f} s  {self.kind:24} for {self.lasts:5.0f} s  ({self.pool})"


@dataclass
class Scene:
    """What a fault acts on; `random` is its own stream."""

    world: World
    fault: Fault
    random: Random

    @property
    def pool(self) -> Pool:
        return self.world.pools[self.fault.pool]

    def later(self, seconds: float, action: Callable[[], None]) -> None:
        self.world.engine.after(seconds, action)

    def finally_(self, action: Callable[[], None]) -> None:
        """At the end of the fault."""
        self.later(self.fault.lasts, action)

    def nodes(self) -> list[Instance]:
        """Our living nodes with something running on them, in the order of their making."""
        return [
            one
            for one in self.world.cloud.living()
            if one.tags.pool == self.fault.pool and one.machine is not None
        ]

    def node(self) -> Instance | None:
        nodes = self.nodes()
        return self.random.choice(nodes) if nodes else None

    def machine(self) -> Machine | None:
        node = self.node()
        return node.machine if node is not None else None

    def machines(self) -> list[Machine]:
        return [one.machine for one in self.nodes() if one.machine is not None]


Effect = Callable[[Scene], None]


@dataclass(frozen=True)
class Kind:
    """A kind of fault: how often it is drawn, how long it lasts, which assumption it breaks.

    One with a `share` comes once in that share of all worlds and is drawn by itself: all that
    the other draws of a seed come to stays as it is. One that is `dispatched` comes only where a
    scheduler gives out the work, from a stream of its own. One that is `apart` is not drawn: it
    comes where a storm names it. One that comes `later` has a stream of its own, so that what was
    drawn before it was there stays. One that is `seated` comes only where Slurm's nodes are the
    records, and one that is `leased` only where several managers share a lease.
    """

    name: str
    effect: Effect
    weight: float
    lasts: tuple[float, float]
    breaks: str | None = None
    share: float = 0.0
    dispatched: bool = False
    apart: bool = False
    later: bool = False
    seated: bool = False
    leased: bool = False


KINDS: dict[str, Kind] = {}


def fault(
    name: str,
    *,
    weight: float = 1.0,
    lasts: tuple[float, float] = (0.0, 0.0),
    breaks: str | None = None,
    share: float = 0.0,
    dispatched: bool = False,
    apart: bool = False,
    later: bool = False,
    seated: bool = False,
    leased: bool = False,
) -> Callable[[Effect], Effect]:
    def register(effect: Effect) -> Effect:
        KINDS[name] = Kind(
            name, effect, weight, lasts, breaks, share, dispatched, apart, later, seated, leased
        )
        return effect

    return register


SHORT, MIDDLING, LONG = (20.0, 120.0), (60.0, 400.0), (300.0, 1500.0)


def begin(world: World, script: tuple[Fault, ...]) -> None:
    """Put the whole script on the heap."""
    for one in script:
        random = world.engine.random(f"fault/{one.number}/{one.kind}")
        scene = Scene(world, one, random)

        def strike(scene: Scene = scene) -> None:
            world.note(f"-- {scene.fault.kind} for {scene.fault.lasts:.0f} s")
            KINDS[scene.fault.kind].effect(scene)

        world.engine.at(START + one.at, strike)
