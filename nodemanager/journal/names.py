"""Which record had which slot, hostname and node, told from the listings of a journal.

Only those columns of a recorded listing are looked at, as they stand: to make all its records and
nodes of it again would take a hundred times as long.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from nodemanager.journal.opened import opened, told_as_damage, unpacked

Data = Mapping[str, Any]
_NEW = -1


@dataclass(slots=True)
class Known:
    """What a record has, and what it had last: a clean takes that from the record only."""

    slot: int | None = None
    host: str | None = None
    last_slot: int | None = None
    last_host: str | None = None
    node: str | None = None


class _Column:
    """The ids of one source's newest complete listing, in their order."""

    def __init__(self, id_field: str, fields: tuple[str, ...]) -> None:
        self._id_field = id_field
        self._fields = fields
        self.ids: list[str] = []
        self.fresh: list[str] = []
        """Those that this listing has and the one before it had not."""

    def take(self, data: Data) -> Iterator[tuple[str, str, Any]]:
        """The id, field and value of each that is new or changed in this listing.

        An incomplete one is no ground for the next, and what it shows will be shown again.
        """
        if "partial" in data:
            return
        new = data.get("new", {})
        new_ids = self.fresh = new.get(self._id_field, [])
        fresh = iter(new_ids)
        ids: list[str] = []
        kept: list[str] = []
        for start, count in data.get("from", [[0, len(self.ids)]]):
            if start == _NEW:
                ids.extend(next(fresh) for _ in range(count))
            else:
                kept.extend(self.ids[start : start + count])
                ids.extend(self.ids[start : start + count])
        for field in self._fields:
            for id, value in zip(new_ids, new.get(field, ()), strict=False):
                yield id, field, value
            gaps, values = data.get("changed", {}).get(field, ((), ()))
            number = -1
            for gap, value in zip(gaps, values, strict=True):
                number += gap
                yield kept[number], field, value
        self.ids = ids


class Names:
    """All that the listings so far tell of who is whose."""

    def __init__(self) -> None:
        self._records = _Column("uuid", ("slot_number", "hostname", "instance_id"))
        self._nodes = _Column("id", ("name", "tags"))
        self._known: dict[str, Known] = {}
        self._record_of: dict[str, str] = {}
        self._node_names: dict[str, str] = {}

    def start(self, state: Data) -> None:
        """Begin from the state that a segment starts with (journal.states)."""
        history = state["history"]
        self._records.ids, self._nodes.ids = [], []
        if "cloud" in history:
            self.nodes_listed(history["cloud"])
        newest = history.get("records")
        if newest is None:
            return
        for listing in history["record_listings"][: newest + 1]:
            self.records_listed(listing)

    def seen(self, fact: str, data: Any) -> None:
        """Take a recorded fact in, by the name of its class."""
        if fact == "CloudSeen":
            self.nodes_listed(data[0])
        elif fact == "RecordsSeen":
            self.records_listed(data[0])

    def records_listed(self, listing: Data) -> None:
        for uuid, field, value in self._records.take(listing):
            known = self._known.setdefault(uuid, Known())
            if field == "slot_number":
                known.slot = value
                known.last_slot = known.last_slot if value is None else value
            elif field == "hostname":
                known.host = value
                known.last_host = value or known.last_host
            elif value is not None:
                self.belongs(uuid, value)
        for uuid in self._records.fresh:
            self._known.setdefault(uuid, Known())

    def nodes_listed(self, listing: Data) -> None:
        for node, field, value in self._nodes.take(listing):
            if field == "name":
                self._node_names[node] = value
            elif value.get("record") is not None:
                self.belongs(value["record"], node)
        for node in self._nodes.fresh:
            self._node_names.setdefault(node, node)

    def belongs(self, record: str, node: str) -> None:
        """That record is, or was last, this node's."""
        self._known.setdefault(record, Known()).node = node
        self._record_of[node] = record

    def of_record(self, uuid: str) -> Known:
        return self._known.get(uuid, Known())

    def find(self, name: str) -> tuple[str | None, str | None]:
        """The record and the node that go by that id or name now; None for each that is not."""
        if name in self._known:
            return name, self._known[name].node
        for node in (name, *(id for id, one in self._node_names.items() if one == name)):
            if node in self._node_names:
                return self._record_of.get(node), node
        for uuid, known in self._known.items():
            if name in (known.host, str(known.slot)):
                return uuid, known.node
        return None, None

    def record_of(self, node: str) -> str | None:
        return self._record_of.get(node)

    def aliases(self, record: str | None, node: str | None) -> Iterator[str]:
        """All that an operator may call them, and what they are paired with, or were last."""
        if record is None and node is not None:
            record = self._record_of.get(node)
        known = Known() if record is None else self.of_record(record)
        for name in (record, node, known.last_host, known.node):
            if name is not None:
                yield name
        if known.last_slot is not None:
            yield str(known.last_slot)
        for one in (node, known.node):
            if one is not None and one in self._node_names:
                yield self._node_names[one]

    @property
    def all(self) -> frozenset[str]:
        """Every name that is known: what one that nothing bears may have been meant for."""
        found = {*self._known, *self._node_names, *self._node_names.values()}
        for known in self._known.values():
            slot = known.last_slot
            found |= {known.last_host or "", "" if slot is None else str(slot)}
        return frozenset(found - {""})


def names_in(path: Path) -> Names:
    """Those of the newest segments of the journal at `path`: of the last hours.

    Raises JournalError for what is no journal.
    """
    names = Names()
    with opened(path) as connection, told_as_damage(path):
        rows = connection.execute(
            "SELECT body FROM entries WHERE kind = 'start' ORDER BY seq DESC LIMIT 2"
        ).fetchall()
        for (body,) in reversed(rows):
            names.start(unpacked(body))
        rows = connection.execute(
            "SELECT body FROM entries WHERE kind = 'cycle'"
            " AND segment = (SELECT max(segment) FROM entries) ORDER BY seq"
        ).fetchall()
        for (body,) in rows:
            for name, data in unpacked(body)["facts"]:
                names.seen(name, data)
    return names
