"""The ledger of what gone nodes left behind, and when each leftover is released (SAFETY.md D4, D5).

    entered --> WAITING --ended--> DUE --after--> RELEASING <--> FAILED --after(gone)--> (removed)
                   |                ^                 (retried for ever, ever later)
                   +--called_off    +-- found, doubtful, restored

The ledger knows no records: a record is freed once its node is gone, whatever the ledger has.
Every function may be called again with the same facts. So one routine follows however a shut-down
ends: `ended`, `doubtful` or `called_off`, then `due` and `after` until nothing is left.

Times are CLOCK_BOOTTIME seconds (T2), which mean nothing after a restart: `restored` sets again
when each entry is due.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Set
from dataclasses import dataclass, field, replace
from enum import StrEnum

from nodemanager.core.judge.preconditions import standing_block
from nodemanager.core.model.reasons import Reason
from nodemanager.core.model.settings import Settings
from nodemanager.core.model.verdict import Objection
from nodemanager.core.model.world import Leftover, LeftoverKind, Outcome
from nodemanager.core.observe.ended import was_ended
from nodemanager.core.observe.history import History
from nodemanager.core.observe.listing_history import NOT_ABSENT, Absence, one_more
from nodemanager.core.observe.snapshot import Snapshot
from nodemanager.core.observe.unlisted import id_of

FIRST_RETRY_S = 10.0
"""Seconds from the first attempt to the next; each further wait is twice as long."""
RETRY_CAP_S = 3600.0
"""The longest wait in seconds. Attempts never end, as a leftover costs money for ever."""
PASS_OVER_AFTER = 5
"""After this many attempts a leftover no longer holds up the others of its node (as in R1)."""

LeftoverKey = tuple[LeftoverKind, str]


class LedgerState(StrEnum):
    """How far the release of one leftover has come."""

    WAITING = "waiting"
    """Its node is not known to be gone."""
    DUE = "due"
    """Its node is gone, or may be; not tried yet."""
    RELEASING = "releasing"
    """The cloud accepted the release, or its node still holds it while it ends."""
    FAILED = "failed"
    """Refused, left alone, or of unknown outcome; it is tried again."""
    RELEASED = "released"
    """The cloud says that it is gone; `after` returns this, and the ledger has no such entry."""


@dataclass(frozen=True, slots=True)
class Entry:
    """One leftover. `attempts` counts its releases; `last_error` is None once one was accepted."""

    leftover: Leftover
    state: LedgerState
    not_before: float
    attempts: int = 0
    last_error: str | None = None
    is_gone: bool = False
    """The cloud called its node gone in this run (D3)."""

    @property
    def passed_over(self) -> bool:
        """Whether it failed so often that later kinds of its node no longer wait for it."""
        return self.attempts >= PASS_OVER_AFTER


@dataclass(frozen=True, slots=True)
class Ledger:
    """What is still to be released, by kind and id.

    `absent` has by id how long the nodes of entries have been off the lists (C5), where the cloud
    has not called them gone.
    """

    entries: Mapping[LeftoverKey, Entry] = field(default_factory=dict)
    absent: Mapping[str, Absence] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.entries)


def entered(ledger: Ledger, pins: Iterable[Leftover], now: float) -> Ledger:
    """With what a node pins, before its destroy is sent; known leftovers wait for its end again."""
    changed: dict[LeftoverKey, Entry] = {}
    for pin in pins:
        known = ledger.entries.get(pin.key)
        if known is None:
            changed[pin.key] = Entry(pin, LedgerState.WAITING, now)
        else:
            changed[pin.key] = Entry(
                pin, LedgerState.WAITING, known.not_before, last_error=known.last_error
            )
    return _with(ledger, changed)


def found(
    ledger: Ledger, leftovers: Iterable[Leftover], now: float, visible_after: float
) -> Ledger:
    """With what the cloud shows by our tag and whose node is not there (`find_leftovers`).

    The cloud may not show a young node yet, so nothing is due before `visible_after` seconds have
    passed (A1). Entries that no longer wait stay as they are.
    """
    changed: dict[LeftoverKey, Entry] = {}
    for leftover in leftovers:
        known = ledger.entries.get(leftover.key)
        if known is None:
            # A thing that no ledger names and that has none of our tags is not ours to release.
            if leftover.tagged:
                changed[leftover.key] = Entry(leftover, LedgerState.DUE, now + visible_after)
        elif known.state is LedgerState.WAITING:
            changed[leftover.key] = replace(
                known, state=LedgerState.DUE, not_before=now + visible_after
            )
    return _with(ledger, changed)


def ended(ledger: Ledger, node_id: str, now: float) -> Ledger:
    """With everything that waits for that node due: the cloud says that the node is gone (D3)."""
    return _with(
        ledger,
        {
            key: replace(entry, is_gone=True)
            if entry.state is not LedgerState.WAITING
            else replace(entry, is_gone=True, state=LedgerState.DUE, not_before=now)
            for key, entry in ledger.entries.items()
            if entry.leftover.node_id == node_id
        },
    )


def doubtful(ledger: Ledger, node_id: str, now: float, visible_after: float) -> Ledger:
    """With what waits for that node due, though it is not known whether the node is gone.

    Its shut-down took too long (C8); the release asks the cloud for the node first.
    """
    waiting = (
        entry.leftover
        for entry in ledger.entries.values()
        if entry.leftover.node_id == node_id and entry.state is LedgerState.WAITING
    )
    return found(ledger, tuple(waiting), now, visible_after)


def called_off(ledger: Ledger, node_id: str) -> Ledger:
    """Without what waits for that node's end: it was not destroyed after all (D2)."""
    return replace(
        ledger,
        entries={
            key: entry
            for key, entry in ledger.entries.items()
            if entry.leftover.node_id != node_id or entry.state is not LedgerState.WAITING
        },
    )


def joined(entries: Iterable[Entry], own: Ledger, now: float, visible_after: float) -> Ledger:
    """Our own ledger with a former run's entries; those that are ours already go before them."""
    former = restored(entries, now, visible_after).entries
    return replace(own, entries={**former, **own.entries})


def restored(entries: Iterable[Entry], now: float, visible_after: float) -> Ledger:
    """The ledger after a restart; every entry is due once `visible_after` seconds have passed.

    Perhaps no shut-down is left that says its node is gone. The release asks the cloud first.
    """
    return Ledger(
        {
            entry.leftover.key: replace(
                entry, state=LedgerState.DUE, not_before=now + visible_after, is_gone=False
            )
            for entry in entries
            if entry.state is not LedgerState.RELEASED
        }
    )


def listed(ledger: Ledger, history: History, settings: Settings) -> Ledger:
    """The ledger after the cloud listing that `history` folded in last, complete or not."""
    cloud = history.cloud
    if cloud is None:
        return ledger
    shown = history.present.keys() | {node.id for node in history.partial}
    nodes = {one.leftover.node_id for one in ledger.entries.values() if not one.is_gone}
    absent: dict[str, Absence] = {}
    for node_id in nodes - shown:
        before = ledger.absent.get(node_id)
        if before is not None and before.last_at >= cloud.started_at:
            absent[node_id] = before
        else:
            absent[node_id] = one_more(before, None, cloud.started_at, settings)
    return replace(ledger, absent=absent)


def due(ledger: Ledger, now: float, holds: Set[str] = frozenset()) -> tuple[Entry, ...]:
    """What may be released now, in order: of one node only up to the first kind not passed over.

    A leftover that an operator holds by its own id does not hold up the rest of its node (C9).
    """
    ready = [entry for entry in _in_turn(ledger, holds) if entry.not_before <= now]
    return tuple(sorted(ready, key=lambda e: (e.leftover.order, e.not_before, e.leftover.id)))


@dataclass(frozen=True, slots=True)
class Turn:
    """What is released next, or why nothing is though something is due."""

    entry: Entry | None = None
    block: Objection | None = None


def next_release(ledger: Ledger, snapshot: Snapshot, settings: Settings) -> Turn:
    """The one leftover to release now, if anything may be freed or destroyed now (B2, C10, L6).

    A leftover on hold, or of a node on hold, is left out (C9).
    """
    ready = due(ledger, snapshot.now, snapshot.holds)
    if not ready:
        return Turn()
    if (standing := standing_block(snapshot, settings)) is not None:
        return Turn(block=standing)
    wait_s = snapshot.limits.throttled_until - snapshot.now
    if wait_s > 0:
        return Turn(block=Objection(Reason.THROTTLED, {"retry_s": wait_s}))
    block = Objection(Reason.HELD)
    claimed = _claimed(ready, snapshot)
    # A node counts as in flight until the listings show its end, or the cloud called it gone.
    under_way = (snapshot.node_flights.keys() | snapshot.touched.keys()) - snapshot.gone.keys()
    # One that is listed lives; a late destroy of ours may still end it, so its entries stay.
    under_way |= snapshot.late_destroys & snapshot.history.present.keys()
    for entry in ready:
        if snapshot.holds & {entry.leftover.id, entry.leftover.node_id}:
            continue
        if entry.leftover.node_id in under_way:
            block = Objection(Reason.IN_FLIGHT)
        elif (unsettled := _unsettled(entry, ledger, claimed, snapshot, settings)) is not None:
            block = Objection(Reason.NOT_SETTLED, unsettled)
        else:
            return Turn(entry)
    return Turn(block=block)


def _claimed(ready: Iterable[Entry], snapshot: Snapshot) -> Mapping[str, str]:
    """By the id of its node, the uuid of each record that is not free; none if none is asked for.

    A run may have entered what its node pins, and ended before it sent the destroy. A node that is
    listed as ended is none of them.
    """
    history = snapshot.history
    records, ended = history.records, history.ended
    if records is None or history.cloud is None or all(entry.is_gone for entry in ready):
        return {}
    holding = [record for record in records.items if record.holds_anything]
    nodes = ((id_of(record, snapshot), record.uuid) for record in holding)
    return {node_id: uuid for node_id, uuid in nodes if node_id and node_id not in ended}


def _unsettled(
    entry: Entry,
    ledger: Ledger,
    claimed: Mapping[str, str],
    snapshot: Snapshot,
    settings: Settings,
) -> Mapping[str, object] | None:
    """How far the absence of its node has settled, where the node may live yet (C5).

    A destroy that was accepted may never happen, and one listing may lack a node that lives. While
    a record is the node's, listings alone tell nothing: the cloud is asked by its id (D13).
    """
    node_id = entry.leftover.node_id
    if entry.is_gone or not node_id:
        return None
    answer = snapshot.history.asked.get(node_id)
    is_fresh = answer is not None and snapshot.now - answer.at <= settings.poll_stale_after
    absence = ledger.absent.get(node_id, NOT_ABSENT)
    if answer is not None and is_fresh and any(not one.is_absent for one in answer.nodes):
        # No listing may show a node that the cloud shows when it is asked by id (D13).
        absence = NOT_ABSENT
    if not absence.has_settled(settings):
        return absence.measured(settings)
    return {"record": claimed[node_id]} if node_id in claimed and not is_fresh else None


def living(ledger: Ledger, snapshot: Snapshot) -> frozenset[str]:
    """The ids of the ledger's nodes that are listed, with no action of ours in flight for them.

    Their shut-down did not happen, and what they use is not left behind. A listing from before the
    end of an action of ours does not count, nor does a late one of a node that has ended. A node
    that a destroy of ours may still end keeps its entries until that time is over.
    """
    ended = snapshot.touched.keys() | snapshot.gone.keys() | snapshot.node_flights.keys()
    nodes = {entry.leftover.node_id for entry in ledger.entries.values()}
    present = snapshot.history.present
    listed = (nodes & present.keys()) - ended - snapshot.late_destroys
    return frozenset(one for one in listed if not was_ended(present[one], snapshot))


def without(ledger: Ledger, node_id: str) -> Ledger:
    """Without anything of that node, which lives."""
    others = {key: one for key, one in ledger.entries.items() if one.leftover.node_id != node_id}
    return replace(ledger, entries=others)


def next_due(ledger: Ledger) -> float | None:
    """When `due` has something, perhaps already; None while everything waits for its node."""
    return min((entry.not_before for entry in _in_turn(ledger)), default=None)


def _in_turn(ledger: Ledger, holds: Set[str] = frozenset()) -> list[Entry]:
    """The entries that wait for nothing but their time.

    Where the node is not known, nobody knows what belongs together, and no entry waits for another.
    """
    first: dict[str, int] = {}
    for entry in ledger.entries.values():
        if not entry.passed_over and entry.leftover.id not in holds:
            node, order = entry.leftover.node_id, entry.leftover.order
            first[node] = min(order, first.get(node, order))
    return [
        entry
        for entry in ledger.entries.values()
        if entry.state is not LedgerState.WAITING
        and (
            not entry.leftover.node_id
            or entry.leftover.order <= first.get(entry.leftover.node_id, entry.leftover.order)
        )
    ]


def after(
    ledger: Ledger,
    leftover: Leftover,
    outcome: Outcome,
    now: float,
    *,
    error: str | None = None,
    retry_after: float | None = None,
) -> tuple[Ledger, Entry]:
    """The ledger after one attempt to release the leftover, and its entry as it is now.

    Only `gone` removes the entry. An error of the cloud is Outcome.FAILED where it is definite,
    else Outcome.UNKNOWN, with its text and the seconds that the cloud asks to wait. A leftover that
    is no longer in the ledger is not put back.
    """
    known = ledger.entries.get(leftover.key)
    before = known or Entry(leftover, LedgerState.DUE, now)
    attempts = before.attempts + 1
    if outcome is Outcome.GONE:
        released = replace(before, state=LedgerState.RELEASED, attempts=attempts, last_error=None)
        rest = {key: entry for key, entry in ledger.entries.items() if key != leftover.key}
        return replace(ledger, entries=rest), released
    accepted = outcome is Outcome.ACCEPTED
    # A release that is accepted after failures ends within seconds: look again soon, once.
    news = accepted and before.state is LedgerState.FAILED
    wait = FIRST_RETRY_S if news else retry_delay(attempts)
    tried = replace(
        before,
        state=LedgerState.RELEASING if accepted else LedgerState.FAILED,
        attempts=attempts,
        not_before=now + max(wait, retry_after or 0.0),
        last_error=None if accepted else (error or outcome.value),
    )
    return (ledger if known is None else _with(ledger, {leftover.key: tried})), tried


def retry_delay(attempts: int) -> float:
    """Seconds from attempt number `attempts`, from 1, to the next."""
    doublings = min(max(attempts, 1) - 1, 32)
    return float(min(RETRY_CAP_S, FIRST_RETRY_S * 2**doublings))


def counts(ledger: Ledger) -> Mapping[tuple[LeftoverKind, LedgerState], int]:
    """How many leftovers there are of each kind in each state, for the metric."""
    return Counter((entry.leftover.kind, entry.state) for entry in ledger.entries.values())


def _with(ledger: Ledger, changed: Mapping[LeftoverKey, Entry]) -> Ledger:
    return replace(ledger, entries={**ledger.entries, **changed}) if changed else ledger
