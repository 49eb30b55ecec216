"""The stand-ins of other tests, held to the same contract as the real adapters.

The actors' tests run on tests/fakes and the simulation on its own store and cloud: what they
promise falsely, those tests prove falsely. Nothing here opens a socket or takes time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from nodemanager.core.model.world import (
    NO_TAGS,
    CloudNode,
    CloudState,
    Guarantee,
    LeftoverKind,
    Record,
    WorkerState,
)
from nodemanager.errors import NoSuchRecord, RemoteError
from nodemanager.records.api import RecordStore
from tests.contract.cloud_fixture import CloudFixture
from tests.fakes import FakeCloud, FakeStore, TickingClock
from tests.fakes.cloud import Machine
from tests.simulation.arvados import FencedStore
from tests.simulation.cloud import CloudTraits, SimCloud, SimDriver
from tests.simulation.engine import Engine, SimClock
from tests.simulation.registry import CasStore, Registry, WrongSecret
from tests.simulation.world import Bulletin

SLOTS = 8


class Straight:
    """A way to the server that takes no time and loses nothing."""

    def call(self, name: str, effect: Any, about: str = "") -> Any:
        return effect()


@dataclass(frozen=True)
class Answered:
    """What a ping was answered with, as an HTTP client shows it."""

    status_code: int
    error: str = ""
    drain_order: str | None = None

    def json(self) -> dict[str, Any]:
        told = {"drain": self.drain_order is not None, "drain_order": self.drain_order}
        return {"errors": [self.error]} if self.error else told


@dataclass
class Model:
    """A store that is no real one. See stores.Backend."""

    store: RecordStore
    reopen: Callable[[], RecordStore]
    _ping: Callable[[Record, dict[str, Any]], str | None]

    def ping(self, record: Record, **told: Any) -> Answered:
        try:
            order = self._ping(record, told)
        except NoSuchRecord as error:
            return Answered(404, str(error))
        except RemoteError as error:
            locked_out = isinstance(error, WrongSecret) or str(error).startswith("401")
            return Answered(401 if locked_out else 422, str(error))
        return Answered(200, drain_order=order)


def _fake(guarantee: Guarantee) -> Model:
    clock = TickingClock()
    store = FakeStore(clock, pool="main", slots=range(1, SLOTS + 1), guarantee=guarantee)

    def ping(record: Record, told: dict[str, Any]) -> str | None:
        clock.advance(1.0)
        state, drained = told.get("worker_state"), told.get("drain_order")
        if state == "drained":
            state = "idle" if drained else "unknown"
        return store.ping(
            record.uuid,
            record.ping_secret or "",
            instance_id=told.get("instance_id"),
            worker_state=None if state is None else WorkerState(state.lower()),
            address=told.get("local_ipv4", "10.0.0.1"),
            drain_hook=told.get("drain_hook") == "yes",
            drained=drained,
            notice=told,
        )

    return Model(store, lambda: store, ping)


def _simulated(*, fenced: bool) -> Model:
    engine = Engine("contract")
    registry = Registry(engine, slots=SLOTS)
    line: Any = Straight()

    def open_store() -> RecordStore:
        if fenced:
            return FencedStore(
                registry, line, "manager-1", Bulletin(), timeout=10.0, clock=SimClock(engine)
            )
        return CasStore(registry, line, "manager-1", Bulletin())

    def ping(record: Record, told: dict[str, Any]) -> str | None:
        # Time passes between two pings, or their stamps would be one.
        engine.now += 1.0
        state = told.get("worker_state")
        pinged = registry.ping(
            record.uuid,
            record.ping_secret or "",
            instance=told.get("instance_id"),
            state=None if state is None else state.lower(),
            address=told.get("local_ipv4", "10.0.0.1"),
            hook=told.get("drain_hook") == "yes",
            drained=told.get("drain_order"),
            notice=told,
        )
        return pinged.drain

    return Model(open_store(), open_store, ping)


MODELS: dict[str, Callable[[], Model]] = {
    "fake": lambda: _fake(Guarantee.CAS),
    "fake-fenced": lambda: _fake(Guarantee.FENCED),
    "simulated": lambda: _simulated(fenced=False),
    "simulated-arvados": lambda: _simulated(fenced=True),
}
"""By kind, a new and empty store."""


# Clouds.


def _states(change: Callable[[str, CloudState], None]) -> dict[CloudState, Callable[[str], None]]:
    def into(state: CloudState) -> Callable[[str], None]:
        return lambda node_id: change(node_id, state)

    return {state: into(state) for state in CloudState}


@contextmanager
def fake_cloud(_tmp_path: Path) -> Iterator[CloudFixture]:
    """One account, seen by each pool through a fake of its own."""
    clock = TickingClock()
    opened: dict[str, FakeCloud] = {}
    machines: dict[str, Machine] = {}

    def open_cloud(pool: str) -> FakeCloud:
        if pool not in opened:
            opened[pool] = FakeCloud(clock, pool=pool)
            opened[pool].machines = machines
        return opened[pool]

    first = open_cloud("by-hand")

    def change(node_id: str, state: CloudState) -> None:
        first.change(node_id, state=state)

    def pin(node: CloudNode) -> set[tuple[LeftoverKind, str]]:
        cloud = opened[node.tags.pool or ""]
        kinds = (LeftoverKind.INTERFACE, LeftoverKind.VOLUME, LeftoverKind.ADDRESS)
        return {cloud.pin(node.id, kind, f"{kind.value}-of-{node.id}").key for kind in kinds}

    yield CloudFixture(
        open=open_cloud,
        listing_through=lambda change: nullcontext(),
        states=_states(change),
        pin=pin,
        by_hand=lambda: first.add(managed=False).id,
    )


@contextmanager
def simulated_cloud(_tmp_path: Path) -> Iterator[CloudFixture]:
    """Its answers as in fair weather; what is young may lag behind, so time is let pass."""
    engine = Engine("contract")
    cloud = SimCloud(engine, CloudTraits(visible_after=0.0), lambda node, data: None)
    line: Any = Straight()

    def change(node_id: str, state: CloudState) -> None:
        instance = cloud.instances[node_id]
        # A node that ended is shown for a while, in most clouds.
        instance.lingers = 3600.0
        if state is CloudState.TERMINATED:
            cloud.end(instance)
        else:
            cloud.set_state(instance, state)

    def by_hand() -> str:
        return cloud.start(tags=NO_TAGS, size="s.1", name="old", by="somebody").id

    yield CloudFixture(
        open=lambda pool: SimDriver(cloud, line, pool, f"manager-of-{pool}"),
        listing_through=lambda change: nullcontext(),
        states=_states(change),
        by_hand=by_hand,
    )


CLOUD_MODELS: dict[str, Callable[[Path], AbstractContextManager[CloudFixture]]] = {
    "fake": fake_cloud,
    "simulated": simulated_cloud,
}
