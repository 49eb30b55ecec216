"""The log event of each verdict, and what happened lately: events, grouped by what and why."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from nodemanager.core.model.reasons import Event, Kind, Reason, is_flip
from nodemanager.core.model.world import Record

CLEANED, LIFTED, EXPIRED = "cleaned", "lifted", "expired"
"""Outcomes of cleans that are no reason codes."""


def record_fields(record: Record | None, uuid: str) -> dict[str, Any]:
    if record is None:
        return {"record": uuid}
    return {"record": uuid, "slot": record.slot_number, "host": record.hostname}


def event_of_record(kind: Kind) -> Event:
    if kind is Kind.CLEAN:
        return Event.RECORD_CLEAN
    return Event.RECORD_KEEP if kind is Kind.KEEP else Event.RECORD_DEFERRED


def event_of_node(kind: Kind, reason: Reason) -> Event:
    if kind is Kind.SHUTDOWN:
        return Event.NODE_SHUTDOWN_STARTED
    return Event.NODE_FOREIGN if reason is Reason.FOREIGN_NODE else Event.NODE_KEEP


QUIET = frozenset(
    {
        Event.NODE_KEEP.value,
        Event.RECORD_KEEP.value,
        Event.RECORD_DEFERRED.value,
        Event.NODE_FOREIGN.value,
        Event.NODE_UNLISTED.value,
        Event.RECORD_UNLISTED.value,
    }
)
"""Events that only say that nothing was done; `nodes` and `slots` have the newest of each."""
SEVERITY = ("critical", "error", "warning", "info", "debug")
"""The levels of events, the worst first."""
NAMED, LOST_NAMED = 3, 12
"""The most nodes and records that a group names, the newest first; of lost nodes more."""


class Happened(Protocol):
    """One logged event; `at` is epoch seconds."""

    @property
    def at(self) -> float: ...
    @property
    def event(self) -> str: ...
    @property
    def level(self) -> str: ...
    @property
    def reason(self) -> str | None: ...
    @property
    def record(self) -> str | None: ...
    @property
    def host(self) -> str | None: ...
    @property
    def node(self) -> str | None: ...
    @property
    def more(self) -> Mapping[str, Any]: ...


@dataclass(frozen=True, slots=True)
class Group:
    """Events of one kind for one reason, from the first at `first_at` to the last at `last_at`.

    `level` is the worst of theirs. `names` are the hosts, or else nodes or records, of the newest;
    of lost nodes with what they did: `compute1:busy`; of polls their sources, of breakers and
    pauses their causes. `others` are how many more there are.
    """

    event: str
    level: str
    reason: str | None
    count: int
    first_at: float
    last_at: float
    names: tuple[str, ...] = ()
    others: int = 0


def grouped(events: Iterable[Happened], *, quiet: bool = False) -> tuple[Group, ...]:
    """The groups, the worst first, of those what was lost, and then the newest; `quiet` includes
    events that say that nothing was done."""
    found: dict[tuple[str, str | None], list[Happened]] = {}
    for one in events:
        if quiet or one.event not in QUIET:
            found.setdefault((one.event, one.reason), []).append(one)
    groups = [_group(event, reason, those) for (event, reason), those in found.items()]

    def key(one: Group) -> tuple[int, bool, float, str, str]:
        is_other = one.event != Event.NODE_LOST
        return SEVERITY.index(one.level), is_other, -one.last_at, one.event, one.reason or ""

    return tuple(sorted(groups, key=key))


def _group(event: str, reason: str | None, those: list[Happened]) -> Group:
    those = sorted(those, key=lambda one: -one.at)
    is_loss = event == Event.NODE_LOST
    names = (_lost(one) if is_loss else _name(one) for one in those)
    most = LOST_NAMED if is_loss else NAMED
    every = tuple(dict.fromkeys(name for name in names if name))
    named, others = every[:most], max(0, len(every) - most)
    level = min((one.level for one in those), key=SEVERITY.index)
    return Group(event, level, reason, len(those), those[-1].at, those[0].at, named, others)


def _name(one: Happened) -> str:
    """The host, node or record; else the source of a poll, or the cause of what befell the pool."""
    more = one.more
    return one.host or one.node or one.record or str(more.get("source") or more.get("cause") or "")


def _lost(one: Happened) -> str:
    """The lost node, and what it did until then."""
    name = _name(one)
    return f"{name}:{did(one.more['was'])}" if one.more.get("was") else name


def did(was: str) -> str:
    """What a node did that was kept for that reason: idle, for each reason of an idle one."""
    return "idle" if was != Reason.BUSY and is_flip(Event.NODE_KEEP, was) else was
