"""What runs on a node: it boots, pings with what its user data told it, works, and misbehaves."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from nodemanager.core.model.world import CloudState, Record
from nodemanager.errors import NoFreeSlot, RemoteError, StoreError
from tests.simulation.cloud import Instance, SimCloud
from tests.simulation.engine import Engine
from tests.simulation.registry import Registry, WrongSecret
from tests.simulation.weather import Weather

if TYPE_CHECKING:
    from tests.simulation.world import Shape

JITTER = 1.2
"""A ping comes up to so many times its interval after the one before."""


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
    scheduled: bool = False
    """A scheduler gives them their jobs; else each takes work by itself, and says so at once."""
    drain_hook: bool = False
    """They can be told to take no more work, and stay so over a reboot (D12)."""


@dataclass
class Moods:
    """What faults do to the nodes that boot while they last."""

    boot_slowly: float = 0.0
    never_boot: bool = False
    late_pings: float = 0.0


@dataclass(frozen=True)
class Word:
    """What a node said in a ping: when it was sent, and when it reached the store.

    `is_answered` says that the answer was no error: such an answer tells no drain order.
    """

    sent: float
    arrived: float
    state: str | None
    is_answered: bool = True
    is_taken: bool = False
    """It said that the cloud will take it (D18)."""


@dataclass
class Machine:
    """One node's inside. `secret` is what it pings with; `refused` counts its wrong secrets.

    `busy_since` is since when it has been at work, in truth; `words` are the pings that the store
    took, by the stamp it gave them.
    """

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
    busy_since: float | None = None
    was_busy: bool = False
    """It was at work when it was switched off."""
    words: dict[float | None, Word] = field(default_factory=dict)
    told: str | None = None
    """The order by which it takes no more work."""
    is_down: bool = False
    """It says so, and takes no work."""
    is_taken: bool = False
    """Its cloud says that it will take it; then it takes no work, if it can be told to (D18)."""
    slot: int | None = None
    hostname: str | None = None
    refused: int = 0
    heard_at: float | None = None
    knocked_at: float | None = None
    """When its last ping was lost: it lived, and nobody heard."""
    life: int = 0
    up: bool = False
    """In this life it has come so far as to ping."""
    mute: bool = False
    """In this life it never will."""
    stillborn: bool = False
    """Nor in any other."""

    @property
    def state(self) -> str:
        return "idle" if self.busy_since is None else "busy"

    @property
    def is_ready(self) -> bool:
        """Whether its scheduler may give it a job: it is up, can be reached, and has none."""
        up = self.on and self.heard_at is not None and not self.cut_off and not self.is_down
        up = up and self.takes_work
        return up and self.busy_since is None

    @property
    def takes_work(self) -> bool:
        return self.told is None and not (self.is_taken and self.habits.drain_hook)

    def drains_for(self, shape: Shape) -> bool:
        """Whether it can be told to take no more work, in that world."""
        return self.habits.drain_hook and not shape.fenced

    def begin_job(self, lasts: float) -> None:
        self.busy_since = self.engine.now
        life = self.life

        def done() -> None:
            if life == self.life:
                self.busy_since = None

        self.engine.after(lasts, done)

    def boot(self) -> None:
        self.life += 1
        self.on, self.up, self.mute = True, False, self.moods.never_boot or self.stillborn
        random = self.engine.random(f"machine/{self.instance.id}/{self.life}")
        self._random = random
        if self.habits.dies_every and self.life == 1:
            lives = random.expovariate(1 / self.habits.dies_every)
            self.engine.after(lives, lambda: self.cloud.age(self.instance))
        if self.mute:
            return
        low, high = self.habits.boots_in
        takes = low + random.random() * (high - low) + self.moods.boot_slowly
        life = self.life
        self.engine.after(takes, lambda: self._tick(life))

    def fail_to_boot(self) -> None:
        """Neither now nor when it is started again."""
        self.life += 1
        self.mute = self.stillborn = True

    def power_off(self) -> None:
        self.on, self.was_busy = False, self.busy_since is not None
        self.life += 1
        self.busy_since = None

    def reboot(self) -> None:
        if self.instance.lives:
            self.power_off()
            self.boot()

    def _tick(self, life: int) -> None:
        if life != self.life or not self.on:
            return
        self.up = True
        self._work()
        if not self.frozen and not self.cut_off and self.instance.state is not CloudState.STOPPED:
            self._ping()
        wait = self.habits.ping_every * (0.8 + 0.4 * self._random.random())
        self.engine.after(wait, lambda: self._tick(life))

    def _work(self) -> None:
        """Takes a job, or ends one, now and then; in the calm no job begins."""
        if self.habits.scheduled:
            return
        chance = self.habits.ping_every / self.habits.job_s
        if self._random.random() < chance:
            works = self._random.random() < self.habits.works
            busy = self.wanted(self) and works and self.takes_work
            busy = busy and not self.engine.calm
            self.busy_since = (self.busy_since or self.engine.now) if busy else None

    def _ping(self) -> None:
        state = self.state if self.habits.tells_state else None
        if self.told is not None and self.busy_since is None:
            state = "drained"
        if self.is_down:
            state = "down"
        drained, is_taken = self.told, self.is_taken
        travel = self.engine.trip()
        late = self.late or self.moods.late_pings
        if late:
            travel += self._random.random() * late
        fate = self.weather.fate("store.ping", "node")
        if not fate.effect:
            self.knocked_at = self.engine.now
            return
        life, sent = self.life, self.engine.now
        arrives = travel + fate.there

        def arrive() -> None:
            self._arrive(Word(sent, self.engine.now, state, is_taken=is_taken), drained, life)

        self.engine.after(arrives, arrive)
        if fate.again is not None:
            again = arrives + fate.again
            self.engine.after(again, arrive)

    def _arrive(self, word: Word, drained: str | None, life: int) -> None:
        instance = self.instance.id if self.habits.tells_instance else None
        try:
            record = self.registry.ping(
                self.uuid,
                self.secret,
                instance=instance,
                state=word.state,
                address=self.address,
                hook=self.habits.drain_hook,
                drained=drained,
                notice={"notice": "spot" if word.is_taken else "none"},
            )
        except WrongSecret:
            self.refused += 1
            return
        except NoFreeSlot:
            # The store took the ping before it looked for a slot.
            taken = self.registry.record(self.uuid)
            assert taken is not None
            self._heard(taken, replace(word, is_answered=False))
            return
        except (StoreError, RemoteError):
            return
        self._heard(record, word)
        if life == self.life and self.habits.drain_hook and record.drain != self.told:
            # It carries that out, and says so at once.
            self.told = record.drain
            self._ping()
        if life == self.life:
            self.slot, self.hostname = record.slot_number, record.hostname

    def _heard(self, record: Record, word: Word) -> None:
        self.heard_at = word.arrived
        self.words[record.last_ping_at] = word
