"""Which life of a record had which slot, hostname and node, told from the listings of a journal.

A record lives more than once: each claim begins a life, with a slot and a node of its own, and what
happened to a node is told by what it had then. Only those columns of a recorded listing are looked
at, as they stand: to make all its records and nodes of it again would take a hundred times as long.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from nodemanager.core.naming import Named, Thing, resolve
from nodemanager.journal.opened import opened, told_as_damage, unpacked

Data = Mapping[str, Any]
_NEW = -1


@dataclass(slots=True, eq=False)
class Life:
    """One life of a record: what it has, and what it had last, for a clean takes all from it.

    `was_listed` says that a record listing has shown it. It `is_over` once one shows the record
    empty.
    """

    record: str | None = None
    incarnation: str | None = None
    node: str | None = None
    slot: int | None = None
    host: str | None = None
    last_slot: int | None = None
    last_host: str | None = None
    was_listed: bool = False
    is_over: bool = False

    def has(self, slot: int | None, host: str | None) -> None:
        self.slot, self.host = slot, host
        self.last_slot = self.last_slot if slot is None else slot
        self.last_host = host or self.last_host


class _Columns:
    """The ids of one source's newest complete listing, in their order, and some columns of it."""

    def __init__(self, id_field: str, fields: tuple[str, ...]) -> None:
        self._id_field = id_field
        self._fields = fields
        self._ids: list[str] = []
        self._rows: dict[str, dict[str, Any]] = {}

    def forget(self) -> None:
        self._ids = []

    def take(self, data: Data) -> Iterator[tuple[str, dict[str, Any]]]:
        """The id of each that is new or changed in this listing, with all its columns.

        An incomplete one is no ground for the next, and what it shows will be shown again.
        """
        if "partial" in data:
            return
        new = data.get("new", {})
        new_ids: list[str] = new.get(self._id_field, [])
        fresh = iter(new_ids)
        ids: list[str] = []
        kept: list[str] = []
        for start, count in data.get("from", [[0, len(self._ids)]]):
            if start == _NEW:
                ids.extend(next(fresh) for _ in range(count))
            else:
                kept.extend(self._ids[start : start + count])
                ids.extend(self._ids[start : start + count])
        touched: dict[str, None] = dict.fromkeys(new_ids)
        for place, id in enumerate(new_ids):
            self._rows[id] = {
                field: new[field][place] if field in new else None for field in self._fields
            }
        for field in self._fields:
            gaps, values = data.get("changed", {}).get(field, ((), ()))
            number = -1
            for gap, value in zip(gaps, values, strict=True):
                number += gap
                self._rows[kept[number]][field] = value
                touched[kept[number]] = None
        self._ids = ids
        for id in touched:
            yield id, self._rows[id]


class Names:
    """All that the listings so far tell of who is, or was, whose."""

    def __init__(self) -> None:
        self._records = _Columns("uuid", ("claim", "slot_number", "hostname", "instance_id"))
        self._nodes = _Columns("id", ("name", "tags"))
        self._lives: dict[str, Life] = {}
        self._of_record: dict[str, Life] = {}
        self._of_node: dict[str, Life] = {}
        self._node_names: dict[str, str] = {}

    def start(self, state: Data) -> None:
        """Begin from the state that a segment starts with (journal.states)."""
        history = state["history"]
        self._records.forget()
        self._nodes.forget()
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
        for uuid, row in self._records.take(listing):
            slot, host, node = row["slot_number"], row["hostname"], row["instance_id"]
            incarnation = (row["claim"] or {}).get("incarnation")
            if slot is None and host is None and node is None and incarnation is None:
                life = self._of_record.setdefault(uuid, Life(uuid))
                # One that was only begun is not shown by a listing from before its claim.
                life.is_over = life.is_over or life.was_listed or life.incarnation is None
                if life.is_over:
                    life.has(None, None)
                continue
            life = self._listed_life(uuid, incarnation, node)
            life.was_listed, life.is_over = True, False
            life.has(slot, host)
            if node is not None and (incarnation is None or life.node is None):
                self._belongs(node, life)

    def _listed_life(self, uuid: str, incarnation: str | None, node: str | None) -> Life:
        """The life that a record is in by its listing."""
        life = self._of_record.get(uuid)
        if incarnation is not None and incarnation in self._lives:
            life = self._lives[incarnation]
        elif life is None or life.is_over or life.incarnation != incarnation:
            # An adopted record gets a claim, and lives on.
            if life is None or life.is_over or life.incarnation is not None:
                life = Life(uuid)
        elif incarnation is None and node is not None and life.node not in (None, node):
            life = Life(uuid)
        self._of_record[uuid] = life
        life.record, life.incarnation = uuid, incarnation
        if incarnation is not None:
            self._lives[incarnation] = life
        return life

    def nodes_listed(self, listing: Data) -> None:
        for node, row in self._nodes.take(listing):
            self._node_names[node] = row["name"] or node
            tags = row["tags"] or {}
            record = tags.get("record")
            if record is not None:
                self._belongs(node, self._tagged_life(record, tags.get("incarnation")))

    def _tagged_life(self, record: str, incarnation: str | None) -> Life:
        """The life that a node was created for, by its tags."""
        if incarnation is None:
            return self._of_record.setdefault(record, Life(record))
        life = self._lives.get(incarnation)
        if life is None:
            life = self._lives[incarnation] = Life(record, incarnation)
            self._of_record.setdefault(record, life)
        return life

    def _belongs(self, node: str, life: Life) -> None:
        life.node = node
        self._of_node[node] = life

    def begins(self, incarnation: str | None, record: str | None, node: str | None) -> None:
        """A set-up's life: of a record that is claimed, or was, for a node, which may be there."""
        if incarnation is not None:
            life = self._lives.setdefault(incarnation, Life(None, incarnation))
        else:
            life = self._of_record.get(record or "") or Life()
        if record is not None:
            life.record = record
            self._of_record[record] = life
        if node is not None:
            self._belongs(node, life)

    def life(
        self, record: str | None = None, node: str | None = None, incarnation: str | None = None
    ) -> Life:
        """That incarnation's, or else that node's, or else the newest of that record."""
        for lives, key in (
            (self._lives, incarnation),
            (self._of_node, node),
            (self._of_record, record),
        ):
            if key is not None and key in lives:
                return lives[key]
        return Life(record, node=node)

    def find(self, given: str) -> Named:
        """Whom that names now, or else named last. Raises core.naming's errors."""
        now = [*self._of_record.values()]
        with_life = {one.node for one in now}
        things = [self._thing(one) for one in now]
        things += [
            Thing(node=node, node_is_listed=True, name=name)
            for node, name in self._node_names.items()
            if node not in with_life and node not in self._of_node
        ]
        of_now = set(map(id, now))
        past = [one for one in self._of_node.values() if id(one) not in of_now]
        return resolve(given, things, [self._thing(one) for one in reversed(past)])

    def _thing(self, life: Life) -> Thing:
        name = self._node_names.get(life.node or "")
        is_listed = life.node is not None
        return Thing(life.record, life.node, is_listed, life.last_host, life.last_slot, name)

    def record_of(self, node: str) -> str | None:
        life = self._of_node.get(node)
        return None if life is None else life.record

    def aliases(self, life: Life, record: str | None, node: str | None) -> Iterator[str]:
        """All that an operator may call them, and what they are paired with, or were last."""
        for name in (record, life.record, node, life.node, life.last_host):
            if name is not None:
                yield name
        if life.last_slot is not None:
            yield str(life.last_slot)
        for one in (node, life.node):
            if one is not None and one in self._node_names:
                yield self._node_names[one]

    @property
    def all(self) -> frozenset[str]:
        """Every name that is known: what a word that is typed may become."""
        found = {*self._node_names, *self._node_names.values()}
        for life in (*self._of_record.values(), *self._of_node.values(), *self._lives.values()):
            slot = life.last_slot
            found |= {life.record or "", life.node or "", life.last_host or ""}
            found.add("" if slot is None else str(slot))
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
