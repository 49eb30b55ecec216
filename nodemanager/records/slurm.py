"""Our own records of Slurm's CLOUD nodes, one for each and named by it (records/api.py).

The records are rows of the registry's database, so claims and cleans are compare-and-set. Slurm
gives the names and tells which slurmds live: each listing relays that to the records, as pings
would, in one transaction. It keeps nothing of ours.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from typing import Any, NamedTuple

import sqlalchemy as sa

from nodemanager import errors
from nodemanager.core.model.scheduling import SEAT_SIZE, seat_of
from nodemanager.core.model.world import Claim, Guarantee, LatePing, Listed, Record, StoreTime
from nodemanager.lib.clock import Clock
from nodemanager.records import freed, rows, seats
from nodemanager.records.schema import nodes
from nodemanager.records.slurm_nodes import Controller, SlurmNode, SlurmNodes
from nodemanager.records.sql import SqlRecordStore
from nodemanager.sql.fence import Fence

PREFIX = "slurm"
_ALPHABET = "0123456789abcdefghijklmnopqrstuvwxyz"
_SECOND_NS = 10**9


class _Seen(NamedTuple):
    """When slurmctld was asked, and what time it is, both on the store's clock.

    No sign of life in its answer is newer than the question.
    """

    ns: int
    now_ns: int

    def is_late(self, row: rows.Row) -> bool:
        """Whether another manager has relayed a newer answer; a stamp to come is no such one."""
        last = row["last_ping_at"]
        return last is not None and self.ns < last <= self.now_ns


class SlurmRecordStore:
    """The rows of `sql`, one for each CLOUD node that `slurm` has ever told of.

    While slurmctld is out of reach, rows are listed and nothing is relayed: `probe` then says that
    nobody is heard, so that it is no silence (D8). A claim or a clean asks it once more.
    """

    provider = "slurm"
    guarantee = Guarantee.CAS
    may_authorise = True
    settle_wait = 0.0
    tells_drain = False

    def __init__(self, sql: SqlRecordStore, slurm: SlurmNodes, clock: Clock) -> None:
        self._sql, self._slurm, self._clock = sql, slurm, clock
        self._relayed_ns: int | None = None
        """When all seats were looked at last, on the store's clock."""

    def under(self, fence: Fence) -> SlurmRecordStore:
        """The same store for one holder of the lease: a newer one's token ends its writes (L6)."""
        return SlurmRecordStore(self._sql.under(fence), self._slurm, self._clock)

    def store_id(self) -> str:
        return self._sql.store_id()

    def slots(self) -> int | None:
        """How many seats there are; one that slurm.conf has no more is among them."""
        with self._sql.db.reading() as connection:
            return connection.scalar(sa.select(sa.func.count()).select_from(nodes))

    def store_time(self, *, writes: bool = True) -> StoreTime:
        return self._sql.store_time(writes=writes)

    def list_records(self) -> Listed[Record]:
        """Every seat's record, after slurmctld's news was relayed to them in one transaction.

        Raises StoreError where there is no record yet and slurmctld tells of no node, and for a
        database of other records, or of another cluster.
        """
        asked_at = self._clock.boottime()
        try:
            controller, found = self._slurm.controller(), self._slurm.all()
        except errors.StoreError as error:
            return self._listed_alone(error)
        with self._sql.db.writing(allots=True) as connection:
            seen = self._seen_at(connection, asked_at)
            known = _by_name(rows.all_to_write(connection), controller.cluster)
            if not known and not found:
                raise errors.StoreError("slurm.conf has no node with State=CLOUD")
            self._add(
                connection, [one for one in found if one.name not in known], known, controller
            )
            self._relay(connection, ((known[one.name], one) for one in found), controller, seen)
            listed = self._sql.listed(connection)
        self._relayed_ns = seen.ns
        return listed

    def _listed_alone(self, error: errors.StoreError) -> Listed[Record]:
        listed = self._sql.list_records()
        if not listed.items:
            raise error
        problem = f"slurmctld tells of no node's life: {error}"
        return Listed(listed.items, listed.complete, (*listed.problems, problem))

    def read(self, uuid: str) -> Record | None:
        """The current record; a slurmd of this life that has come since the last listing shows."""
        record = self._sql.read(uuid)
        if record is None or record.claim is None:
            return record
        asked_at = self._clock.boottime()
        try:
            node = self._slurm.one(_seat(record))
        except errors.StoreError:
            return record
        with self._sql.db.writing() as connection:
            row = rows.find(connection, uuid, to_write=True)
            if row is None or node is None:
                return self._sql.read(uuid)
            if seats.is_unheard(row, node, self._relayed_ns):
                seen = self._seen_at(connection, asked_at).ns
                change = (row, _pinged(row, seats.news(row, node).values, seen))
                (row,) = rows.change_all(connection, [change], seen)
            return rows.record_of(row)

    def create(self, claim: Claim) -> Record:
        """Claim a free seat of the claim's size: this store's records are made in slurm.conf."""
        with errors.before_writing():
            listed = sorted(self.list_records().items, key=_slot_of)
        for record in listed:
            if record.incarnation == claim.incarnation:
                return record
        for record in listed:
            sizes = record.properties.get(SEAT_SIZE) or ()
            fits = not sizes or claim.size in sizes
            fits = fits and record.pool in (None, claim.pool)
            if fits and not record.holds_anything and not record.problems:
                return self.claim(record, claim)
        raise errors.NoFreeSlot(f"no CLOUD node of Slurm is free for size {claim.size}")

    def claim(self, record: Record, claim: Claim) -> Record:
        """As the registry's. A new life begins with what slurmctld knows of the seat right now.

        Raises Conflict for a seat that is neither switched off nor powered up by Slurm.
        """
        if record.incarnation == claim.incarnation:
            return self._sql.claim(record, claim)
        with errors.before_writing():
            node = self._asked(record)
        with self._sql.db.writing(allots=True) as connection:
            row = rows.get_at(connection, record)
            if not record.holds_anything and not node.may_come:
                raise errors.Conflict(f"{node.name} is {'+'.join(sorted(node.words))} in Slurm")
            known = seats.at_claim(row, node).info
            return rows.record_of(self._sql.claimed(connection, record, claim, known))

    def clean(self, record: Record, reason: str) -> Record:
        """As the registry's. Raises Conflict where a slurmd of this life has come meanwhile."""
        name = _seat(record)
        with errors.before_writing():
            node = None if record.claim is None else self._slurm.one(name)
        with self._sql.db.writing() as connection:
            row = rows.get_at(connection, record)
            if node is not None and seats.is_unheard(row, node, self._relayed_ns):
                raise errors.Conflict(f"a slurmd has registered as {node.name}")
            return rows.record_of(self._sql.cleaned(connection, record, reason))

    def restore(self, record: Record, before: Record) -> Record:
        return self._sql.restore(record, before)

    def delete(self, record: Record) -> None:
        raise errors.StoreRefused("the records of this store are the nodes of slurm.conf")

    def fence(self, record: Record) -> Record:
        raise errors.StoreRefused("a store that compares and sets needs no fence")

    def unfence(self, record: Record, ping_secret: str | None) -> Record | None:
        raise errors.StoreRefused("a store that compares and sets needs no fence")

    def drain(self, record: Record, *, on: bool) -> Record:
        raise errors.StoreRefused("nodes of this store send no pings: the scheduler drains them")

    def late_pings(self) -> tuple[LatePing, ...]:
        """The lives whose slurmd Slurm still heard after their clean."""
        return self._sql.late_pings()

    def ping_url(self, record: Record) -> str:
        """What takes the ping URL's place in user data: the name that its slurmd must have."""
        if record.claim is None or record.hostname is None:
            raise errors.StoreRefused(f"record {record.uuid} is not claimed")
        return record.hostname

    def probe(self) -> bool:
        """Whether slurmctld answers, and has run for long enough to know who lives (D8)."""
        try:
            return not self._slurm.controller().has_just_started
        except errors.StoreError:
            return False

    def close(self) -> None:
        self._sql.close()

    def _asked(self, record: Record) -> SlurmNode:
        name = _seat(record)
        node = self._slurm.one(name)
        if node is None:
            raise errors.StoreRefused(f"slurm.conf has no CLOUD node {name}")
        return node

    def _seen_at(self, connection: sa.Connection, asked_at: float) -> _Seen:
        passed_s = max(0.0, self._clock.boottime() - asked_at)
        now = self._sql.db.now_ns(connection)
        return _Seen(now - round(passed_s * _SECOND_NS), now)

    def _add(
        self,
        connection: sa.Connection,
        new: Iterable[SlurmNode],
        known: dict[str, rows.Row],
        controller: Controller,
    ) -> None:
        """A record for each new seat, with the next slot that none ever had."""
        slots = [own[0] for row in known.values() if (own := seats.own_slot(row)) is not None]
        last = max(slots, default=0)
        for slot, node in enumerate(new, last + 1):
            binding = seats.bound(node.name, node.sizes, slot, controller.cluster)
            values = {"uuid": uuid_of(controller.cluster, node.name), "properties": binding}
            row = rows.insert(self._sql.db, connection, self._sql.naming, values)
            known[node.name] = row

    def _relay(
        self,
        connection: sa.Connection,
        nodes: Iterable[tuple[rows.Row, SlurmNode]],
        controller: Controller,
        seen: _Seen,
    ) -> None:
        """Write what each node says to its record, as a ping only where it is a sign of life."""
        signs: list[tuple[rows.Row, rows.Row]] = []
        for row, node in nodes:
            said = seats.news(row, node)
            values = dict(said.values)
            properties = seats.with_sizes(row["properties"], node.sizes)
            if properties != row["properties"]:
                values["properties"] = properties
            if said.lives_on:
                heard_ns = seen.ns - round(controller.slurmd_timeout * _SECOND_NS)
                freed.heard(connection, row["uuid"], heard_ns, node.address)
            if said.lives and not seen.is_late(row):
                signs.append((row, _pinged(row, values, seen.ns)))
            elif values:
                rows.change(self._sql.db, connection, row, values)
        rows.change_all(connection, signs, seen.ns)


def _pinged(row: rows.Row, values: rows.Row, seen_ns: int) -> dict[str, Any]:
    """The columns that a sign of life writes, besides its time."""
    first = {} if row["first_ping_at"] is not None else {"first_ping_at": seen_ns}
    return {**values, **first}


def _by_name(found: Iterable[rows.Row], cluster: str) -> dict[str, rows.Row]:
    """The rows by their seats' names. Raises StoreError for a row that is no seat of `cluster`."""
    known = {}
    for row in found:
        own = seats.own_slot(row)
        if own is None:
            raise errors.StoreError(
                f"record {row['uuid']} is of no node of Slurm: give [Registry] database a database "
                "of its own"
            )
        its = row["properties"].get(seats.SEAT_CLUSTER)
        if its != cluster:
            raise errors.StoreError(
                f"the database has the nodes of cluster {its}, slurmctld those of {cluster}: give "
                "[Registry] database one of its own"
            )
        known[own[1]] = row
    return known


def _slot_of(record: Record) -> int:
    slot = record.properties.get(seats.SEAT_SLOT)
    return slot if isinstance(slot, int) else 0


def _seat(record: Record) -> str:
    name = seat_of(record)
    if name is None:
        raise errors.NoSuchRecord(f"record {record.uuid} is of no node of Slurm")
    return name


def uuid_of(cluster: str, name: str) -> str:
    """The uuid of the record that is that node of that cluster, always the same."""
    digest = hashlib.blake2b(f"{cluster}/{name}".encode(), digest_size=16).digest()
    number, letters = int.from_bytes(digest, "big"), ""
    for _ in range(15):
        number, rest = divmod(number, 36)
        letters += _ALPHABET[rest]
    return f"{PREFIX}-7ekkf-{letters}"
