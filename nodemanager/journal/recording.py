"""The recording of facts and decisions as rows of `entries`, one row a decision, in segments.

A segment begins with the whole state that its first fact is folded into. A failed write leaves no
gap in a segment: the next row begins a new one.
"""

from __future__ import annotations

import dataclasses
import typing
import zlib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, get_args

import sqlalchemy as sa

from nodemanager.core.execute.state import State
from nodemanager.core.model.breaker import Breaker
from nodemanager.core.model.settings import Settings
from nodemanager.core.model.world import Job
from nodemanager.core.observe.facts import (
    CloudSeen,
    DemandSeen,
    Fact,
    PollMissed,
    RecordsSeen,
    SchedulerSeen,
)
from nodemanager.core.observe.history import History, Nodes, Records
from nodemanager.core.observe.nodes_by_record import index_nodes
from nodemanager.core.observe.snapshot import Snapshot
from nodemanager.core.replay.fold import Decision, Start, after_decision, settings_after
from nodemanager.journal.codec import codec_of, to_text
from nodemanager.journal.listings import NODES, RECORDS
from nodemanager.journal.schema import entries
from nodemanager.journal.verdicts import Verdicts, encode_changes, verdict_changes
from nodemanager.lib import redact
from nodemanager.lib.logline import Json

# States and snapshots as JSON: of a segment's start in whole, of a decision as its changes.

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


SEGMENT_DECISIONS = 240
SEGMENT_S = 3600.0
START, CYCLE = "start", "cycle"
_LEVEL = 6
_ENTER = sa.insert(entries)
_BEGIN_SEGMENT = _ENTER.returning(entries.c.seq)
_NAME_SEGMENT = (
    sa.update(entries)
    .where(entries.c.seq == sa.bindparam("begun"))
    .values(segment=sa.bindparam("begun"))
)

FACTS: dict[str, type[Any]] = {one.__name__: one for one in get_args(Fact)}
"""The facts by name. They are written whole, but for listings, which are written as changes, and
for a queue that has not changed."""

QUEUED = frozenset({DemandSeen.__name__, SchedulerSeen.__name__})
"""The facts that have a queue."""


@dataclass
class Base:
    """The values that changes refer to; recorder and reader go through the same ones."""

    nodes: Nodes | None
    records: Records | None
    snapshot: Snapshot
    verdicts: Verdicts

    @classmethod
    def of(cls, start: Start) -> Base:
        state = start.state
        blank = replace(BLANK, demand=state.demand, demand_at=state.demand_at, slots=state.slots)
        return cls(state.history.cloud, state.history.records, blank, Verdicts())

    def took(self, fact: Fact) -> None:
        """Take a fact over: the next listing's changes refer to the newest complete one."""
        match fact:
            case CloudSeen(listing=listing):
                if listing.complete:
                    self.nodes = listing
            case RecordsSeen():
                if fact.listing.complete:
                    self.records = fact.listing
                self.snapshot = replace(self.snapshot, slots=fact.slots)
            case SchedulerSeen():
                asked_at = fact.asked_at
                self.snapshot = replace(self.snapshot, demand=fact.jobs, demand_at=asked_at)
            case DemandSeen():
                self.snapshot = replace(self.snapshot, demand=fact.jobs, demand_at=fact.started_at)
            case _:
                pass


class Recorder:
    """Turns facts and decisions into rows. Only one thread may use it at a time."""

    def __init__(self) -> None:
        self._start: Start | None = None
        self._base: Base | None = None
        self._settings: Settings | None = None
        self._facts: list[Fact] = []
        self._segment: int | None = None
        self._decisions = 0
        self._began_at = 0.0

    def begin(self, start: Start) -> None:
        """Set the state that the following facts and decisions start from."""
        self._facts.clear()
        self._start, self._base, self._settings = start, None, start.settings

    def note(self, fact: Fact) -> None:
        if self._settings is not None:
            self._facts.append(fact)

    def decided(self, decision: Decision) -> list[dict[str, Any]]:
        """The rows for this decision and the facts noted before it."""
        if self._start is None or self._settings is None:
            raise ValueError("a decision before `begin`")
        snapshot = decision.snapshot
        rows = []
        due = self._decisions >= SEGMENT_DECISIONS or snapshot.now - self._began_at > SEGMENT_S
        if self._base is None or due:
            rows.append(_row(START, self._start.at, self._start.wall, encode_start(self._start)))
            self._base = Base.of(self._start)
            self._segment, self._decisions, self._began_at = None, 0, snapshot.now
        facts = [self._encoded(fact, self._base) for fact in self._facts]
        self._facts.clear()
        verdicts = self._base.verdicts.then(decision.plan)
        changes = verdict_changes(self._base.verdicts, verdicts)
        body = {
            "facts": facts,
            "snapshot": encode_snapshot(self._base.snapshot, snapshot),
            "new_records": decision.new_records,
            "took_s": decision.took_s,
            "digest": verdicts.digest,
        }
        if decision.plan.aborted is not None:
            reason, measures, _ = decision.plan.aborted
            body["aborted"] = [reason.value, codec_of(Any).encode(measures)]
        row = _row(CYCLE, snapshot.now, snapshot.wall, body)
        if changes:
            row["verdicts"] = _packed(encode_changes(changes))
        rows.append(row)
        self._base.verdicts = verdicts
        self._base.snapshot = snapshot
        self._decisions += 1
        self._start = self._after_this(decision, self._settings)
        return rows

    def write(self, connection: sa.Connection, rows: list[dict[str, Any]]) -> None:
        for row in rows:
            if row["kind"] == START:
                begun = connection.execute(_BEGIN_SEGMENT, {**row, "segment": 0})
                self._segment = begun.scalar_one()
                connection.execute(_NAME_SEGMENT, {"begun": self._segment})
            else:
                connection.execute(_ENTER, {**row, "segment": self._segment})

    def lost(self) -> None:
        """Note that the rows could not be written: the next decision begins a new segment."""
        self._base = None

    def _after_this(self, decision: Decision, settings: Settings) -> Start:
        """The start of a segment that would begin after this decision."""
        snapshot = decision.snapshot
        assert self._start is not None
        state = after_decision(
            State(demand=snapshot.demand, demand_at=snapshot.demand_at, slots=snapshot.slots),
            decision.plan,
            snapshot.now,
            settings,
        )
        return Start(
            self._start.pool,
            settings,
            snapshot.now,
            snapshot.wall,
            state,
            self._start.run_id,
        )

    def _encoded(self, fact: Fact, base: Base) -> list[Any]:
        assert self._settings is not None
        self._settings = settings_after(self._settings, fact)
        data = encode_fact(fact, base)
        base.took(fact)
        return [type(fact).__name__, data]


def encode_fact(fact: Fact, base: Base) -> Any:
    """The fact as JSON values; listings as changes from `base`, and errors without secrets.

    A queue that is the same as that of `base` is left out.
    """
    match fact:
        case CloudSeen():
            return [NODES.encode(base.nodes, fact.listing), fact.account]
        case RecordsSeen():
            listing = RECORDS.encode(base.records, fact.listing)
            time = fact.store_time
            stamp = [time.at, time.boottime, time.error_s]
            return [listing, fact.store_id, stamp, fact.slots, fact.answered_at]
        case DemandSeen() | SchedulerSeen() if fact.jobs == base.snapshot.demand:
            # A long queue mostly waits: it is written when it changes.
            data = codec_of(type(fact)).encode(replace(fact, jobs=()))
            del data["jobs"]
            return data
        case PollMissed():
            fact = replace(fact, error=redact.text(fact.error))
        case _:
            pass
    return codec_of(type(fact)).encode(fact)


def _row(kind: str, boottime: float, wall: float, body: Any) -> dict[str, Any]:
    return {
        "kind": kind,
        "boottime": boottime,
        "wall": wall,
        "body": _packed(body),
        "verdicts": None,
    }


def _packed(data: Any) -> bytes:
    return zlib.compress(to_text(data).encode("ascii"), _LEVEL)
