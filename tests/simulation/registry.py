"""The simulated record API: the registry's rows and transactions, and the CAS store over them.

A row has the columns of the real table and is read by the real code, so that a record means here
what it means there; the transactions say again what records/sql.py and records/resource.py do.
"""

from __future__ import annotations

import string
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Any

from nodemanager.core.model.world import Claim, Guarantee, LatePing, Listed, Record, StoreTime
from nodemanager.errors import (
    Conflict,
    NoFreeSlot,
    NoSuchRecord,
    SlotTaken,
    StoreError,
    StoreRefused,
)
from nodemanager.lib.clock import Clock
from nodemanager.records import rows, seats, wire
from nodemanager.records.pings import WrongInstance, say_notice
from nodemanager.records.resource import KEEPS_ADDRESS_S
from nodemanager.records.schema import nodes
from tests.simulation.engine import EPOCH, Engine, SimClock
from tests.simulation.weather import Line

_BASE36 = string.digits + string.ascii_lowercase
HOSTNAME = "compute%(slot_number)d"
_COLUMNS = {column.name: None for column in nodes.columns}
Row = dict[str, Any]


class WrongSecret(StoreRefused):
    """A ping that does not bear the record's secret."""


Change = Callable[[Record | None, Record | None, str, str], None]
"""Told of each write: the record before and after, who wrote, and what it was."""


class Registry:
    """All records of all pools. `clock_error` is how wrong the store's clock is, in seconds."""

    def __init__(
        self,
        engine: Engine,
        *,
        slots: int,
        stampless_pings: bool = False,
        keeps_addresses: bool = True,
    ) -> None:
        self.engine = engine
        self.naming = rows.Naming(slots, HOSTNAME, "example.org", "zzzzz")
        self.store_id = "store-1"
        self.clock_error = 0.0
        self._drifts_since = self._drift = 0.0
        self.rows: dict[str, Row] = {}
        self.changed: list[Change] = []
        self.pinged: list[Callable[[Record, str], None]] = []
        self.passed: list[Callable[[str], None]] = []
        """Told of each record whose version stood still over a ping, when it is written to."""
        self.stampless_pings = stampless_pings
        self.keeps_addresses = keeps_addresses
        """As ours does; an Arvados server gives an address to whoever names it, and dates anew."""
        self._random = engine.random("registry")
        self.late_by = 0.0
        self._taken: deque[tuple[float, tuple[Record, ...]]] = deque(maxlen=60)
        self.aliases: dict[tuple[str, str], str] = {}
        """By uuid and what a manager calls a version, what it is called here."""
        self.shown: dict[str, Row] = {}
        """By uuid, the row that was last given such a name."""
        self._kept: dict[tuple[str, str], Row] = {}
        self._seen: dict[str, tuple[int, Record]] = {}
        self.freed: dict[tuple[str, str], LatePing] = {}
        """Lives that a clean ended, by uuid and secret, and `late` their newest pings (U8)."""
        self.late: dict[tuple[str, str], LatePing] = {}
        self.ended_as: dict[tuple[str, str | None], tuple[str | None, str]] = {}
        """By uuid and incarnation, which instance a freed life was known by, and why it ended."""
        self.beats = 0
        self.tokens: dict[str, int] = {}
        """By pool, the fencing token of the newest holder of its lease (L6)."""
        self.up = True
        self.asks_for_id = False
        """Its id is asked for over the network, and may not be answered."""

    # The clock.

    def now(self) -> float:
        drifted = (self.engine.now - self._drifts_since) * self._drift
        return EPOCH + self.engine.now + self.clock_error + drifted

    def drift(self, rate: float) -> None:
        """From now on the clock runs too fast by so many seconds a second."""
        now = self.engine.now
        self.clock_error += (now - self._drifts_since) * self._drift
        self._drifts_since, self._drift = now, rate

    def now_ns(self) -> int:
        return int(self.now() * 1e9)

    def heartbeat(self, by: str, *, writes: bool) -> tuple[float, int]:
        """The time, and the count of heartbeats with this one."""
        self.beats += writes
        if writes:
            for told in self.changed:
                told(None, None, by, "heartbeat")
        return self.now(), self.beats

    # Reading.

    def record(self, uuid: str) -> Record | None:
        row = self.rows.get(uuid)
        if row is None:
            return None
        seen = self._seen.get(uuid)
        if seen is None or seen[0] != row["version"]:
            self._kept[uuid, str(row["version"])] = row
            seen = (row["version"], rows.record_of(row))
            self._seen[uuid] = seen
        return seen[1]

    def version_of(self, record: Record) -> str:
        """What a manager's record is at here."""
        return self.aliases.get((record.uuid, record.version), record.version)

    def record_as(self, uuid: str, version: str) -> Record:
        """The record as it was at that version."""
        return rows.record_of(self._kept[uuid, version])

    def records(self) -> tuple[Record, ...]:
        found = (self.record(uuid) for uuid in sorted(self.rows))
        return tuple(record for record in found if record is not None)

    @property
    def is_swapped(self) -> bool:
        """Another database stands in its place."""
        return self.store_id != "store-1"

    def swap(self, rows: dict[str, Row], store_id: str) -> None:
        """Put another database in its place."""
        self.rows, self.store_id = rows, store_id
        self._taken.clear()
        self._seen.clear()
        self.freed.clear()
        self.late.clear()

    def listing(self) -> tuple[Record, ...]:
        """What a list call is answered with: what is so, or was a while ago."""
        taken = self._taken
        taken.append((self.engine.now, self.records()))
        if not self.late_by:
            return taken[-1][1]
        until = self.engine.now - self.late_by
        return next((records for at, records in reversed(taken) if at <= until), taken[0][1])

    def listing_rows(self) -> list[Row]:
        """The same, as rows."""
        shown = self.listing()
        if not self.late_by:
            return [self.rows[record.uuid] for record in shown]
        return [self._kept[record.uuid, record.version] for record in shown]

    def claimed_at(self, record: Record) -> float:
        """From when the claim counts that is written to the record just now (boottime)."""
        return self.engine.now

    # Writing.

    def new_secret(self) -> str:
        return f"{self._random.getrandbits(96):024x}"

    def insert(self, values: Mapping[str, Any], by: str, what: str, *, age: float = 0.0) -> Row:
        """A new row; one with an age is older than the world, and nobody is told of it."""
        now = self.now_ns() - int(age * 1e9)
        uuid = values.get("uuid") or self._new_uuid()
        row = {**_COLUMNS, "uuid": uuid, "domain": "example.org", "properties": {}, "info": {}}
        row |= values
        row |= {"version": 1, "created_at": now, "modified_at": now}
        row["info"] = self.with_secret(row["info"])
        self.rows[uuid] = row
        if not age:
            self._tell(None, self.record(uuid), by, what)
        return row

    def _new_uuid(self) -> str:
        return "zzzzz-7ekkf-" + "".join(self._random.choice(_BASE36) for _ in range(15))

    def change(
        self, row: Row, values: Mapping[str, Any], by: str, what: str, *, sign: bool = False
    ) -> Row:
        """Write what differs; the version moves with it, and with a sign of life."""
        changed = {name: value for name, value in values.items() if row[name] != value}
        if not changed and not sign:
            return row
        before = self.record(row["uuid"])
        if changed:
            changed["modified_at"] = self.now_ns()
        if not (what == "ping" and self.stampless_pings):
            changed["version"] = row["version"] + 1
        after = {**row, **changed}
        self.rows[row["uuid"]] = after
        if "version" not in changed:
            self._seen.pop(row["uuid"], None)
        self._tell(before, self.record(row["uuid"]), by, what)
        return after

    def delete(self, uuid: str, by: str) -> None:
        before = self.record(uuid)
        if self.rows.pop(uuid, None) is None:
            raise NoSuchRecord(f"no record {uuid}")
        self._seen.pop(uuid, None)
        self._tell(before, None, by, "delete")

    def _tell(self, before: Record | None, after: Record | None, by: str, what: str) -> None:
        for told in self.changed:
            told(before, after, by, what)

    def free(self, row: Row, reason: str, by: str) -> None:
        """A clean, whose life is remembered by its secret (U8)."""
        record = rows.record_of(row)
        if record.ping_secret is not None:
            now = self.now()
            life = LatePing(record.uuid, record.incarnation, record.pool, freed_at=now, at=now)
            self.freed[record.uuid, record.ping_secret] = life
            self.ended_as[record.uuid, record.incarnation] = (record.instance_id, reason)
        self.change(row, freed(row, reason), by, f"clean {reason}", sign=True)

    def restore(self, row: Row, before: Record, by: str) -> None:
        """Put a freed record back to what it was (U8)."""
        whole = before.uuid == row["uuid"] and before.ping_secret is not None
        if rows.record_of(row).holds_anything or before.problems or not whole:
            raise StoreRefused("it can't be restored")
        others = [other for other in self.rows.values() if other["uuid"] != row["uuid"]]
        for other in others:
            if other["slot_number"] == before.slot_number is not None:
                raise SlotTaken(f"slot {before.slot_number} is {other['uuid']}'s by now")
        taken = any(other["ip_address"] == before.ip_address for other in others)
        values = {
            "slot_number": before.slot_number,
            "hostname": before.hostname,
            "ip_address": None if taken else before.ip_address,
            "first_ping_at": _nanoseconds(before.first_ping_at),
            "last_ping_at": _nanoseconds(before.last_ping_at),
            "drain": before.drain,
            "properties": dict(before.properties),
            "info": {**before.info, wire.PING_SECRET: before.ping_secret},
        }
        self.change(row, values, by, "restore", sign=True)
        self.freed.pop((before.uuid, before.ping_secret), None)
        self.late.pop((before.uuid, before.ping_secret), None)

    def tell_drain(self, row: Row, *, on: bool) -> None:
        """The answers to its pings say so from now on; no version moves."""
        order = f"{self._random.getrandbits(64):016x}" if on else None
        self.rows[row["uuid"]] = {**row, "drain": order}
        self._seen.pop(row["uuid"], None)

    def with_secret(self, info: Mapping[str, Any]) -> dict[str, Any]:
        if info.get(wire.PING_SECRET):
            return dict(info)
        return {**info, wire.PING_SECRET: self.new_secret()}

    def free_slots(self) -> list[int]:
        held = {row["slot_number"] for row in self.rows.values()}
        return [slot for slot in range(1, self.naming.slots + 1) if slot not in held]

    def free_slot(self) -> int:
        free = self.free_slots()
        if not free:
            raise NoFreeSlot(f"all {self.naming.slots} slots are held")
        return free[0]

    def with_slot(self, row: Mapping[str, Any]) -> dict[str, Any]:
        held = row["slot_number"]
        if held is not None and held > 0:
            return {}
        own = seats.own_slot(row)
        if own is not None:
            return {"slot_number": own[0], "hostname": own[1]}
        slot = self.free_slot()
        named = row["hostname"] is not None
        return {"slot_number": slot} | ({} if named else {"hostname": self.naming.host(slot)})

    def ping(
        self,
        uuid: str,
        secret: str,
        *,
        instance: str | None,
        state: str | None,
        address: str,
        hook: bool = False,
        drained: str | None = None,
        notice: Mapping[str, str] = MappingProxyType({}),
    ) -> Record:
        """A node's ping; raises what it is refused with. `drain` of the record is its answer."""
        if not self.up:
            raise StoreError("503")
        row = self.rows.get(uuid)
        properties, info = ({}, {}) if row is None else rows.objects(row)
        known = info.get(wire.PING_SECRET)
        if row is None or not known or known != secret:
            life = self.freed.get((uuid, secret))
            if life is not None:
                late = replace(life, at=self.now(), instance_id=instance, address=address)
                self.late[uuid, secret] = late
            if row is None:
                raise NoSuchRecord(f"no record {uuid}")
            raise WrongSecret("this is not the record's ping_secret")
        bound = self.record(uuid)
        if bound is not None and bound.claim is not None and bound.claim.node_id is not None:
            info[wire.INSTANCE_ID] = bound.claim.node_id
        if instance is not None:
            before = info.setdefault(wire.INSTANCE_ID, None)
            if before is not None and before != instance:
                raise WrongInstance("this record is another instance_id's")
            info[wire.INSTANCE_ID] = instance
        info = {key: value for key, value in info.items() if key not in wire.STATE}
        say_notice(info, notice)
        info |= {} if state is None else {wire.WORKER_STATE: state}
        info |= {wire.DRAIN_HOOK: True} if hook else {}
        info |= {wire.DRAIN_ORDER: drained} if drained and state == wire.DRAINED else {}
        now = self.now_ns()
        values: dict[str, Any] = {"info": info, "properties": properties, "last_ping_at": now}
        if row["ip_address"] is None:
            values["ip_address"] = address
            if row["first_ping_at"] is None or not self.keeps_addresses:
                values["first_ping_at"] = now
            quiet_since = now - KEEPS_ADDRESS_S * 10**9
            for other in list(self.rows.values()):
                pings = self.keeps_addresses and (other["last_ping_at"] or 0) > quiet_since
                if other["ip_address"] == address and other["uuid"] != uuid and not pings:
                    self.change(other, {"ip_address": None}, "server", "take_address")
        row = self.change(row, values, f"secret {secret}", "ping", sign=True)
        row = self.change(row, self.with_slot(row), "server", "slot")
        record = self.record(uuid)
        assert record is not None
        for told in self.pinged:
            told(record, secret)
        return record


class CasStore:
    """The registry as a manager's record store: `compares` False breaks A4."""

    provider = "registry"
    guarantee = Guarantee.CAS
    may_authorise = True
    settle_wait = 0.0
    tells_drain = True

    def __init__(
        self,
        registry: Registry,
        line: Line,
        manager: str,
        listed: Any,
        *,
        clock: Clock | None = None,
    ) -> None:
        self._registry = registry
        self._line = line
        self._manager = manager
        self._listed = listed
        self._clock = clock or SimClock(registry.engine)
        self.alterations: list[Callable[[tuple[Record, ...]], Listed[Record]]] = listed.alterations

    def store_id(self) -> str:
        registry = self._registry
        if not registry.asks_for_id:
            return registry.store_id
        return self._line.call("id", lambda: registry.store_id)

    def slots(self) -> int | None:
        return self._registry.naming.slots

    def store_time(self, *, writes: bool = True) -> StoreTime:
        clock, registry = self._clock, self._registry
        before = clock.boottime()
        at, beats = self._line.call(
            "time", lambda: registry.heartbeat(self._manager, writes=writes)
        )
        after = clock.boottime()
        at += self._listed.clock_lie
        return StoreTime(at, (before + after) / 2, (after - before) / 2, beats)

    def list_records(self) -> Listed[Record]:
        return self._listed_by(self._registry.listing)

    def _listed_by(self, look: Callable[[], tuple[Record, ...]]) -> Listed[Record]:
        started_at = self._registry.engine.now
        listed = Listed(self._line.call("list", look))
        for alter in self.alterations:
            listed = alter(listed.items) if listed.complete else listed
        self._listed.tell(self._manager, started_at, self._registry.engine.now, listed)
        return listed

    def read(self, uuid: str) -> Record | None:
        return self._line.call("read", lambda: self._registry.record(uuid), uuid)

    def create(self, claim: Claim) -> Record:
        registry = self._registry

        def effect() -> Record:
            for row in registry.rows.values():
                known = registry.record(row["uuid"])
                if known is not None and known.incarnation == claim.incarnation:
                    return known
            slot = registry.free_slot()
            values = {
                "slot_number": slot,
                "hostname": registry.naming.host(slot),
                "properties": wire.claimed({}, claim),
            }
            row = registry.insert(values, self._manager, "create")
            return self._read(row["uuid"])

        return self._line.call("create", effect)

    def _read(self, uuid: str) -> Record:
        record = self._registry.record(uuid)
        assert record is not None
        return record

    def _row_at(self, record: Record) -> Row:
        row = self._registry.rows.get(record.uuid)
        if row is None:
            raise NoSuchRecord(f"no record {record.uuid}")
        if str(row["version"]) != record.version:
            raise Conflict(f"record {record.uuid} is at version {row['version']}")
        if self._read(record.uuid).last_ping_at != record.last_ping_at:
            for told in self._registry.passed:
                told(record.uuid)
        return row

    def claim(self, record: Record, claim: Claim) -> Record:
        return self._line.call("claim", lambda: self._claim(record, claim, {}), record.uuid)

    def _claim(self, record: Record, claim: Claim, more: Mapping[str, Any]) -> Record:
        registry = self._registry
        row = self._row_at(record)
        held = self._read(record.uuid)
        renewed = held.incarnation == claim.incarnation
        if held.problems or held.pool not in (None, claim.pool):
            raise StoreRefused("unfit")
        if held.holds_anything and not renewed:
            raise StoreRefused("it still holds something")
        properties, info = rows.objects(row)
        if not renewed:
            info[wire.PING_SECRET] = registry.new_secret()
            info = wire.without_word(info) | dict(more)
        if claim.node_id is not None:
            info[wire.INSTANCE_ID] = claim.node_id
        values = {
            "properties": wire.claimed(properties, claim),
            **({} if renewed else {"drain": None}),
            "info": registry.with_secret(info),
            **registry.with_slot(row),
        }
        registry.change(row, values, self._manager, "claim", sign=True)
        return self._read(record.uuid)

    def clean(self, record: Record, reason: str) -> Record:
        return self._line.call("clean", lambda: self._clean(record, reason), record.uuid)

    def _clean(self, record: Record, reason: str) -> Record:
        self._registry.free(self._row_at(record), reason, self._manager)
        return self._read(record.uuid)

    def restore(self, record: Record, before: Record) -> Record:
        registry = self._registry

        def effect() -> Record:
            registry.restore(self._row_at(record), before, self._manager)
            return self._read(record.uuid)

        return self._line.call("restore", effect, record.uuid)

    def delete(self, record: Record) -> None:
        registry = self._registry

        def effect() -> None:
            if self._read(self._row_at(record)["uuid"]).holds_anything:
                raise StoreRefused("it still holds something")
            registry.delete(record.uuid, self._manager)

        self._line.call("delete", effect, record.uuid)

    def drain(self, record: Record, *, on: bool) -> Record:
        registry = self._registry

        def effect() -> Record:
            row = registry.rows.get(record.uuid)
            if row is None:
                raise NoSuchRecord(f"no record {record.uuid}")
            held = self._read(record.uuid)
            if (held.incarnation, held.drain) != (record.incarnation, record.drain):
                raise Conflict("it is another's, or was told otherwise")
            registry.tell_drain(row, on=on)
            return self._read(record.uuid)

        return self._line.call("drain", effect, record.uuid)

    def late_pings(self) -> tuple[LatePing, ...]:
        """Asked of the server with each listing; nothing late is nothing that could get lost."""
        late = self._registry.late
        if not late:
            return ()
        return self._line.call("late", lambda: tuple(late.values()))

    def fence(self, record: Record) -> Record:
        raise AssertionError("a store that compares is never fenced")

    def unfence(self, record: Record, ping_secret: str | None) -> Record | None:
        raise AssertionError("a store that compares is never fenced")

    def ping_url(self, record: Record) -> str:
        return ping_url(record)

    def probe(self) -> bool:
        try:
            return self._line.call("probe", lambda: self._registry.up)
        except StoreError:
            return False

    def close(self) -> None:
        return


def ping_url(record: Record) -> str:
    """What a simulated node pings."""
    if record.ping_secret is None:
        raise StoreRefused(f"record {record.uuid} has no ping secret: it is not claimed")
    return f"{record.uuid}?{record.ping_secret}"


def _nanoseconds(seconds: float | None) -> int | None:
    return None if seconds is None else round(seconds * 1e9)


def freed(row: Row, reason: str) -> dict[str, Any]:
    """What one write of a clean sets (C12)."""
    properties, info = rows.objects(row)
    claim = properties.get(wire.CLAIM) or {}
    pool = properties.get(wire.POOL, claim.get("pool"))
    info.pop(wire.PING_SECRET, None)
    info |= {wire.INSTANCE_ID: None, wire.LAST_ACTION: reason}
    return {
        "slot_number": None,
        "hostname": None,
        "ip_address": None,
        "first_ping_at": None,
        "last_ping_at": None,
        "drain": None,
        "properties": {**seats.kept(properties), **({} if pool is None else {wire.POOL: pool})},
        "info": info,
    }
