"""The ledger of what gone nodes left behind, and when each of it is released (SAFETY.md D4, D5).

    entered --> WAITING --ended--> DUE --after--> RELEASING <--> FAILED --after(gone)--> (left)
                   |                ^                 (both again and again, ever later)
                   +--called_off    +-- found, restored

The ledger knows no records: a record is freed once its node is gone, whatever stands here.
Every function may be called again with the same facts, so that whatever way a shut-down ends,
one routine follows: `ended` or `called_off`, then `due` and `after` until nothing is left.

Times are CLOCK_BOOTTIME seconds (T2), which mean nothing after a restart: `restored` sets anew
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
from nodemanager.core.model.world import Leftover, LeftoverKind, Outcome
from nodemanager.core.plan.snapshot import Snapshot

FIRST_RETRY_S = 10.0
"""How long after the first try the next one comes; each further wait is twice as long."""
RETRY_CAP_S = 3600.0
"""The longest wait; it is tried for ever, since it costs money for ever."""
PASS_OVER_AFTER = 5
"""So many tries without an end, and it holds up its node's other things no more (as in R1)."""

Key = tuple[LeftoverKind, str]


class LedgerState(StrEnum):
    """How far one leftover has come."""

    WAITING = "waiting"
    """Its node is not known to be gone."""
    DUE = "due"
    """Its node is gone; not tried yet."""
    RELEASING = "releasing"
    """The cloud took the order, or its node's end still holds it."""
    FAILED = "failed"
    """Refused, left alone, or nobody knows; tried again."""
    RELEASED = "released"
    """The cloud says it is not there; `after` tells it, and the ledger has forgotten it."""


@dataclass(frozen=True, slots=True)
class Entry:
    """One leftover. `attempts` counts its tries; `last_error` is None once one was accepted."""

    leftover: Leftover
    state: LedgerState
    not_before: float
    attempts: int = 0
    last_error: str | None = None

    @property
    def passed_over(self) -> bool:
        """It does not get on, so that what comes after it need not wait for it."""
        return self.attempts >= PASS_OVER_AFTER


@dataclass(frozen=True, slots=True)
class Ledger:
    """What is still to be released, by kind and id."""

    entries: Mapping[Key, Entry] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.entries)


def entered(ledger: Ledger, pins: Iterable[Leftover], now: float) -> Ledger:
    """With what a node pins, before its destroy is sent; what is known waits for its end anew."""
    changed: dict[Key, Entry] = {}
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
    """With what the cloud shows by our tag whose node is not there (`find_leftovers`).

    A node that was just created may not have been seen, so nothing of it is due before
    `visible_after` seconds have passed (A1). What was under way already stays as it is.
    """
    changed: dict[Key, Entry] = {}
    for leftover in leftovers:
        known = ledger.entries.get(leftover.key)
        if known is None:
            # What no ledger named and bears no tags of ours is nobody's to release.
            if leftover.tagged:
                changed[leftover.key] = Entry(leftover, LedgerState.DUE, now + visible_after)
        elif known.state is LedgerState.WAITING:
            changed[leftover.key] = replace(
                known, state=LedgerState.DUE, not_before=now + visible_after
            )
    return _with(ledger, changed)


def ended(ledger: Ledger, node_id: str, now: float) -> Ledger:
    """With everything of that node due: the cloud says that the node is gone (D3)."""
    return _with(
        ledger,
        {
            key: replace(entry, state=LedgerState.DUE, not_before=now)
            for key, entry in ledger.entries.items()
            if entry.leftover.node_id == node_id and entry.state is LedgerState.WAITING
        },
    )


def doubtful(ledger: Ledger, node_id: str, now: float, visible_after: float) -> Ledger:
    """With what waits for that node due after all, though nobody told of its end.

    Its shut-down is not waited for any longer (C8); the release asks for the node first.
    """
    waiting = (
        entry.leftover
        for entry in ledger.entries.values()
        if entry.leftover.node_id == node_id and entry.state is LedgerState.WAITING
    )
    return found(ledger, tuple(waiting), now, visible_after)


def called_off(ledger: Ledger, node_id: str) -> Ledger:
    """Without what waits for that node's end: it was not destroyed after all (D2)."""
    return Ledger(
        {
            key: entry
            for key, entry in ledger.entries.items()
            if entry.leftover.node_id != node_id or entry.state is not LedgerState.WAITING
        }
    )


def restored(entries: Iterable[Entry], now: float, visible_after: float) -> Ledger:
    """The ledger after a restart; every entry is due once `visible_after` seconds have passed.

    Those that waited, too: nobody may be left who would say that their node is gone, and the
    release asks for the node first.
    """
    return Ledger(
        {
            entry.leftover.key: replace(
                entry, state=LedgerState.DUE, not_before=now + visible_after
            )
            for entry in entries
            if entry.state is not LedgerState.RELEASED
        }
    )


def due(ledger: Ledger, now: float, holds: Set[str] = frozenset()) -> tuple[Entry, ...]:
    """What is to be released now: of one node only the first kind that is not passed over.

    What an operator holds by its own id is passed over, too; the rest of its node goes on (C9).
    """
    ready = [entry for entry in _in_turn(ledger, holds) if entry.not_before <= now]
    return tuple(sorted(ready, key=lambda e: (e.leftover.order, e.not_before, e.leftover.id)))


@dataclass(frozen=True, slots=True)
class Turn:
    """What is released next, or why nothing is though it is due: a reason and its measures."""

    entry: Entry | None = None
    block: tuple[Reason, Mapping[str, object]] | None = None


def next_release(ledger: Ledger, snapshot: Snapshot, settings: Settings) -> Turn:
    """The one thing to release now, as all freeing and destroying may be done (B2, C9, C10, L6).

    Neither what is held itself, nor what a held node left.
    """
    ready = due(ledger, snapshot.now, snapshot.holds)
    if not ready:
        return Turn()
    if (block := standing_block(snapshot, settings)) is not None:
        return Turn(block=block)
    wait_s = snapshot.limits.throttled_until - snapshot.now
    if wait_s > 0:
        return Turn(block=(Reason.THROTTLED, {"retry_s": wait_s}))
    reason = Reason.HELD
    # What a listing does not show yet is under way, too; but the cloud's own "gone" is the end.
    under_way = (snapshot.node_flights.keys() | snapshot.touched.keys()) - snapshot.gone.keys()
    for entry in ready:
        if snapshot.holds & {entry.leftover.id, entry.leftover.node_id}:
            continue
        if entry.leftover.node_id not in under_way:
            return Turn(entry)
        reason = Reason.IN_FLIGHT
    return Turn(block=(reason, {}))


def living(ledger: Ledger, snapshot: Snapshot) -> frozenset[str]:
    """The nodes of the ledger that are listed, with nothing of ours under way for them.

    Their shut-down came to nothing, and what they use is not left behind. A listing from before
    the end of something of ours does not count.
    """
    nodes = {entry.leftover.node_id for entry in ledger.entries.values()}
    ended = snapshot.touched.keys() | snapshot.gone.keys() | snapshot.node_flights.keys()
    return frozenset(nodes & snapshot.history.present.keys()) - ended


def without(ledger: Ledger, node_id: str) -> Ledger:
    """Without anything of that node: it lives."""
    return Ledger(
        {key: one for key, one in ledger.entries.items() if one.leftover.node_id != node_id}
    )


def next_due(ledger: Ledger) -> float | None:
    """When `due` gives something, maybe already; None while everything waits for its node."""
    return min((entry.not_before for entry in _in_turn(ledger)), default=None)


def _in_turn(ledger: Ledger, holds: Set[str] = frozenset()) -> list[Entry]:
    """What need not wait for anything but its time.

    Where the node is not known, nobody knows what belongs together, and nothing waits.
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
    """The ledger after one try of `release`, and that leftover's entry as it is now.

    Only `gone` takes it out. An error of the cloud is Outcome.FAILED where it is definite, else
    Outcome.UNKNOWN, with its text and the wait that the cloud asked for. One that is no longer
    in the ledger is not put back.
    """
    known = ledger.entries.get(leftover.key)
    before = known or Entry(leftover, LedgerState.DUE, now)
    attempts = before.attempts + 1
    if outcome is Outcome.GONE:
        released = replace(before, state=LedgerState.RELEASED, attempts=attempts, last_error=None)
        rest = {key: entry for key, entry in ledger.entries.items() if key != leftover.key}
        return Ledger(rest), released
    accepted = outcome is Outcome.ACCEPTED
    # What failed long and is accepted at last ends within seconds: look again soon, once.
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
    """Seconds from the `attempts`-th try to the next one."""
    doublings = min(max(attempts, 1) - 1, 32)
    return float(min(RETRY_CAP_S, FIRST_RETRY_S * 2**doublings))


def counts(ledger: Ledger) -> Mapping[tuple[LeftoverKind, LedgerState], int]:
    """How many there are of each kind in each state, for the metric."""
    return Counter((entry.leftover.kind, entry.state) for entry in ledger.entries.values())


def _with(ledger: Ledger, changed: Mapping[Key, Entry]) -> Ledger:
    return Ledger({**ledger.entries, **changed}) if changed else ledger
