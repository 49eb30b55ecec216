"""A row as the `nodes` resource shows it to an administrator, with derived fields."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from typing import Any

from nodemanager.records import wire

MINUTE_NS = 60 * 1_000_000_000
_BUSY = frozenset({"alloc", "comp", "mix", "drng"})


def view(row: Mapping[str, Any], now_ns: int) -> dict[str, Any]:
    """Every field of the resource. A malformed value is shown unchanged, never left out."""
    uuid = row["uuid"]
    administrator = f"{str(uuid)[:5]}-tpzed-000000000000000"
    return {
        "href": f"/nodes/{uuid}",
        "kind": "arvados#node",
        "etag": str(row["version"]),
        "uuid": uuid,
        "owner_uuid": administrator,
        "created_at": _stamp(row["created_at"]),
        "modified_by_client_uuid": None,
        "modified_by_user_uuid": administrator,
        "modified_at": _stamp(row["modified_at"]),
        "hostname": row["hostname"],
        "domain": row["domain"],
        "ip_address": row["ip_address"],
        "last_ping_at": _stamp(row["last_ping_at"]),
        "slot_number": row["slot_number"],
        "status": status(row, now_ns),
        "job_uuid": row["job_uuid"],
        "crunch_worker_state": crunch_worker_state(row),
        "properties": row["properties"],
        "first_ping_at": _stamp(row["first_ping_at"]),
        "info": row["info"],
        "nameservers": [],
    }


def status(row: Mapping[str, Any], now_ns: int) -> str:
    """pending, startup-fail, running or missing, by the record's age and its last ping."""
    last = row["last_ping_at"]
    if last is None:
        created = row["created_at"]
        young = isinstance(created, int) and now_ns - created <= 5 * MINUTE_NS
        return "pending" if young else "startup-fail"
    if isinstance(last, int) and now_ns - last <= 60 * MINUTE_NS:
        return "running"
    return "missing"


def crunch_worker_state(row: Mapping[str, Any]) -> str:
    """busy, idle or down, only by the slot and info.slurm_state."""
    info = row["info"]
    if row["slot_number"] is None or not isinstance(info, dict):
        return "down"
    said = info.get("slurm_state")
    if said == "idle":
        return "idle"
    return "busy" if isinstance(said, str) and said in _BUSY else "down"


def _stamp(nanoseconds: Any) -> Any:
    if not isinstance(nanoseconds, int):
        return nanoseconds
    try:
        return wire.stamp_ns(nanoseconds)
    except (OverflowError, ValueError):
        return str(nanoseconds)


FIELDS = tuple(view(defaultdict(lambda: None), 0))
"""The names of the fields, in this order."""
