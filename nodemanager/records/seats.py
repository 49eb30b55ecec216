"""Records that are bound to a seat, one CLOUD node of Slurm each, and what its slurmd says to them.

Pure functions of a row and of the node as Slurm tells it. What is known of a seat's slurmds is in
the row's info, under SLURMDS, and outlives cleans: `start` is when the one of this life started or,
while the record is free, that of its last life; `others` are those that were there before, or
without a claim.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from nodemanager.core.model.scheduling import SEAT, SEAT_SIZE
from nodemanager.records import wire
from nodemanager.records.slurm_nodes import SlurmNode

SEAT_SLOT, SEAT_CLUSTER = "nodemanager_seat_slot", "nodemanager_seat_cluster"
"""The properties with the slot that is the seat's own, and with the cluster that it is of."""
BINDING = (SEAT, SEAT_SIZE, SEAT_SLOT, SEAT_CLUSTER)
"""The properties that a clean leaves."""
SLURMDS = "slurmds"
_KEPT = 8
"""So many other slurmds of a seat are known at most, the newest."""


class Slurmds(NamedTuple):
    """When the slurmds of a seat started, each by its machine's clock."""

    start: str | None = None
    others: tuple[str, ...] = ()

    @property
    def info(self) -> dict[str, Any]:
        return {SLURMDS: {"start": self.start, "others": list(self.others)}}

    def with_other(self, *starts: str | None) -> Slurmds:
        known = [one for one in (*self.others, *starts) if one is not None]
        return self._replace(others=tuple(dict.fromkeys(known))[-_KEPT:])


class NodeReport(NamedTuple):
    """What a node says to its record: the columns to write, and whether a slurmd is alive.

    `lives` is of the record's own life; `lives_on` is of one that a clean ended (U8).
    """

    values: dict[str, Any]
    lives: bool = False
    lives_on: bool = False


def bound(name: str, sizes: tuple[str, ...], slot: int, cluster: str) -> dict[str, Any]:
    """The properties that bind a record to its seat."""
    binding = {SEAT: name, SEAT_SLOT: slot, SEAT_CLUSTER: cluster}
    return {**binding, SEAT_SIZE: list(sizes)} if sizes else binding


def with_sizes(properties: Mapping[str, Any], sizes: tuple[str, ...]) -> dict[str, Any]:
    """`properties` with the names of the seat's size as slurm.conf has them now."""
    others = {key: said for key, said in properties.items() if key != SEAT_SIZE}
    return {**others, SEAT_SIZE: list(sizes)} if sizes else others


def kept(properties: Mapping[str, Any]) -> dict[str, Any]:
    """The binding among a record's properties."""
    return {key: properties[key] for key in BINDING if key in properties}


def own_slot(row: Mapping[str, Any]) -> tuple[int, str] | None:
    """The slot and the name that are the row's own; None where its slot may be any."""
    properties = row["properties"] if isinstance(row["properties"], dict) else {}
    name, slot = properties.get(SEAT), properties.get(SEAT_SLOT)
    return (slot, name) if isinstance(name, str) and isinstance(slot, int) else None


def slurmds_of(row: Mapping[str, Any]) -> Slurmds:
    info = row["info"] if isinstance(row["info"], dict) else {}
    said = info.get(SLURMDS)
    said = said if isinstance(said, dict) else {}
    start, others = said.get("start"), said.get("others")
    texts = others if isinstance(others, list) else []
    return Slurmds(
        start if isinstance(start, str) else None,
        tuple(one for one in texts if isinstance(one, str)),
    )


def is_claimed(row: Mapping[str, Any]) -> bool:
    """Whether it bears a claim, readable or not."""
    properties = row["properties"] if isinstance(row["properties"], dict) else {}
    return properties.get(wire.CLAIM) is not None


def at_claim(row: Mapping[str, Any], node: SlurmNode) -> Slurmds:
    """What is known at a claim: only a slurmd that starts after it is of this life."""
    before = slurmds_of(row)
    return Slurmds().with_other(*before.others, before.start, node.start)


def news(row: Mapping[str, Any], node: SlurmNode) -> NodeReport:
    """What the node says to its record. A slurmd that has just registered has lived since.

    A start that slurmctld does not know is no evidence, of life or of silence.
    """
    if node.start is None:
        return NodeReport({})
    slurmds = slurmds_of(row)
    if not is_claimed(row):
        if node.start == slurmds.start:
            return NodeReport({}, lives_on=node.is_alive)
        after = slurmds.with_other(node.start)
        return NodeReport({} if after == slurmds else {"info": {**row["info"], **after.info}})
    if node.start in slurmds.others:
        return NodeReport({}, lives_on=node.is_alive)
    if not node.is_alive and node.start == slurmds.start:
        return NodeReport({})
    info = {**row["info"], **slurmds._replace(start=node.start).info}
    info.pop(wire.WORKER_STATE, None)
    if node.is_alive:
        info[wire.WORKER_STATE] = "+".join(sorted(node.words))
    values: dict[str, Any] = {"info": info}
    if row["ip_address"] is None and node.address is not None:
        values["ip_address"] = node.address
    return NodeReport(values, lives=True)


def is_unheard(row: Mapping[str, Any], node: SlurmNode, heard_until_ns: int | None) -> bool:
    """Whether a slurmd of this life has come, or come back, since the last look at all seats.

    `heard_until_ns` is when that look was, on the store's clock.
    """
    if not news(row, node).lives:
        return False
    is_new = node.start != slurmds_of(row).start
    last = row["last_ping_at"]
    return is_new or heard_until_ns is None or last is None or last < heard_until_ns
