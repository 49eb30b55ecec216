"""Finds the node or record that an operator names; every command uses this module.

A name is a record's uuid, a cloud node's id or name, a hostname, a slot, or the beginning of an id
if only one id begins so.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches

from nodemanager.core.model.scheduling import host_of
from nodemanager.core.model.world import CloudNode, Record
from nodemanager.core.observe.history import History
from nodemanager.core.observe.nodes_by_record import is_anothers
from nodemanager.core.observe.pairing import Pairs

SHORTEST_PREFIX = 4
"""A shorter text is a slot, or mistyped."""
MOST_NAMED = 5


class UnknownIdError(LookupError):
    """Nothing has that id or name. `near` are names that may be meant."""

    def __init__(self, message: str, near: tuple[str, ...] = ()) -> None:
        super().__init__(message)
        self.near = near


class AmbiguousIdError(UnknownIdError):
    """More than one thing has that name: `near` are their ids."""


@dataclass(frozen=True, slots=True)
class Named:
    """A node, a record, or both if they belong together. `id` is what a mark or hold is put on."""

    id: str
    node: str | None = None
    record: str | None = None
    host: str | None = field(default=None, compare=False)

    def called(self, id: str) -> str:
        """That id of it, behind the name that people know."""
        return id if self.host is None else f"{self.host} ({id})"


@dataclass(frozen=True, slots=True)
class Thing:
    """A node, a record or a pair, with its names.

    Unless `node_is_listed`, only a record remembers `node`. `host` and `slot` are the record's,
    `name` is what the cloud calls the node.
    """

    record: str | None = None
    node: str | None = None
    node_is_listed: bool = False
    host: str | None = None
    slot: int | None = None
    name: str | None = None

    @property
    def by_node(self) -> Named:
        return Named(self.node or self.record or "", self.node, self.record, self.host)

    @property
    def by_record(self) -> Named:
        return Named(self.record or self.node or "", self.node, self.record, self.host)

    def __str__(self) -> str:
        others = [self.host, None if self.slot is None else f"slot {self.slot}", self.node]
        names = ", ".join(one for one in others if one is not None and one != self.id)
        return f"{self.id} ({names})" if names else self.id

    @property
    def id(self) -> str:
        return self.record or self.node or ""

    def names(self) -> Iterator[str]:
        for name in (self.record, self.node, self.host, self.name):
            if name:
                yield name


def resolve(given: str, things: Sequence[Thing], past: Sequence[Thing] = ()) -> Named:
    """What `given` names among `things`, or else among those of the `past` (newest first).

    Ids go before hostnames, slots and nodes' names, and those before beginnings of ids.
    Raises AmbiguousIdError and UnknownIdError.
    """
    by_id = _by_id(given, things, past)
    if by_id is not None:
        return by_id
    hosts = [one for one in things if given == one.host or given == _shown(one.slot)]
    named = [one for one in things if given == one.name and one not in hosts]
    if hosts or named:
        return _only(given, [*hosts, *named], by_node=not hosts)
    for one in past:
        if one.host == given:
            return one.by_record
    for these in (things, past):
        begun = _begun(given, these)
        if begun:
            return _only(given, begun, by_node=all(not _begins(one.record, given) for one in begun))
    raise _unknown(given, (*things, *past))


def _by_id(given: str, things: Sequence[Thing], past: Sequence[Thing]) -> Named | None:
    """The record, listed node, or remembered node of that id; None if there is none."""
    for one in things:
        if one.record == given:
            return one.by_record
    for one in things:
        if one.node == given and one.node_is_listed:
            return one.by_node
    remembered = [one.by_node for one in things if one.node == given]
    if len(remembered) == 1:
        return remembered[0]
    for one in past:
        if one.node == given:
            return one.by_node
    return Named(given, given) if remembered else None


def _shown(slot: int | None) -> str | None:
    return None if slot is None else str(slot)


def _begun(given: str, things: Iterable[Thing]) -> list[Thing]:
    if len(given) < SHORTEST_PREFIX or given.isdecimal():
        return []
    return [one for one in things if _begins(one.record, given) or _begins(one.node, given)]


def _begins(id: str | None, given: str) -> bool:
    return id is not None and id.startswith(given)


def _only(given: str, found: Sequence[Thing], *, by_node: bool) -> Named:
    if len({one.id for one in found}) == 1:
        return found[0].by_node if by_node else found[0].by_record
    ids = tuple(sorted(one.id for one in found))
    named = ", ".join(str(one) for one in sorted(found, key=lambda one: one.id)[:MOST_NAMED])
    more = f" and {len(found) - MOST_NAMED} more" if len(found) > MOST_NAMED else ""
    raise AmbiguousIdError(f"{given} may be {named}{more}: say which, by its id", ids)


def _unknown(given: str, things: Sequence[Thing]) -> UnknownIdError:
    near = _near(given, things)
    hint = f"; near it: {', '.join(near)}" if near else ""
    return UnknownIdError(
        f"nothing goes by {given!r}: give a record's uuid, a node's id or name, a hostname, a slot "
        f"number, or the beginning of an id{hint}",
        near,
    )


def _near(given: str, things: Iterable[Thing]) -> tuple[str, ...]:
    if given.isdecimal():
        slots = {one.slot for one in things if one.slot is not None}
        return tuple(
            f"slot {slot}"
            for slot in sorted(slots, key=lambda slot: (abs(slot - int(given)), slot))[:MOST_NAMED]
        )
    names = list(dict.fromkeys(name for one in things for name in one.names()))
    near = get_close_matches(given, names, MOST_NAMED, 0.6)
    near += [one for one in names if given and (given in one or one in given)]
    return tuple(dict.fromkeys(near))[:MOST_NAMED]


# What a daemon knows.


@dataclass(frozen=True, slots=True)
class Known:
    """Everything that an operator may name, from the newest listings and what the daemon did.

    `others` are further ids that may be held: leftovers, and nodes that are expected or marked.
    """

    history: History
    pairs: Pairs
    others: frozenset[str] = frozenset()

    @property
    def is_complete(self) -> bool:
        """Whether both listings are there, so that an id that is missing is unknown."""
        return self.history.cloud is not None and self.history.records is not None

    @property
    def records(self) -> tuple[Record, ...]:
        return self.history.listed_records

    @property
    def nodes(self) -> tuple[CloudNode, ...]:
        return self.history.cloud.items if self.history.cloud is not None else ()

    def find(self, given: str) -> Named:
        """What `given` names. Raises AmbiguousIdError and UnknownIdError."""
        return resolve(given, tuple(self._things()), tuple(self._past()))

    def _things(self) -> Iterator[Thing]:
        remembering: dict[str, list[Record]] = {}
        for record in self.records:
            if record.instance_id is not None:
                remembering.setdefault(record.instance_id, []).append(record)
        paired: set[str] = set()
        for node in {one.id: one for one in self.nodes}.values():
            mine = self._record_of(node, remembering.get(node.id, ()))
            name = None if node.is_absent else node.name
            if mine is None or mine.uuid in paired:
                yield Thing(None, node.id, True, name=name)
            else:
                paired.add(mine.uuid)
                yield Thing(mine.uuid, node.id, True, host_of(mine), mine.slot_number, name)
        listed = {one.id for one in self.nodes}
        named = {*listed, *(one.uuid for one in self.records)}
        for record in self.records:
            if record.uuid not in paired:
                named.add(record.instance_id or record.uuid)
                yield Thing(
                    record.uuid,
                    None if record.instance_id in listed else record.instance_id,
                    host=host_of(record),
                    slot=record.slot_number,
                )
        # A record's pair may be another node than it remembers, which can be held all the same.
        for id in sorted(self.others - named - self._names()):
            yield Thing(node=id, node_is_listed=True)

    def _names(self) -> set[str | None]:
        """Hostnames and slots: a hold on one, as if it were an id, must not hide whose it is."""
        return {name for one in self.records for name in (host_of(one), _shown(one.slot_number))}

    def _record_of(self, node: CloudNode, naming: Sequence[Record]) -> Record | None:
        """The node's pair, or else the only record that names it and may be its own (P1a)."""
        mine = self.pairs.record_of.get(node.id)
        if mine is not None:
            return mine
        found = [one for one in naming if not is_anothers(node, one)]
        return found[0] if len(found) == 1 else None

    def _past(self) -> Iterator[Thing]:
        """Lives that we ended, newest first; without the record if it is used again."""
        free = {record.uuid for record in self.records if not record.holds_anything}
        for life in sorted(self.history.freed.values(), key=lambda one: -one.freed_at):
            record = life.record if life.record in free else None
            if record is not None or life.node_id is not None:
                yield Thing(record, life.node_id, host=life.hostname, slot=life.slot)
