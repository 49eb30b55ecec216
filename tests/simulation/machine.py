"""What runs on a node: it boots, pings with what its user data told it, works, and misbehaves."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from nodemanager.core.model import CloudState
from nodemanager.errors import RemoteError, StoreError
from tests.simulation.cloud import Instance, SimCloud
from tests.simulation.engine import Engine
from tests.simulation.registry import Registry, WrongSecret
from tests.simulation.weather import Weather


@dataclass(frozen=True)
class Habits:
    """How nodes behave in fair weather; seconds."""

    ping_every: float = 45.0
    boots_in: tuple[float, float] = (20.0, 80.0)
    works: float = 0.5
    job_s: float = 200.0
    tells_state: bool = True
    tells_instance: bool = True
    dies_every: float = 0.0
    """Mean seconds that a node lives, 0 for ever: somebody ends it, or it breaks."""


@dataclass
class Moods:
    """What faults do to the nodes that boot while they last."""

    boot_slowly: float = 0.0
    never_boot: bool = False
    late_pings: float = 0.0


@dataclass
class Machine:
    """One node's inside. `secret` is what it pings with; `refused` counts its wrong secrets."""

    engine: Engine
    cloud: SimCloud
    registry: Registry
    weather: Weather
    habits: Habits
    moods: Moods
    instance: Instance
    uuid: str
    secret: str
    address: str
    wanted: Callable[[Machine], bool]
    on: bool = True
    frozen: bool = False
    cut_off: bool = False
    late: float = 0.0
    state: str = "idle"
    slot: int | None = None
    hostname: str | None = None
    refused: int = 0
    life: int = 0
    told_state_at: dict[str, float] = field(default_factory=dict)

    def boot(self) -> None:
        self.life += 1
        self.on = True
        random = self.engine.random(f"machine/{self.instance.id}/{self.life}")
        self._random = random
        if self.habits.dies_every and self.life == 1:
            lives = random.expovariate(1 / self.habits.dies_every)
            self.engine.after(lives, lambda: self.cloud.age(self.instance))
        if self.moods.never_boot:
            return
        low, high = self.habits.boots_in
        takes = low + random.random() * (high - low) + self.moods.boot_slowly
        life = self.life
        self.engine.after(takes, lambda: self._tick(life))

    def power_off(self) -> None:
        self.on = False
        self.life += 1

    def reboot(self) -> None:
        if self.instance.lives:
            self.power_off()
            self.boot()

    def _tick(self, life: int) -> None:
        if life != self.life or not self.on:
            return
        self._work()
        if not self.frozen and not self.cut_off and self.instance.state is not CloudState.STOPPED:
            self._ping()
        wait = self.habits.ping_every * (0.8 + 0.4 * self._random.random())
        self.engine.after(wait, lambda: self._tick(life))

    def _work(self) -> None:
        """Takes a job, or ends one, now and then."""
        chance = self.habits.ping_every / self.habits.job_s
        if self._random.random() < chance:
            busy = self.wanted(self) and self._random.random() < self.habits.works
            self.state = "busy" if busy else "idle"

    def _ping(self) -> None:
        state = self.state if self.habits.tells_state else None
        travel = self.engine.trip()
        late = self.late or self.moods.late_pings
        if late:
            travel += self._random.random() * late
        fate = self.weather.fate("store.ping", "node")
        if not fate.effect:
            return
        life = self.life
        self.engine.after(travel + fate.there, lambda: self._arrive(state, life))

    def _arrive(self, state: str | None, life: int) -> None:
        instance = self.instance.id if self.habits.tells_instance else None
        try:
            record = self.registry.ping(
                self.uuid, self.secret, instance=instance, state=state, address=self.address
            )
        except WrongSecret:
            self.refused += 1
            return
        except (StoreError, RemoteError):
            return
        if life == self.life:
            self.slot, self.hostname = record.slot_number, record.hostname
