"""Who holds the slots, which slots leak and why (SAFETY.md U7), and the names free slots give.

A slot is kept for nothing known while its record has no listed node and is not claimed for a node
still to come. Within the record's window that node may live; past it the slot leaks.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field
from enum import StrEnum
from functools import lru_cache

from nodemanager.core.model.reasons import Kind, Reason
from nodemanager.core.model.scheduling import SchedulerNode, may_take, seat_of
from nodemanager.core.model.settings import Settings
from nodemanager.core.model.verdict import Verdict
from nodemanager.core.model.world import Record, Size, WorkerState
from nodemanager.core.observe.history import freed_since_listed
from nodemanager.core.observe.nodes_by_record import node_of
from nodemanager.core.observe.scheduled import fresh_answer
from nodemanager.core.observe.signs import quiet_for, window_of
from nodemanager.core.observe.snapshot import Snapshot

# Which seats a node may be had for: what the record says, and what the scheduler says (D16).


class SeatUse(StrEnum):
    """What a seat is, whose record is free."""

    OFF = "seat_off"
    WANTED = "seat_wanted"
    UNTOLD = "seat_untold"
    ELSEWHERE = "seat_elsewhere"
    RESERVED = "seat_reserved"
    DRAINED = "seat_drained"
    DOWN = "seat_down"
    CHANGING = "seat_changing"
    UP = "seat_up"


FREE = frozenset({SeatUse.OFF, SeatUse.WANTED})
"""A boot may get one of these: at once, or once the scheduler was told to power it up."""


class FreeSeats:
    """The seats that boots may get, each once; `uses` are those of the free `records`, by uuid."""

    def __init__(self, records: Iterable[Record], uses: Mapping[str, SeatUse]) -> None:
        self._left = [record for record in records if uses[record.uuid] in FREE]
        self._off = {uuid for uuid, use in uses.items() if use is SeatUse.OFF}

    def count_for(self, host: str) -> int:
        """How many boots the seat of that name may get: one or none."""
        return sum(seat_of(one) == host for one in self._left)

    def find(self, size: Size, host: str | None) -> Record | None:
        """The seat `host`; where None is given, one of that size that may be powered up."""
        fits = (one for one in self._left if may_take(one, size, host))
        return next((one for one in fits if host is not None or one.uuid in self._off), None)

    def take(self, seat: Record) -> None:
        self._left.remove(seat)


def uses_of(
    records: Iterable[Record], snapshot: Snapshot, settings: Settings
) -> Mapping[str, SeatUse]:
    """What the seats of the free `records` are, by uuid; none for a slot that takes any node."""
    listing = fresh_answer(snapshot, settings)
    nodes = {} if listing is None else {node.name: node for node in listing.items}
    return {
        record.uuid: use_of(nodes.get(seat))
        for record in records
        if not record.holds_anything and (seat := seat_of(record)) is not None
    }


def use_of(node: SchedulerNode | None) -> SeatUse:
    """What a seat is that no record of ours holds, by the scheduler's word on it."""
    if node is None:
        return SeatUse.UNTOLD
    if node.elsewhere:
        return SeatUse.ELSEWHERE
    if node.wanted:
        return SeatUse.WANTED
    if node.reserved:
        return SeatUse.RESERVED
    if node.draining:
        return SeatUse.DRAINED
    if node.given_up or (node.state is WorkerState.DOWN and not node.suspended):
        return SeatUse.DOWN
    if node.off:
        return SeatUse.OFF
    return SeatUse.CHANGING if node.suspended else SeatUse.UP


NODE_TO_COME = frozenset(
    {Reason.NODE_LISTED, Reason.NODE_EXPECTED, Reason.CLAIM_WITHIN_WINDOW, Reason.OTHER_POOL}
)
"""A record kept for one of these reasons has a node or may yet get one: its slot does not leak."""


class Holder(StrEnum):
    """What a record that holds a slot holds it for."""

    OTHER_POOL = "other_pool"
    LISTED_NODE = "listed_node"
    CLAIM = "claim"
    NO_NODE = "no_node"


CLAIM_WITHOUT_SLOT = "claim_without_slot"
"""Counted beside the holders: set-ups that will take a slot, and that no listing shows with one."""

NODELESS = frozenset({Holder.CLAIM, Holder.NO_NODE})
"""Only the slots of these holders can leak."""


@dataclass(frozen=True, slots=True)
class Leak:
    """The slots without a node that one cause keeps: the reason code of their records now.

    `oldest_s` is how long the quietest of these records has been quiet, None where no age can be
    told. `free_in_s` is in how many seconds the windows let the first of them be freed, None where
    all wait for something other than time. `records` are their uuids. `in_window` of them are not
    quiet for longer than their windows.
    """

    cause: Reason
    count: int
    oldest_s: float | None
    free_in_s: float | None
    records: tuple[str, ...] = field(default=(), compare=False, repr=False)
    in_window: int = field(default=0, compare=False)

    @property
    def leaked(self) -> int:
        return self.count - self.in_window


@dataclass(frozen=True, slots=True)
class Slots:
    """The slot gate (U7). `total` and `free` are None where the store can't say how many there are.

    `held_by` counts the taken slots by holder. `earliest_free_s` is in how many seconds the windows
    let the next slot be freed, 0 while one is being freed, None where no window tells. `leaks` has
    the most slots first.
    """

    total: int | None
    free: int | None
    held_by: dict[str, int]
    earliest_free_s: float | None
    leaks: tuple[Leak, ...] = ()


def holder_of(record: Record, snapshot: Snapshot, settings: Settings) -> Holder:
    """What a record holds its slot for; call it only for a record that holds one."""
    if record.pool is not None and record.pool != settings.pool:
        return Holder.OTHER_POOL
    history = snapshot.history
    if record.uuid in history.nodes_by_record or node_of(
        record, history.nodes_by_record, history.present
    ):
        return Holder.LISTED_NODE
    if record.last_ping_at is None and record.claim is not None:
        return Holder.CLAIM
    return Holder.NO_NODE


def count_slots(
    records: Sequence[Record],
    verdicts: Sequence[Verdict],
    snapshot: Snapshot,
    settings: Settings,
) -> Slots:
    """Who holds the slots, of all pools (U7); `verdicts` are those of `records`, in the same order.

    A set-up of ours takes a slot from its order on, before any listing shows its claim. A seat that
    no record holds, and that may not be powered up, counts by what it is (D16).
    """
    held = Counter[Holder]()
    nodeless: list[tuple[Record, Verdict]] = []
    paired, with_node = Reason.PAIRED, 0
    claiming = {uuid for uuid, one in snapshot.record_flights.items() if one.kind == "setup"}
    claiming |= snapshot.expected.keys()
    slotless = [record for record in records if record.slot_number is None]
    uses, kept_by = uses_of(slotless, snapshot, settings), Counter[SeatUse]()
    for record, verdict in zip(records, verdicts, strict=True):
        if record.slot_number is None:
            if record.claim is not None:
                claiming.add(record.uuid)
            elif (use := uses.get(record.uuid)) is not None and record.uuid not in claiming:
                kept_by[use] += 1
            continue
        if claiming:
            claiming.discard(record.uuid)
        # Most records are paired, and for those the verdict is enough.
        if verdict.reason is paired:
            with_node += 1
            continue
        holder = holder_of(record, snapshot, settings)
        held[holder] += 1
        if holder in NODELESS:
            nodeless.append((record, verdict))
    held[Holder.LISTED_NODE] += with_node
    held_by = {holder.value: count for holder, count in held.items() if count}
    held_by |= {use.value: count for use, count in kept_by.items() if use not in FREE}
    waiting = len(claiming) + len(snapshot.boots_unclaimed)
    if waiting:
        held_by[CLAIM_WITHOUT_SLOT] = waiting
    total = snapshot.slots
    free = None if total is None else total - sum(held_by.values())
    times = [at for _, verdict in nodeless if (at := free_in_s(verdict)) is not None]
    if any(flight.kind in ("clean", "shutdown") for flight in snapshot.record_flights.values()):
        times.append(0.0)
    leaks = _leaks(nodeless, snapshot, settings) if nodeless else ()
    return Slots(total, free, held_by, min(times, default=None), leaks)


def slots_per_node(slots: Slots, live: int) -> float:
    """How many slots our pool's records hold for each of its `live` nodes, the leak's meter.

    It is 1 where each node has its slot, a little more while nodes boot or go, and grows with each
    slot that leaks. Without a live node it is the number of held slots.
    """
    others = {Holder.OTHER_POOL.value, CLAIM_WITHOUT_SLOT, *SeatUse}
    held = sum(count for holder, count in slots.held_by.items() if holder not in others)
    return held / max(1, live)


def free_in_s(verdict: Verdict) -> float | None:
    """Seconds until the windows let the record be freed, from the verdict's own measures.

    None when no window keeps it: it waits for a person, a listing or an action in flight.
    """
    measures: Mapping[str, float] = verdict.measures or {}
    if verdict.kind is Kind.CLEAN or verdict.kind is Kind.DEFER:
        return 0.0
    if verdict.reason in (Reason.WITHIN_WINDOW, Reason.CLAIM_WITHIN_WINDOW):
        return max(0.0, measures["window_s"] - measures["idle_s"])
    if verdict.reason is Reason.NOT_SETTLED:
        return max(0.0, measures["settle_s"] - measures["absent_s"])
    return None


def is_leaked(
    record: Record, verdict: Verdict, snapshot: Snapshot, settings: Settings, freed: Set[str]
) -> bool:
    """Whether the slot of a record without a listed node leaks; `verdict` is the record's.

    `freed` are the records that were freed since they were listed.
    """
    if not _lacks_node(verdict, snapshot, freed):
        return False
    return not _is_in_window(record, quiet_for(record, snapshot), settings)


def _lacks_node(verdict: Verdict, snapshot: Snapshot, freed: Set[str]) -> bool:
    """Whether no node of the record is to come."""
    if verdict.reason in NODE_TO_COME or verdict.id in freed:
        return False
    flight = snapshot.record_flights.get(verdict.id)
    return flight is None or flight.kind != "setup"


def _is_in_window(record: Record, quiet_s: float | None, settings: Settings) -> bool:
    return quiet_s is not None and quiet_s <= window_of(record, settings)


def _leaks(
    nodeless: Sequence[tuple[Record, Verdict]], snapshot: Snapshot, settings: Settings
) -> tuple[Leak, ...]:
    freed = freed_since_listed(snapshot.history)
    kept: dict[Reason, list[tuple[Record, float | None, float | None]]] = {}
    for record, verdict in nodeless:
        if _lacks_node(verdict, snapshot, freed):
            quiet_s = quiet_for(record, snapshot)
            kept.setdefault(verdict.reason, []).append((record, quiet_s, free_in_s(verdict)))
    leaks = [
        Leak(
            cause,
            len(these),
            max((quiet for _, quiet, _ in these if quiet is not None), default=None),
            min((at for _, _, at in these if at is not None), default=None),
            tuple(record.uuid for record, _, _ in these),
            sum(_is_in_window(record, quiet_s, settings) for record, quiet_s, _ in these),
        )
        for cause, these in kept.items()
    ]
    return tuple(sorted(leaks, key=lambda leak: (-leak.count, leak.cause.value)))


_NUMBER = re.compile(r"\d+")
SHOWN = 3


@dataclass(frozen=True, slots=True)
class NameMismatch:
    """Hostnames of slots that the scheduler lacks: how many, the first of them, and the scheduler's
    name that differs from it only in form, if there is one."""

    count: int
    first: str
    like: str | None = None

    @property
    def text(self) -> str:
        if self.like is not None:
            return (
                f"the scheduler calls {self.first} {self.like}: write [Registry] hostname as the "
                f"scheduler writes its names; {self.count} slots are not used until then"
            )
        return (
            f"the scheduler has no node {self.first}: name it there (NodeName= in slurm.conf), or "
            f"lower [Registry] slots; {self.count} slots have such names and are not used"
        )


@dataclass(frozen=True, slots=True)
class NextNames:
    """The hostnames that the next nodes get, in turn; `usable` of them are known to work."""

    names: tuple[str, ...]
    usable: int


def next_names(snapshot: Snapshot, settings: Settings, slots: Slots) -> NextNames | None:
    """The names of the next nodes; None where nobody can tell, or the scheduler takes any name."""
    known = _known_names(snapshot)
    if settings.hostname is None or snapshot.slots is None or known is None:
        return None
    taken = {record.slot_number for record in snapshot.history.listed_records}
    free = (slot for slot in range(1, snapshot.slots + 1) if slot not in taken)
    # These come first, before any boot of this plan.
    waiting = slots.held_by.get(CLAIM_WITHOUT_SLOT, 0)
    names: list[str] = []
    for place, slot in enumerate(free):
        if len(names) == settings.max_nodes:
            break
        if place >= waiting:
            names.append(settings.hostname % {"slot_number": slot})
    lacking = next((at for at, name in enumerate(names) if name not in known), len(names))
    return NextNames(tuple(names), lacking)


def name_mismatch(snapshot: Snapshot, settings: Settings) -> NameMismatch | None:
    """The slots whose hostnames the scheduler lacks; None where none does, or nobody can tell."""
    known = _known_names(snapshot)
    if settings.hostname is None or snapshot.slots is None or known is None:
        return None
    return apart(settings.hostname, snapshot.slots, known)


def _known_names(snapshot: Snapshot) -> frozenset[str] | None:
    """All names that the scheduler has; None where it takes any."""
    listing = snapshot.history.scheduler
    return None if listing is None else listing.names


@lru_cache(maxsize=8)
def apart(hostname: str, slots: int, known: frozenset[str]) -> NameMismatch | None:
    """The slots whose hostnames are not among the scheduler's; None where all are."""
    missing = [name for name in _hostnames(hostname, slots) if name not in known]
    if not missing:
        return None
    alike = {_form(name): name for name in sorted(known, reverse=True)}
    first = next((name for name in missing if _form(name) in alike), missing[0])
    return NameMismatch(len(missing), first, alike.get(_form(first)))


def _hostnames(hostname: str, slots: int) -> Iterator[str]:
    return (hostname % {"slot_number": slot} for slot in range(1, slots + 1))


def _form(name: str) -> str:
    """The name without what tells two forms of it apart: case, domain, leading zeros."""
    short = name.lower().partition(".")[0]
    return _NUMBER.sub(lambda found: str(int(found[0])), short)
