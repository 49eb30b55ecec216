"""What recorded facts add up to, as JSON, for the start of a segment of the journal.

What follows from a listing alone (which node has which record's tag) is computed again from it, and
the rest of a State is in each decision's snapshot.
"""

from __future__ import annotations

import dataclasses
import typing

from nodemanager.core.execute.state import State
from nodemanager.core.model.breaker import Breaker
from nodemanager.core.model.settings import Settings
from nodemanager.core.model.world import Job
from nodemanager.core.observe.history import History, Records
from nodemanager.core.observe.nodes_by_record import index_nodes
from nodemanager.core.replay.fold import Start
from nodemanager.journal.codec import codec_of
from nodemanager.journal.listings import NODES, RECORDS
from nodemanager.lib.logline import Json

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
