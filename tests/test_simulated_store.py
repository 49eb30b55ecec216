"""The simulated store answers as the real one does to the same operations."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import pytest

from nodemanager.core.model.world import Claim, Record
from nodemanager.errors import NodeManagerError
from nodemanager.records.pings import Ping
from tests.contract.stores import claim, open_sql
from tests.simulation.engine import Engine
from tests.simulation.registry import CasStore, Registry
from tests.simulation.world import Bulletin

pytestmark = pytest.mark.slow

SLOTS = 3
STEPS = 60


class Straight:
    """A way to the server that takes no time and loses nothing."""

    def call(self, name: str, effect: Any, about: str = "") -> Any:
        return effect()


class Side:
    """One of the two stores; records are known by the order of their making."""

    def __init__(self, store: Any, ping: Any) -> None:
        self.store, self._ping = store, ping
        self.uuids: list[str] = []
        self.seen: list[list[Record]] = []

    def do(self, what: str, index: int, age: int, mark: Claim, node: str) -> str:
        """Carry one operation out; what came of it, as far as it must be alike."""
        try:
            if what == "create":
                record = self.store.create(mark)
                if record.uuid not in self.uuids:
                    self.uuids.append(record.uuid)
                    self.seen.append([])
            elif not self.uuids:
                return "nobody"
            else:
                record = self._to_one(what, index % len(self.uuids), age, mark, node)
        except NodeManagerError as error:
            return f"{type(error).__name__}"
        self.seen[self.uuids.index(record.uuid)].append(record)
        return told(record)

    def _to_one(self, what: str, index: int, age: int, mark: Claim, node: str) -> Record:
        versions = self.seen[index]
        judged = versions[-min(age, len(versions))]
        if what == "claim":
            result: Record = self.store.claim(judged, mark)
        elif what == "clean":
            result = self.store.clean(judged, "stale_slot")
        else:
            if what == "ping":
                self._ping(judged, node)
            result = self.store.read(judged.uuid)
        return result


def told(record: Record) -> str:
    return repr(
        (
            record.slot_number,
            record.hostname,
            record.ip_address,
            record.first_ping_at is None,
            record.last_ping_at is None,
            record.instance_id,
            record.worker_state,
            record.pool,
            record.incarnation,
            record.ping_secret is None,
            record.problems,
            sorted(record.info.keys()),
        )
    )


@pytest.mark.parametrize("seed", range(6))
def test_the_same_operations_are_answered_alike(seed: int, tmp_path: Path) -> None:
    """Creates, claims and cleans of present and past versions, pings with present and past secrets:
    C12, U1, U3 and U7 as both stores keep them."""
    random = Random(seed)
    real = open_sql(f"sqlite:///{tmp_path / 'registry.db'}", SLOTS)
    registry = Registry(Engine(str(seed)), slots=SLOTS)
    line: Any = Straight()

    def ping_real(record: Record, node: str) -> None:
        params = {"ping_secret": record.ping_secret or "none", "instance_id": node}
        params["worker_state"] = "idle"
        real.resource.ping(Ping(record.uuid, params, f"10.0.0.{len(node)}"))

    def ping_simulated(record: Record, node: str) -> None:
        secret, address = record.ping_secret or "none", f"10.0.0.{len(node)}"
        registry.ping(record.uuid, secret, instance=node, state="idle", address=address)

    sides = (
        Side(real, ping_real),
        Side(CasStore(registry, line, "m", Bulletin()), ping_simulated),
    )
    try:
        for step in range(STEPS):
            what = random.choice(("create", "claim", "clean", "clean", "ping", "ping", "read"))
            index, age = random.randrange(6), random.choice((1, 1, 2, 3))
            mark = claim(
                pool=random.choice(("main", "main", "other")),
                incarnation=f"{random.randrange(8):032x}",
            )
            mark = replace(mark, node_id=random.choice((None, None, "i-1", "i-11")))
            node = "i-" + "1" * random.randrange(1, 4)
            came_of_it = [one.do(what, index, age, mark, node) for one in sides]
            assert came_of_it[0] == came_of_it[1], f"step {step}: {what} of {index}, {age} back"
    finally:
        real.close()
