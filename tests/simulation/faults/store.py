"""The record API: its calls, its listings, and the pings that reach it or don't."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from nodemanager.core.model.world import Listed, Record
from nodemanager.errors import Conflict
from tests.simulation.faults.calls import (
    STORE_WRITES,
    error_500,
    error_503,
    lost_reply,
    raises,
    slow,
    spell,
    store_429,
    twice,
)
from tests.simulation.faults.script import LONG, MIDDLING, Effect, Scene, fault

fault("store list fails", weight=2, lasts=MIDDLING)(
    spell("store.list store.time", raises(error_500, error_503, store_429))
)
fault("store list slow", lasts=MIDDLING)(spell("store.list store.time", slow(2, 30)))
fault("store writes fail", weight=2, lasts=MIDDLING)(
    spell(STORE_WRITES, raises(error_500, error_503, store_429, lambda: Conflict("409")))
)
fault("store replies lost", weight=3, lasts=MIDDLING)(spell(STORE_WRITES, lost_reply))
fault("store writes late", weight=3, lasts=MIDDLING)(spell(STORE_WRITES, slow(10, 200)))
fault("store requests arrive twice", weight=2, lasts=MIDDLING)(
    spell(f"store.ping {STORE_WRITES}", twice)
)
fault("restores fail", lasts=LONG)(spell("store.restore", raises(error_503, error_500)))
fault("late pings can't be asked for", lasts=MIDDLING)(spell("store.late", raises(error_503)))
fault("store reads fail", lasts=MIDDLING)(spell("store.read", raises(error_503)))
fault("store reads slow", lasts=MIDDLING)(spell("store.read", slow(2, 20)))
fault("store down", weight=2, lasts=LONG)(
    spell(
        f"store.list store.time store.read store.probe store.ping {STORE_WRITES}",
        raises(error_503),
        often=(1.0, 1.0),
    )
)
fault("pings lost on the way", weight=2, lasts=LONG)(
    spell("store.ping", raises(error_503), often=(0.3, 1.0))
)
fault("probe fails", lasts=MIDDLING)(spell("store.probe", raises(error_503)))


def altering_records(change: Callable[[Scene, tuple[Record, ...]], Listed[Record]]) -> Effect:
    def effect(scene: Scene) -> None:
        chance = 0.3 + 0.7 * scene.random.random()

        def alter(records: tuple[Record, ...]) -> Listed[Record]:
            if scene.random.random() >= chance:
                return Listed(records)
            return change(scene, records)

        alterations = scene.world.bulletin.alterations
        alterations.append(alter)
        scene.finally_(lambda: alterations.remove(alter))

    return effect


@fault("store list short", weight=2, lasts=MIDDLING)
@altering_records
def _(scene: Scene, records: tuple[Record, ...]) -> Listed[Record]:
    return Listed(tuple(one for one in records if scene.random.random() < 0.7))


@fault("store list empty", lasts=MIDDLING)
@altering_records
def _(scene: Scene, records: tuple[Record, ...]) -> Listed[Record]:
    return Listed(())


@fault("store list incomplete", lasts=MIDDLING)
@altering_records
def _(scene: Scene, records: tuple[Record, ...]) -> Listed[Record]:
    kept = tuple(one for one in records if scene.random.random() < 0.5)
    return Listed(kept, complete=False, problems=("an item has no uuid",))


@fault("store list unreadable items", lasts=MIDDLING)
@altering_records
def _(scene: Scene, records: tuple[Record, ...]) -> Listed[Record]:
    def broken(record: Record) -> Record:
        if scene.random.random() < 0.6:
            return record
        return replace(record, modified_at=None, problems=("modified_at is not a time",))

    return Listed(tuple(broken(one) for one in records))


@fault("store list late", weight=2, lasts=MIDDLING)
def _(scene: Scene) -> None:
    registry = scene.world.registry
    registry.late_by = 30 + scene.random.random() * 300
    scene.finally_(lambda: setattr(registry, "late_by", 0.0))


@fault("the store's id can't be asked for", lasts=MIDDLING)
def _(scene: Scene) -> None:
    registry = scene.world.registry
    registry.asks_for_id = True
    spell("store.id", raises(error_503))(scene)
    scene.finally_(lambda: setattr(registry, "asks_for_id", False))


@fault("store swapped for an empty one", weight=0.5, lasts=MIDDLING)
def _(scene: Scene) -> None:
    registry = scene.world.registry
    if registry.is_swapped:
        return
    rows, store_id = registry.rows, registry.store_id
    registry.swap({}, "store-2")
    scene.finally_(lambda: registry.swap(rows, store_id))
