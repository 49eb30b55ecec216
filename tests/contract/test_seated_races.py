"""A clean of Slurm's own nodes against a node that comes back, at every point of it (C12).

The real adapter on the model of slurmctld. Each race is one place, between two calls of scontrol,
at which the slurmd registers while a job waits for that node, and perhaps one call whose answer is
lost. Every one is played: nothing is left to chance.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import product
from typing import Any

import pytest

from nodemanager.core.model.orders import fenced_order
from nodemanager.core.model.world import Record
from nodemanager.errors import Conflict, SchedulerError, StoreError
from nodemanager.program import Ended
from nodemanager.records.slurm import SlurmRecordStore
from tests.contract.duel import EVERY_STEP, _order
from tests.contract.stores import claim
from tests.records.slurm_model import RESUME_TIMEOUT_S, SLURMD_TIMEOUT_S, SlurmModel, Times
from tests.simulation.engine import Engine, SimClock

AT_ONCE = Times(power_interval=0.0, answered_in=0.0, requeued_for=0.0)
NAME = "compute1"
SETTLE_S = 10.0


@dataclass
class Race:
    """One clean. `back_at` and `lost_at` count calls from the first one of the clean."""

    has_come: bool
    back_at: int | None = None
    lost_at: int | None = None
    took_effect: bool = True
    calls: list[Sequence[str]] = field(default_factory=list)
    hit: bool = False
    came_back: bool = False

    def __post_init__(self) -> None:
        self.engine = Engine("race")
        clock = SimClock(self.engine)
        self.slurm = SlurmModel({NAME: "small"}, clock.wall, AT_ONCE)
        self.racing = False
        self.store = SlurmRecordStore(SETTLE_S, clock, call=self._call)
        record = self.store.create(claim())
        if self.has_come:
            self.slurm.start_slurmd(NAME)
            self.engine.now += 5.0
            self.read(record)
            self.slurm.kill_slurmd(NAME)
        self.engine.now += RESUME_TIMEOUT_S + SLURMD_TIMEOUT_S + 1.0
        self.judged = self.read(record)
        self.job = self.slurm.submit(NAME)
        self.racing = True

    @property
    def node(self) -> Any:
        return self.slurm.nodes[NAME]

    def read(self, record: Record) -> Record:
        found = self.store.read(record.uuid)
        assert found is not None
        return found

    def _call(self, what: str, argv: Sequence[str], timeout: float, **more: Any) -> Ended:
        if not self.racing:
            return self.slurm.run(what, argv, timeout, **more)
        number = len(self.calls)
        self.calls.append(argv)
        if number == self.back_at:
            self.came_back = True
            self.slurm.start_slurmd(NAME)
        if number == self.lost_at and not self.took_effect:
            raise SchedulerError("never sent")
        if "State=POWER_DOWN_FORCE" in argv:
            self.hit |= self.node.job is not None
        ended = self.slurm.run(what, argv, timeout, **more)
        if number == self.lost_at:
            raise SchedulerError("its answer was lost")
        return ended

    # What the workflow of a clean does (core/execute/clean_fenced.py).

    def clean(self, steps: frozenset[str] = EVERY_STEP) -> bool:
        """Clean with these of C12's steps; whether it was freed."""
        try:
            fenced = self.store.fence(self.judged) if "fence" in steps else self.judged
        except Conflict:
            return False
        except StoreError:
            return self._lifted()
        behind = fenced_order(_order(self.judged), self.judged, fenced, 0.0)
        if behind is None:
            return self._lifted()
        self.engine.now += SETTLE_S
        try:
            found = self.read(self.judged)
            if "look" in steps and found.version != behind.version:
                return self._lifted()
            self.store.clean(found, "stale_slot")
        except Conflict:
            return self._lifted()
        except StoreError:
            return not self._again(lambda: self.read(self.judged)).holds_anything or self._lifted()
        return True

    def _lifted(self) -> bool:
        self._again(lambda: self.store.unfence(self.judged, None))
        return False

    def _again(self, ask: Any) -> Any:
        """One answer is lost in a race, so the second call is answered."""
        try:
            return ask()
        except StoreError:
            return ask()

    # What came of it.

    def was_back_before_the_last_look(self) -> bool:
        """Whether the node had come back when the clean last looked before it wrote."""
        if self.back_at is None:
            return False
        wrote = next((at for at, argv in enumerate(self.calls) if frees(argv)), len(self.calls))
        looks = [at for at, argv in enumerate(self.calls[:wrote]) if "node" in argv]
        return self.back_at <= looks[-1]

    def broken(self, *, freed: bool) -> str | None:
        """What is wrong with how it ended."""
        if self.hit:
            return "a job was hit"
        if freed and self.was_back_before_the_last_look():
            return "a node was freed that had come back before the last look"
        self.racing = False
        now = self.read(self.judged)
        if now.fenced:
            return "the fence stayed"
        # From that write on its life is over: one that registers behind it holds its slot anew.
        powered_down = any(frees(argv) for argv in self.calls)
        if freed or powered_down:
            # The cloud's machine goes, and Slurm must be able to power the next one up.
            self.slurm.kill_slurmd(NAME)
            self.engine.now += RESUME_TIMEOUT_S
            self.slurm.start_slurmd(NAME)
            self.engine.now += 5.0
        elif now.claim != self.judged.claim:
            return "the claim was lost"
        came = freed or powered_down or self.came_back
        if came and self.slurm.state_of(self.job) != "RUNNING":
            return f"its job does not run on a node that is {sorted(self.node.flags)}"
        return None


def frees(argv: Sequence[str]) -> bool:
    """Whether it is the write by which a clean gives the node back to Slurm."""
    return any(word in argv for word in ("State=POWER_DOWN_FORCE", "State=RESUME"))


def races(has_come: bool, *, losses: bool) -> Iterator[Race]:
    alone = Race(has_come)
    assert alone.clean()
    points = range(len(alone.calls) + 1)
    for at in points:
        yield Race(has_come, back_at=at)
    for at, lost_at in product((None, *points), points) if losses else ():
        for took_effect in (True, False):
            yield Race(has_come, back_at=at, lost_at=lost_at, took_effect=took_effect)


def played(
    steps: frozenset[str], *, has_come: bool, losses: bool = True
) -> tuple[dict[str, Race], int]:
    """The first race that broke each thing, and how many ended with a free record."""
    broken: dict[str, Race] = {}
    count = 0
    for race in races(has_come, losses=losses):
        freed = race.clean(steps)
        count += freed
        what = race.broken(freed=freed)
        if what is not None:
            broken.setdefault(what, race)
    return broken, count


@pytest.mark.parametrize(
    "has_come", [pytest.param(False, id="never-came"), pytest.param(True, id="lost")]
)
def test_no_race_of_a_clean_and_a_returning_node_frees_a_live_one_or_hits_a_job_c12(
    has_come: bool,
) -> None:
    broken, freed = played(EVERY_STEP, has_come=has_come)
    assert not broken
    assert freed > 10


@pytest.mark.parametrize(
    ("step", "what"),
    [
        pytest.param("fence", "a job was hit", id="no-fence"),
        pytest.param(
            "look", "a node was freed that had come back before the last look", id="no-look"
        ),
    ],
)
def test_each_step_of_c12_is_needed(step: str, what: str) -> None:
    assert what in played(EVERY_STEP - {step}, has_come=True, losses=False)[0]
