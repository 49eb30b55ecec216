"""Pools to measure with: the registry's JSON of n records and the JSON of their n nodes.

The records are those that the registry answers, field by field (its own rendering makes them, its
own reading reads them); the nodes' JSON has what a cloud tells of an instance. Both are as many,
each pair tagged as set-up tags it.
"""

from __future__ import annotations

import json
import pickle
from dataclasses import dataclass, replace
from typing import Any

from nodemanager.core.model.settings import Settings
from nodemanager.core.model.world import CloudNode, CloudState, Listing, Record, Size, Tags
from nodemanager.records import view, wire

POOL = "bench"
EPOCH = 1_700_000_000.0
BOOT = 100_000.0
"""The store's clock, and CLOCK_BOOTTIME, at the first poll."""
POLL_S = 65.0
STALE_S = 9000.0
CHANGED_EVERY = 100
SIZE = Size("small", "m4.large", cores=2, ram_mb=8000, scratch_mb=30_000, price=0.1)


def settings_for(count: int) -> Settings:
    return Settings(pool=POOL, sizes=(SIZE,), max_nodes=2 * count, min_nodes=0, ids_unique=True)


def uuid_of(number: int) -> str:
    return f"bench-7ekkf-{number:015d}"


def incarnation_of(number: int) -> str:
    return f"{number:032x}"


def record_row(number: int, *, ping: int, pinged_at: float, stale: bool) -> dict[str, Any]:
    """A row of the registry, as its database holds it, after `ping` pings."""
    claimed_at = EPOCH - 50_000.0
    last = pinged_at - (STALE_S if stale else number % 60)
    return {
        "uuid": uuid_of(number),
        "version": 5 if stale else 5 + ping,
        "created_at": round((claimed_at - 1.0) * 1e9),
        "modified_at": round(last * 1e9),
        "slot_number": number + 1,
        "hostname": f"compute{number + 1}",
        "domain": "bench.example",
        "ip_address": f"10.{number >> 16 & 255}.{number >> 8 & 255}.{number & 255}",
        "first_ping_at": round((claimed_at + 90.0) * 1e9),
        "last_ping_at": round(last * 1e9),
        "job_uuid": None,
        "properties": {
            wire.POOL: POOL,
            wire.CLAIM: {
                "pool": POOL,
                "manager": "manager-1",
                "token": 1,
                "at": claimed_at,
                "node_name": f"compute-{number:012x}-{POOL}",
                "incarnation": incarnation_of(number),
                "node_id": instance_of(number),
            },
            "total_cpu_cores": 2,
            "total_ram_mb": 8000,
            "total_scratch_mb": 30_000,
        },
        "info": {
            wire.PING_SECRET: f"{number:032d}",
            wire.INSTANCE_ID: instance_of(number),
            wire.WORKER_STATE: "busy",
        },
    }


def instance_of(number: int) -> str:
    return f"i-{number:017x}"


def records_json(count: int, *, poll: int, stale: int) -> str:
    """The registry's answer to a listing of `count` records, at the `poll`-th poll.

    The first `stale` of them have not been pinged for STALE_S.
    """
    at = EPOCH + poll * POLL_S
    items = [
        view.view(
            record_row(number, ping=poll, pinged_at=at, stale=number < stale), round(at * 1e9)
        )
        for number in range(count)
    ]
    return json.dumps({"kind": "arvados#nodeList", "items": items, "items_available": count})


def nodes_json(count: int, *, gone: int) -> str:
    """The same nodes as JSON, but for the first `gone`."""
    return json.dumps(
        [
            {
                "id": instance_of(number),
                "name": f"compute-{number:012x}-{POOL}",
                "state": "running",
                "size": SIZE.instance_type,
                "created_at": EPOCH - 49_990.0,
                "public_ips": [f"198.51.{number >> 8 & 255}.{number & 255}"],
                "private_ips": [f"10.{number >> 16 & 255}.{number >> 8 & 255}.{number & 255}"],
                "tags": {
                    "Name": f"compute-{number:012x}-{POOL}",
                    "nodemanager-pool": POOL,
                    "nodemanager-record": uuid_of(number),
                    "nodemanager-incarnation": incarnation_of(number),
                },
            }
            for number in range(gone, count)
        ]
    )


@dataclass(frozen=True)
class Poll:
    """What one round of polls brings: both listings, as their adapters give them."""

    cloud: Listing[CloudNode]
    records: Listing[Record]
    ended_at: float


class Pool:
    """A pool of `count`, of which the first `stale` lost their node long ago."""

    def __init__(self, count: int, *, stale: int) -> None:
        self._stale = stale
        items = json.loads(records_json(count, poll=0, stale=stale))["items"]
        listed = wire.collect(
            lambda item: wire.read(item, version=item["etag"], when=wire.parse_stamp), items
        )
        assert listed.complete
        assert not listed.problems
        self._records = listed.items
        self._nodes = tuple(_node(one) for one in json.loads(nodes_json(count, gone=stale)))

    def poll(self, number: int) -> Poll:
        """Poll `number`: every live node has pinged since the one before.

        As from an adapter, nothing is shared with another poll: not an object, not a string.
        """
        began = BOOT + number * POLL_S
        pinged = tuple(
            one if index < self._stale else _pinged(one, number * POLL_S, f"{5 + number}")
            for index, one in enumerate(self._records)
        )
        records, nodes = pickle.loads(pickle.dumps((pinged, self._nodes)))
        return Poll(
            Listing(nodes, began + 1.5, began + 3.0),
            Listing(records, began, began + 1.0),
            began + 3.0,
        )

    def little_after(self, before: Poll, number: int) -> Poll:
        """Poll `number`, since the one `before` which one node in CHANGED_EVERY has pinged.

        As from an adapter, what did not change is the same object.
        """
        poll = self.poll(number)
        records = tuple(
            new if index % CHANGED_EVERY == 0 else old
            for index, (old, new) in enumerate(
                zip(before.records.items, poll.records.items, strict=True)
            )
        )
        return replace(
            poll,
            cloud=replace(poll.cloud, items=before.cloud.items),
            records=replace(poll.records, items=records),
        )


def _pinged(record: Record, later_s: float, version: str) -> Record:
    assert record.last_ping_at is not None
    at = record.last_ping_at + later_s
    return replace(record, last_ping_at=at, modified_at=at, version=version)


def _node(one: dict[str, Any]) -> CloudNode:
    tags = one["tags"]
    return CloudNode(
        id=one["id"],
        name=one["name"],
        state=CloudState(one["state"]),
        size=one["size"],
        created_at=one["created_at"],
        tags=Tags(
            tags["nodemanager-pool"],
            tags["nodemanager-record"],
            tags["nodemanager-incarnation"],
        ),
        addresses=(*one["public_ips"], *one["private_ips"]),
    )
