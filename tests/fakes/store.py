"""A record store in memory."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Any, TypeVar

from nodemanager import errors
from nodemanager.core.model import world
from nodemanager.lib.clock import Clock
from nodemanager.records import wire
from nodemanager.records.pings import say_notice
from tests.fakes.script import Scripted

T = TypeVar("T")


class FakeStore(Scripted):
    """Holds the store port's text in memory. `skew` is how far its clock is ahead of ours.

    While it is `down`, no call and no ping gets through.
    """

    provider = "fake"

    def __init__(
        self,
        clock: Clock,
        *,
        pool: str = "pool",
        slots: Iterable[int] = range(1, 65),
        guarantee: world.Guarantee = world.Guarantee.CAS,
        store_id: str = "store-1",
    ) -> None:
        super().__init__()
        self.clock = clock
        self.pool = pool
        self.slot_numbers = tuple(slots)
        self.guarantee = guarantee
        self.settle_wait = 0.0 if guarantee is world.Guarantee.CAS else 30.0
        self.may_authorise = True
        self.id = store_id
        self.beats = 0
        self.skew = 0.0
        self.down = False
        self.tells_drain = guarantee is world.Guarantee.CAS
        self.tells_late_pings = guarantee is world.Guarantee.CAS
        self.rows: dict[str, world.Record] = {}
        self.freed: dict[tuple[str, str], world.LatePing] = {}
        self.late: dict[tuple[str, str], world.LatePing] = {}
        self._versions = itertools.count(1)
        self._uuids = itertools.count(1)

    # The port.

    def store_id(self) -> str:
        return self._call("store_id", lambda: self.id)

    def slots(self) -> int | None:
        return self._call("slots", lambda: len(self.slot_numbers))

    def store_time(self, *, writes: bool = True) -> world.StoreTime:
        return self._call(
            "store_time",
            lambda: world.StoreTime(self.now(), self.clock.boottime(), 0.001, self._beat(writes)),
            write="heartbeat" if writes else None,
        )

    def list_records(self) -> world.Listed[world.Record]:
        return self._call("list_records", lambda: world.Listed(tuple(self.rows.values())))

    def read(self, uuid: str) -> world.Record | None:
        return self._call("read", lambda: self.rows.get(uuid))

    def create(self, claim: world.Claim) -> world.Record:
        return self._call("create", lambda: self._create(claim), write=claim.node_name)

    def claim(self, record: world.Record, claim: world.Claim) -> world.Record:
        return self._call("claim", lambda: self._claim(record, claim), write=record.uuid)

    def clean(self, record: world.Record, reason: str) -> world.Record:
        return self._call("clean", lambda: self._clean(record), write=f"{record.uuid} {reason}")

    def restore(self, record: world.Record, before: world.Record) -> world.Record:
        return self._call("restore", lambda: self._restore(record, before), write=record.uuid)

    def delete(self, record: world.Record) -> None:
        self._call("delete", lambda: self._delete(record), write=f"delete {record.uuid}")

    def drain(self, record: world.Record, *, on: bool) -> world.Record:
        return self._call("drain", lambda: self._drain(record, on=on), write=f"drain {record.uuid}")

    def late_pings(self) -> tuple[world.LatePing, ...]:
        return self._call("late_pings", lambda: tuple(self.late.values()))

    def fence(self, record: world.Record) -> world.Record:
        return self._call("fence", lambda: self._fence(record), write=record.uuid)

    def unfence(self, record: world.Record, ping_secret: str | None) -> world.Record | None:
        return self._call(
            "unfence", lambda: self._unfence(record.uuid, ping_secret), write=record.uuid
        )

    def ping_url(self, record: world.Record) -> str:
        if record.ping_secret is None:
            raise errors.StoreRefused(f"{record.uuid} has no ping secret: it is not claimed")
        return f"fake://store/{record.uuid}?ping_secret={record.ping_secret}"

    def probe(self) -> bool:
        self.calls["probe"] += 1
        return not self.down

    def close(self) -> None:
        return

    def _beat(self, writes: bool) -> int:
        self.beats += writes
        return self.beats

    # What happens in it.

    def now(self) -> float:
        return self.clock.wall() + self.skew

    def ping(
        self,
        uuid: str,
        secret: str,
        *,
        instance_id: str | None = None,
        worker_state: world.WorkerState | None = None,
        address: str = "10.0.0.1",
        drain_hook: bool = False,
        drained: str | None = None,
        notice: Mapping[str, str] = MappingProxyType({}),
    ) -> str | None:
        """A node's ping, as the registry takes it: refused with another secret or instance.

        The order to drain that stands is its answer.
        """
        if self.down:
            raise errors.StoreError("connection refused")
        with self.lock:
            row = self.rows.get(uuid)
            if row is None or row.ping_secret is None or row.ping_secret != secret:
                life = self.freed.get((uuid, secret))
                if life is not None and self.tells_late_pings:
                    self.late[uuid, secret] = replace(
                        life, at=self.now(), instance_id=instance_id, address=address
                    )
                if row is None:
                    raise errors.NoSuchRecord(uuid)
                raise errors.StoreError("401: wrong ping secret")
            if row.instance_id not in (None, instance_id):
                raise errors.StoreError("422: another instance")
            now = self.now()
            self.write(
                uuid,
                first_ping_at=row.first_ping_at if row.first_ping_at is not None else now,
                last_ping_at=now,
                ip_address=row.ip_address or address,
                slot_number=row.slot_number if row.holds_slot else self.free_slot(),
                instance_id=instance_id,
                worker_state=worker_state,
                drain_hook=drain_hook,
                drained=drained if worker_state is world.WorkerState.IDLE else None,
                notice=_notice_after(row.notice, notice),
            )
            return self.rows[uuid].drain

    def add(self, *, quiet_for: float = 0.0, **fields: object) -> world.Record:
        """A record last written `quiet_for` seconds ago."""
        uuid = f"zzzzz-7ekkf-{next(self._uuids):015d}"
        record = world.Record(
            uuid=uuid,
            version=str(next(self._versions)),
            modified_at=self.now() - quiet_for,
            pool=self.pool,
            ping_secret=f"secret-of-{uuid}",
        )
        self.rows[uuid] = replace(record, **fields)  # type: ignore[arg-type]  # names of fields
        return self.rows[uuid]

    def add_leaked(self, slot: int | None, *, quiet_for: float, **fields: object) -> world.Record:
        """A record whose node pinged until `quiet_for` seconds ago and is gone."""
        stamp = self.now() - quiet_for
        given: dict[str, object] = {
            "slot_number": slot,
            "hostname": f"compute{slot}",
            "ip_address": "10.0.0.9",
            "first_ping_at": stamp - 3600,
            "last_ping_at": stamp,
            "instance_id": f"i-gone-{slot}",
        }
        return self.add(quiet_for=quiet_for, **(given | fields))

    def add_cleaned(self, *, quiet_for: float = 0.0) -> world.Record:
        return self.add(quiet_for=quiet_for, ping_secret=None)

    def write(self, uuid: str, **fields: object) -> world.Record:
        """Anybody's write: it moves the version and modified_at."""
        with self.lock:
            if uuid not in self.rows:
                raise errors.NoSuchRecord(uuid)
            self.rows[uuid] = replace(
                self.rows[uuid],
                version=str(next(self._versions)),
                modified_at=self.now(),
                **fields,  # type: ignore[arg-type]  # names of fields
            )
            return self.rows[uuid]

    def put(self, uuid: str, **fields: object) -> world.Record:
        """Make the record what it is from the start: nobody's write."""
        self.rows[uuid] = replace(self.rows[uuid], **fields)  # type: ignore[arg-type]  # fields
        return self.rows[uuid]

    def used_slots(self) -> list[int]:
        return sorted(row.slot_number for row in self.rows.values() if row.slot_number is not None)

    def _call(self, method: str, do: Callable[[], T], *, write: str | None = None) -> T:
        def unless_down() -> T:
            if self.down:
                raise errors.StoreError("connection refused")
            return do()

        return self._run(method, unless_down, write=None if self.down else write)

    def free_slot(self) -> int:
        taken = set(self.used_slots())
        for slot in self.slot_numbers:
            if slot not in taken:
                return slot
        raise errors.NoFreeSlot("every slot is held")

    def _create(self, claim: world.Claim) -> world.Record:
        for row in self.rows.values():
            if row.incarnation == claim.incarnation:
                return row
        slot = self.free_slot()
        return self.add(
            claim=claim,
            slot_number=slot,
            hostname=f"compute{slot}",
            pool=claim.pool,
            properties=wire.claimed({}, claim),
        )

    def _claim(self, record: world.Record, claim: world.Claim) -> world.Record:
        row = self._at_version(record)
        renewed = row.incarnation == claim.incarnation
        if row.problems or row.pool not in (None, claim.pool):
            raise errors.StoreRefused(f"{row.uuid} is not this pool's to claim")
        if row.holds_anything and not renewed:
            raise errors.StoreRefused(f"{row.uuid} still holds something")
        slot = row.slot_number if row.holds_slot else self.free_slot()
        said = (
            {} if renewed else {"drain": None, "drained": None, "drain_hook": False, "notice": None}
        )
        return self.write(
            row.uuid,
            **said,
            claim=claim,
            pool=claim.pool,
            properties=wire.claimed(row.properties, claim),
            slot_number=slot,
            hostname=f"compute{slot}",
            ping_secret=row.ping_secret if renewed else f"secret-{claim.incarnation}",
            instance_id=claim.node_id or row.instance_id,
        )

    def _clean(self, record: world.Record) -> world.Record:
        row = self._at_version(record)
        if row.ping_secret is not None:
            now = self.now()
            life = world.LatePing(row.uuid, row.incarnation, row.pool, freed_at=now, at=now)
            self.freed[row.uuid, row.ping_secret] = life
        free = world.Record(
            uuid=row.uuid,
            version=row.version,
            pool=row.pool,
            held=row.held,
            problems=row.problems,
            properties={wire.POOL: row.pool} if row.pool is not None else {},
        )
        return self.write(row.uuid, **_fields_of(free))

    def _restore(self, record: world.Record, before: world.Record) -> world.Record:
        row = self._at_version(record)
        if row.holds_anything or before.uuid != row.uuid or before.ping_secret is None:
            raise errors.StoreRefused(f"{row.uuid} can't be restored")
        if before.problems:
            raise errors.StoreRefused(f"what is known of {row.uuid} is not whole")
        others = [one for one in self.rows.values() if one.uuid != row.uuid]
        for other in others:
            if other.slot_number == before.slot_number is not None:
                raise errors.SlotTaken(f"slot {before.slot_number} is {other.uuid}'s by now")
        self.freed.pop((row.uuid, before.ping_secret), None)
        self.late.pop((row.uuid, before.ping_secret), None)
        fields = _fields_of(before)
        if any(other.ip_address == before.ip_address for other in others):
            fields["ip_address"] = None
        return self.write(row.uuid, **fields)

    def _drain(self, record: world.Record, *, on: bool) -> world.Record:
        if not self.tells_drain:
            raise errors.StoreRefused("its answers to pings tell a node nothing")
        row = self.rows.get(record.uuid)
        if row is None:
            raise errors.NoSuchRecord(record.uuid)
        if (row.incarnation, row.drain) != (record.incarnation, record.drain):
            raise errors.Conflict(f"{record.uuid} is another's, or was told otherwise")
        return self.put(row.uuid, drain=f"drain-{next(self._versions)}" if on else None)

    def _delete(self, record: world.Record) -> None:
        if self.guarantee is not world.Guarantee.CAS:
            raise errors.StoreRefused("only the registry deletes on a condition")
        if self._at_version(record).holds_anything:
            raise errors.StoreRefused(f"{record.uuid} holds something")
        del self.rows[record.uuid]

    def _fence(self, record: world.Record) -> world.Record:
        row = self._at_version(record)
        known = row.info.get("fenced_ping_secret") or row.ping_secret
        return self.write(
            record.uuid,
            ping_secret=f"fence-{next(self._versions)}",
            info={**row.info, "fenced_ping_secret": known},
            fenced=True,
        )

    def _unfence(self, uuid: str, ping_secret: str | None) -> world.Record | None:
        row = self.rows[uuid]
        info = dict(row.info)
        fenced = info.pop("fenced_ping_secret", None)
        known = fenced or ping_secret
        if known is None or (fenced is None and row.ping_secret == known):
            return None
        return self.write(uuid, ping_secret=known, info=info, fenced=False)

    def _at_version(self, record: world.Record) -> world.Record:
        row = self.rows.get(record.uuid)
        if row is None:
            raise errors.NoSuchRecord(record.uuid)
        if row.version != record.version:
            conflict = errors.Conflict(
                f"{record.uuid} is at {row.version}, not at {record.version}"
            )
            conflict.unsent = self.guarantee is world.Guarantee.FENCED
            raise conflict
        return row


def _fields_of(record: world.Record) -> dict[str, Any]:
    """What a write makes of a row: all but the stamps that each write has of its own."""
    own = ("uuid", "version", "modified_at")
    return {name: getattr(record, name) for name in world.Record.__slots__ if name not in own}


def _notice_after(
    before: world.CloudNotice | None, told: Mapping[str, str]
) -> world.CloudNotice | None:
    """What the record says of the cloud's taking the node after a ping that told that (D18)."""
    info: dict[str, Any] = {}
    if before is not None:
        info[wire.NOTICE] = before.why.value
        if before.at is not None:
            info[wire.NOTICE_AT] = wire.stamp(before.at)
    say_notice(info, told)
    return wire.notice_of(info)
