"""States and snapshots as JSON: of a segment's start in whole, of a decision as its changes.

A segment of the journal starts with what the recorded facts before it add up to.

What follows from a listing alone (which node has which record's tag) is computed again from it, and
the rest of a State is in each decision's snapshot.
"""

from __future__ import annotations

import dataclasses
import typing
from collections.abc import Mapping
from typing import Any

from nodemanager.core.execute.state import State
from nodemanager.core.model.breaker import Breaker
from nodemanager.core.model.settings import Settings
from nodemanager.core.model.world import Job
from nodemanager.core.observe.history import History, Records
from nodemanager.core.observe.nodes_by_record import index_nodes
from nodemanager.core.observe.snapshot import Snapshot
from nodemanager.core.replay.fold import Start
from nodemanager.journal.codec import codec_of
from nodemanager.journal.listings import NODES, RECORDS
from nodemanager.lib.logline import Json

_OWN = ("plan_id", "now", "wall")
"""Fields that differ every time."""
_SNAPSHOT_HINTS = typing.get_type_hints(Snapshot)
_CODECS = {
    one.name: codec_of(_SNAPSHOT_HINTS[one.name])
    for one in dataclasses.fields(Snapshot)
    if one.name not in (*_OWN, "history")
}
_MEMBERS = {
    name: codec_of(typing.get_args(_SNAPSHOT_HINTS[name])[1])
    for name in _CODECS
    if typing.get_origin(_SNAPSHOT_HINTS[name]) is not None
    and "Mapping" in str(_SNAPSHOT_HINTS[name])
}
BLANK = Snapshot("", 0.0, 0.0, History())
"""The snapshot that a segment's first decision is compared with."""


def encode_snapshot(before: Snapshot, snapshot: Snapshot) -> Json:
    """The changes from `before` to `snapshot`, without the history."""
    data: Json = {name: getattr(snapshot, name) for name in _OWN}
    for name, codec in _CODECS.items():
        was, now = getattr(before, name), getattr(snapshot, name)
        if was is now or (was == now and type(was) is type(now)):
            continue
        if name in _MEMBERS:
            data[name] = _mapping_change(was, now, _MEMBERS[name].encode)
        elif isinstance(now, frozenset):
            data[name] = {"+": sorted(now - was), "-": sorted(was - now)}
        else:
            data[name] = codec.encode(now)
    return data


def decode_snapshot(before: Snapshot, data: Json) -> Snapshot:
    """The snapshot after those changes, with an empty history."""
    values: Json = {}
    for name, change in data.items():
        if name in _OWN:
            values[name] = change
            continue
        was = getattr(before, name)
        if name in _MEMBERS:
            decode = _MEMBERS[name].decode
            kept = {key: one for key, one in was.items() if key not in set(change["-"])}
            values[name] = kept | {key: decode(one) for key, one in change["+"].items()}
        elif isinstance(was, frozenset):
            values[name] = (was - frozenset(change["-"])) | frozenset(change["+"])
        else:
            values[name] = _CODECS[name].decode(change)
    return dataclasses.replace(before, **values)


def _mapping_change(was: Mapping[str, Any], now: Mapping[str, Any], encode: Any) -> Json:
    return {
        "+": {key: encode(one) for key, one in now.items() if key not in was or was[key] != one},
        "-": [key for key in was if key not in now],
    }


_LISTINGS = ("base", "pinned", "records")
_DERIVED = ("nodes_by_record", "present")
_HINTS = typing.get_type_hints(History)
_REST = {
    one.name: codec_of(_HINTS[one.name])
    for one in dataclasses.fields(History)
    if one.name not in ("cloud", *_LISTINGS, *_DERIVED)
}
_DEFAULT = History()
_DEMAND = codec_of(tuple[Job, ...] | None)


def encode_start(start: Start) -> Json:
    state = start.state
    return {
        "pool": start.pool,
        "run_id": start.run_id,
        "at": start.at,
        "wall": start.wall,
        "settings": codec_of(Settings).encode(start.settings),
        "history": encode_history(state.history),
        "breaker": codec_of(Breaker).encode(state.breaker),
        "demand": _DEMAND.encode(state.demand),
        "demand_at": state.demand_at,
        "slots": state.slots,
        "new_records": state.new_records,
    }


def decode_start(data: Json) -> Start:
    state = State(
        history=decode_history(data["history"]),
        breaker=codec_of(Breaker).decode(data["breaker"]),
        demand=_DEMAND.decode(data["demand"]),
        demand_at=data["demand_at"],
        slots=data["slots"],
        new_records=data["new_records"],
    )
    settings = codec_of(Settings).decode(data["settings"])
    return Start(data["pool"], settings, data["at"], data["wall"], state, data["run_id"])


def encode_history(history: History) -> Json:
    data: Json = {}
    if history.cloud is not None:
        data["cloud"] = NODES.encode(None, history.cloud)
    data |= _encode_listings(history)
    for name, codec in _REST.items():
        value = getattr(history, name)
        if value != getattr(_DEFAULT, name):
            data[name] = codec.encode(value)
    return data


def decode_history(data: Json) -> History:
    values: Json = {name: codec.decode(data[name]) for name, codec in _REST.items() if name in data}
    if "cloud" in data:
        values["cloud"] = NODES.decode(None, data["cloud"])
        values["nodes_by_record"], values["present"] = index_nodes(values["cloud"].items)[:2]
    values |= _decode_listings(data)
    return History(**values)


def _encode_listings(history: History) -> Json:
    """The record listings of a history, mostly one and the same: each once, as changes."""
    chain: list[Json] = []
    known: list[Records] = []
    names: Json = {}
    for name in _LISTINGS:
        listing = getattr(history, name)
        if listing is None:
            continue
        at = next((at for at, one in enumerate(known) if one is listing), None)
        if at is None:
            chain.append(RECORDS.encode(known[-1] if known else None, listing))
            known.append(listing)
            at = len(known) - 1
        names[name] = at
    return {"record_listings": chain, **names} if chain else {}


def _decode_listings(data: Json) -> Json:
    known: list[Records] = []
    for one in data.get("record_listings", ()):
        known.append(RECORDS.decode(known[-1] if known else None, one))
    return {name: known[data[name]] for name in _LISTINGS if name in data}
