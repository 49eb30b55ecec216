"""The slot ledger: who holds each slot, seen from outside, and what must be true of it.

    slots held = live nodes + records within their window

The nodes are read before the records and again after them. A node whose process ran both times
ran when the records were read, so that no finding is an artefact of the order of reading.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Protocol

from tests.live.cluster import DirectedCluster
from tests.live.harness import Registry, claim_of


@dataclass(frozen=True)
class Windows:
    """How long a quiet record and a claim without a ping may hold a slot, in seconds."""

    stale_s: float
    claim_s: float


@dataclass(frozen=True)
class Live:
    """A running node, and what it was created for."""

    pid: int
    record: str
    incarnation: str


@dataclass(frozen=True)
class Ledger:
    """One reading. `broken` is what is wrong at any time; `overdue` holds slots too long."""

    live: frozenset[str]
    waiting: frozenset[str]
    overdue: Mapping[str, float]
    """Records that nobody uses and whose window passed, and for how many seconds it has."""
    broken: tuple[str, ...]

    @property
    def held(self) -> int:
        return len(self.live) + len(self.waiting) + len(self.overdue)

    def __str__(self) -> str:
        return (
            f"{self.held} slots: {len(self.live)} live, {len(self.waiting)} within their window, "
            f"{len(self.overdue)} overdue"
        )


class Watched(Protocol):
    """A cluster whose live nodes and records can be seen from outside."""

    @property
    def registry(self) -> Registry: ...

    def live(self) -> dict[str, Live]: ...


@dataclass(frozen=True)
class Processes:
    """A local cluster, watched: its live nodes are those whose process runs."""

    cluster: DirectedCluster

    @property
    def registry(self) -> Registry:
        return self.cluster.registry

    def live(self) -> dict[str, Live]:
        return live_nodes(self.cluster)


def read(watched: Watched, windows: Windows, most: int) -> Ledger:
    """The ledger as it stands; needs the registry to answer."""
    before = watched.live()
    rows = watched.registry.rows()
    now = time.time()
    after = watched.live()
    surely = {node_id: one for node_id, one in before.items() if after.get(node_id) == one}
    node_may_exist = {one.record for one in (*before.values(), *after.values())}
    waiting, overdue = set(), {}
    for uuid, row in rows.items():
        if uuid in node_may_exist or not holds(row):
            continue
        late = now - expiry(row, windows)
        if late <= 0:
            waiting.add(uuid)
        else:
            overdue[uuid] = late
    return Ledger(
        live=frozenset(uuid for uuid in node_may_exist if uuid in rows and holds(rows[uuid])),
        waiting=frozenset(waiting),
        overdue=overdue,
        broken=tuple(broken(surely, rows, most)),
    )


def live_nodes(cluster: DirectedCluster) -> dict[str, Live]:
    """The nodes whose process runs, by id."""
    found = {}
    for node_id, entry in cluster.running().items():
        process = entry.process()
        if process is not None:
            tags = entry.meta()["tags"]
            record, incarnation = tags["nodemanager-record"], tags["nodemanager-incarnation"]
            found[node_id] = Live(process.pid, record, incarnation)
    return found


def holds(row: Mapping[str, Any]) -> bool:
    """Whether the record holds a slot, or is claimed and about to."""
    return row["slot_number"] is not None or claim_of(row) is not None


def expiry(row: Mapping[str, Any], windows: Windows) -> float:
    """Until when, in epoch seconds, the record holds its slot with nobody using it (C3, C21)."""
    claim = claim_of(row)
    if claim is not None and row["first_ping_at"] is None:
        return float(claim["at"]) + windows.claim_s
    stamps = [_epoch(row[key]) for key in ("modified_at", "last_ping_at") if row[key]]
    claimed = [] if claim is None else [float(claim["at"])]
    return max((*stamps, *claimed)) + windows.stale_s


def broken(
    nodes: Mapping[str, Live], rows: Mapping[str, Mapping[str, Any]], most: int
) -> list[str]:
    """What is wrong at any time: too many nodes, a slot twice, a live node's record lost."""
    wrong = []
    if len(nodes) > most:
        wrong.append(f"{len(nodes)} live nodes, {most} allowed: {sorted(nodes)}")
    for record, count in Counter(one.record for one in nodes.values()).items():
        if count > 1:
            wrong.append(f"{count} live nodes for record {record}")
    slots = Counter(row["slot_number"] for row in rows.values() if row["slot_number"] is not None)
    wrong += [f"slot {slot} is held by {n} records" for slot, n in slots.items() if n > 1]
    for node_id, one in nodes.items():
        row = rows.get(one.record)
        claim = None if row is None else claim_of(row)
        if row is None:
            wrong.append(f"the record {one.record} of live node {node_id} is no more")
        elif row["slot_number"] is None:
            wrong.append(
                f"the record {one.record} of live node {node_id} has no slot: it was freed"
            )
        elif claim is None or claim["incarnation"] != one.incarnation:
            wrong.append(f"live node {node_id} lost its claim on {one.record}: {claim}")
    return wrong


def _epoch(stamp: str) -> float:
    return datetime.fromisoformat(stamp).timestamp()
