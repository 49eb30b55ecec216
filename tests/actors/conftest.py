"""Fixtures of the actors' tests."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Protocol

import pytest

from nodemanager.app import wiring
from nodemanager.core.model.world import Guarantee, Record
from nodemanager.errors import CloudError
from nodemanager.journal.api import Journal
from tests.actors.rig import Rig, rigs, until
from tests.fakes import FakeCloud, FakeStore, TickingClock, fail
from tests.fakes.scheduler import FakeScheduler

HOUR = 3600.0


class MakeRig(Protocol):
    def __call__(
        self,
        *,
        cloud: FakeCloud | None = None,
        store: FakeStore | None = None,
        journal: Journal | None = None,
        **options: object,
    ) -> Rig: ...


@pytest.fixture
def make_rig(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[MakeRig]:
    yield from rigs(tmp_path, monkeypatch)


@pytest.fixture
def scheduler(monkeypatch: pytest.MonkeyPatch) -> FakeScheduler:
    """The scheduler that each rig's daemon asks."""
    fake = FakeScheduler()
    monkeypatch.setattr(wiring, "scheduler_of", lambda config: fake)
    return fake


@pytest.fixture
def clock() -> TickingClock:
    return TickingClock()


@pytest.fixture
def cloud(clock: TickingClock) -> FakeCloud:
    return FakeCloud(clock)


@pytest.fixture
def store(clock: TickingClock) -> FakeStore:
    return FakeStore(clock)


@pytest.fixture
def collapsed(make_rig: MakeRig) -> Rig:
    """A rig whose eight nodes vanished at once: the breaker is open (L3)."""
    rig = make_rig(min_nodes=0, max_nodes=20, backlog="clean")
    for _ in range(8):
        rig.fleet.add_node(age=10 * HOUR)
    rig.start()
    rig.cloud.always("ask", fail(CloudError("timeout")))
    rig.cloud.machines.clear()
    until(rig, "breaker.opened", within=120)
    return rig


Leaking = Callable[..., tuple[Rig, Record]]


@pytest.fixture
def leaking(make_rig: MakeRig) -> Leaking:
    """A rig with one record that is due to be cleaned within the first rounds."""

    def make(**options: object) -> tuple[Rig, Record]:
        rig = make_rig(min_nodes=0, backlog="clean", **options)
        _, record = rig.fleet.add_node(age=10 * HOUR, pinged_ago=3 * HOUR)
        assert record.instance_id is not None
        rig.cloud.vanish(record.instance_id)
        return rig, record

    return make


FencedRig = Callable[..., Rig]


@pytest.fixture
def fenced_rig(make_rig: MakeRig) -> FencedRig:
    """Makes rigs on a store that can't compare."""

    def make(**options: object) -> Rig:
        clock = TickingClock()
        store = FakeStore(clock, guarantee=Guarantee.FENCED)
        return make_rig(cloud=FakeCloud(clock), store=store, backlog="clean", **options)

    return make


@pytest.fixture
def fenced(fenced_rig: FencedRig) -> Leaking:
    """As `leaking`, on a store that can't compare."""

    def make(**options: object) -> tuple[Rig, Record]:
        rig = fenced_rig(**options)
        _, record = rig.fleet.add_node(age=10 * HOUR, pinged_ago=3 * HOUR)
        assert record.instance_id is not None
        rig.cloud.vanish(record.instance_id)
        return rig, record

    return make
