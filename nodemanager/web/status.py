"""The daemon's status: an immutable picture per cycle, and the board that holds the newest.

The JSON names in `_forerunner` are those of Arvados Node Manager's status.json, so that its readers
can read this; all others are ours.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, replace
from functools import cache
from pathlib import Path

from nodemanager import __version__
from nodemanager.core.explain.explain import STANDBY, DecisionView
from nodemanager.core.explain.lists import natural
from nodemanager.core.explain.why import SizeWhy
from nodemanager.core.model.annotations import NO_MARKS, Mark, Marks
from nodemanager.core.model.breaker import HOW_TO_CLEAR, Breaker
from nodemanager.core.model.world import LeftoverKind
from nodemanager.core.operate.verbs import STANDING
from nodemanager.core.plan.leftovers import LedgerState
from nodemanager.core.plan.rotation import Rotation
from nodemanager.core.plan.slots import Slots
from nodemanager.core.plan.spares import Spares
from nodemanager.core.plan.summary import Notice
from nodemanager.core.safety.lease import LeaseRole, LeaseView
from nodemanager.journal.explained import plain
from nodemanager.lib.clock import Clock
from nodemanager.lib.logline import Json, timestamp

CLOSED = Breaker()
NO_SLOTS = Slots(None, None, {}, None)
HELD = LeaseView(LeaseRole.ACTIVE)
JOBS_SHOWN = 100
"""The most unsatisfiable jobs that are shown by id."""


@dataclass(frozen=True, slots=True)
class NodeCounts:
    """The numbers of cloud nodes by state, and of those that the demand needs (`wish`).

    `unknown` are those whose last word is too old (T6), as in an outage of the record store.
    `unlisted` were heard lately, and no listing shows them.
    """

    booting: int = 0
    unlisted: int = 0
    unpaired: int = 0
    busy: int = 0
    idle: int = 0
    unknown: int = 0
    fail: int = 0
    down: int = 0
    shutdown: int = 0
    wish: int = 0


@dataclass(frozen=True, slots=True)
class ErrorCounts:
    """Failures since the process began, from `Metrics.error_counts()`."""

    actor_exceptions: int = 0
    boot_failures: int = 0
    list_nodes_errors: int = 0
    create_node_errors: int = 0
    destroy_node_errors: int = 0

    @property
    def cloud_errors(self) -> int:
        return self.list_nodes_errors + self.create_node_errors + self.destroy_node_errors


@dataclass(frozen=True, slots=True)
class PollStatus:
    """The last complete answer of one source; `started_at` is boottime seconds, None before it.

    `error` is why the newest poll failed, with names; None after an answer.
    """

    started_at: float | None = None
    items: int = 0
    failures_in_a_row: int = 0
    error: str | None = None


@dataclass(frozen=True, slots=True)
class Status:
    """The status after one cycle. Times are boottime seconds; `made_at` is the end of the cycle.

    `mode` is apply, dry-run or read-only; `read_only` tells why. `records` counts records by state,
    `record_reasons` by state and reason code, `reasons` the last plan's verdicts by reason code,
    `leftovers` the unreleased ones by ledger state. `refused` counts the boots that the demand
    needs but rules forbid, by (size, reason code). `unsatisfiable` are the jobs that no node can
    satisfy, each with its reason code.
    `resting` are the places without room: size, place and until when it rests (boottime seconds).
    `under_way` counts in-flight actions. `aborted` is why the last snapshot allowed no decision.
    `marked_at` is since when the pool's marks stand, by kind. `sizes` says why each size neither
    grows nor shrinks; the node ids in it are names. `notices` is what only a person can
    end.

    `last_ping_s` is the age of the pool's newest ping on the store's clock, None before any.
    `live` is how many nodes of the pool are listed, whatever they do. `spares` has each size with
    spare_nodes, `rotations` each with outdated nodes. `leaked_by_end` counts the leaked slots by
    the way in which their nodes went.

    `idle_times` (node name -> seconds), `account`, `store` and `holder` contain
    names. They are shown only with the token, as are `read_only`, the sentences of the breaker, of
    the lease and of failed polls, and the details of the operators' standing orders, `marks`;
    `hosts` has the hostnames of their subjects.
    """

    made_at: float
    pool: str
    mode: str = "apply"
    read_only: str | None = None
    version: str = __version__
    nodes: NodeCounts = NodeCounts()
    live: int = 0
    spares: Mapping[str, Spares] = field(default_factory=dict)
    rotations: Mapping[str, Rotation] = field(default_factory=dict)
    leaked_by_end: Mapping[str, int] = field(default_factory=dict)
    hosts: Mapping[str, str] = field(default_factory=dict)
    errors: ErrorCounts = ErrorCounts()
    max_nodes: int = 0
    quota: int | None = None
    price: float = 0.0
    idle_times: Mapping[str, float] = field(default_factory=dict)
    polls: Mapping[str, PollStatus] = field(default_factory=dict)
    poll_stale_after: float | None = None
    breaker: Breaker = CLOSED
    lease: LeaseView = HELD
    slots: Slots = NO_SLOTS
    records: Mapping[str, int] = field(default_factory=dict)
    record_reasons: Mapping[tuple[str, str], int] = field(default_factory=dict)
    last_ping_s: float | None = None
    plan: str = ""
    reasons: Mapping[str, int] = field(default_factory=dict)
    aborted: str | None = None
    deferred: int = 0
    refused: Mapping[tuple[str, str], int] = field(default_factory=dict)
    unsatisfiable: tuple[tuple[str, str], ...] = ()
    resting: tuple[tuple[str, str, float], ...] = ()
    under_way: Mapping[str, int] = field(default_factory=dict)
    leftovers: Mapping[tuple[LeftoverKind, LedgerState], int] = field(default_factory=dict)
    account: str = ""
    store: str = ""
    marks: Marks = NO_MARKS
    marked_at: Mapping[str, float] = field(default_factory=dict)
    sizes: tuple[SizeWhy, ...] = ()
    notices: tuple[Notice, ...] = ()

    def to_json(self, *, with_names: bool, now: float) -> Json:
        """The status as JSON at `now` (boottime seconds); without names only health and counts."""
        shown = self._forerunner() | {
            "pool": self.pool,
            "mode": self.mode,
            "cycle_age_s": _age(self.made_at, now),
            "polls": {
                source: self._poll(poll, now, with_names) for source, poll in self.polls.items()
            },
            "poll_stale_after_s": _rounded(self.poll_stale_after),
            "breaker": self._breaker(with_names, now),
            "lease": self._lease(with_names),
            "slots": self._slots(),
            "records": dict(self.records),
            "plan": {
                "id": self.plan,
                "reasons": dict(self.reasons),
                "deferred": self.deferred,
                "aborted": self.aborted,
            },
            "boots_refused": [
                {"size": size, "reason": reason, "count": count}
                for (size, reason), count in sorted(self.refused.items())
            ],
            "spares": {
                size: {"wanted": one.wanted, "ready": one.there, "kept": one.kept}
                for size, one in sorted(self.spares.items())
            },
            "rotation": {"sizes": self._rotation(with_names)},
            "places_resting": [
                {"size": size, "place": place, "for_s": _rounded(max(0.0, until - now))}
                for size, place, until in self.resting
            ],
            "jobs_unsatisfiable": self._jobs(with_names),
            "sizes": [_size(one, with_names) for one in self.sizes],
            "under_way": dict(self.under_way),
            "price": _rounded(self.price),
            "leftovers": self._leftovers(),
            "notices": [_fields(one, *NOTICE, *(("slots",) * with_names)) for one in self.notices],
            "orders": {kind: len(marks) for kind, marks in self.marks.by_kind.items()},
        }
        for kind, one in STANDING.items():
            shown[one.part] = self._mark(kind, with_names, now) | shown.get(one.part, {})
        if with_names:
            shown["idle_times"] = {
                name: _rounded(idle_s) for name, idle_s in self.idle_times.items()
            }
            shown["read_only"] = self.read_only
            shown["account"] = self.account
            shown["store"] = self.store
            shown["marks"] = [
                {"kind": kind, "id": id, "host": self.hosts.get(id), **_mark_json(marks[id])}
                for kind, marks in self.marks.by_kind.items()
                for id in sorted(marks, key=lambda one: natural(self.hosts.get(one, one)))
            ]
        return shown

    def _lease(self, with_names: bool) -> Json:
        lease = self.lease
        shown: Json = {
            "role": lease.role.value,
            "token": lease.token,
            "until": None if lease.until is None else timestamp(lease.until),
        }
        return {**shown, "holder": lease.holder, "error": lease.error} if with_names else shown

    def _jobs(self, with_names: bool) -> Json:
        """The unsatisfiable jobs; with names, the first JOBS_SHOWN by id."""
        reasons = Counter(reason for _, reason in self.unsatisfiable)
        shown: Json = {"count": len(self.unsatisfiable), "reasons": dict(sorted(reasons.items()))}
        if with_names:
            shown["jobs"] = [
                {"id": id, "reason": reason} for id, reason in self.unsatisfiable[:JOBS_SHOWN]
            ]
        return shown

    def _leftovers(self) -> Json:
        return {
            state.value: sum(count for (_, at), count in self.leftovers.items() if at is state)
            for state in LedgerState
            if state is not LedgerState.RELEASED
        }

    def _mark(self, kind: str, with_names: bool, now: float) -> Json:
        """Whether that is ordered of the whole pool, and for how long; with names, by whom."""
        mark, word = self.marks.pool.get(kind), STANDING[kind].flag
        if mark is None:
            return {word: False}
        shown: Json = {word: True, f"{word}_s": _age(self.marked_at.get(kind), now)}
        return {**shown, **_mark_json(mark)} if with_names else shown

    def _rotation(self, with_names: bool) -> list[Json]:
        """What is left to replace, by size; with names, the nodes."""
        return [
            {
                "size": size,
                "nodes": one.nodes,
                "outdated": one.outdated,
                "causes": dict(one.causes),
                "waits": None if one.waits is None else one.waits.value,
                **({"node": one.node, "at": one.at or None} if with_names else {}),
            }
            for size, one in sorted(self.rotations.items())
        ]

    def _forerunner(self) -> Json:
        return {
            "Version": self.version,
            **{f"nodes_{name}": count for name, count in asdict(self.nodes).items()},
            "node_quota": self.max_nodes if self.quota is None else self.quota,
            "config_max_nodes": self.max_nodes,
            **asdict(self.errors),
            "cloud_errors": self.errors.cloud_errors,
        }

    def is_old(self, poll: PollStatus, now: float) -> bool:
        """Whether nothing is decided on it any more (C7), or not yet."""
        age_s, limit_s = _age(poll.started_at, now), self.poll_stale_after
        return limit_s is not None and (age_s is None or age_s > limit_s)

    def _poll(self, poll: PollStatus, now: float, with_names: bool) -> Json:
        shown: Json = {
            "age_s": _age(poll.started_at, now),
            "stale": self.is_old(poll, now),
            "items": poll.items,
            "failures_in_a_row": poll.failures_in_a_row,
        }
        return {**shown, "error": poll.error} if with_names else shown

    def _slots(self) -> Json:
        slots, total = self.slots, self.slots.total
        used = slots_used(slots)
        return {
            "used": used,
            "free": None if total is None else max(0, total - used),
            "total": total,
            "free_in_s": _rounded(slots.earliest_free_s) if slots.free == 0 else None,
            "held_by": dict(slots.held_by),
            "leaked": {
                "count": sum(leak.leaked for leak in slots.leaks),
                "causes": [{**_fields(leak, *LEAK), "leaked": leak.leaked} for leak in slots.leaks],
                "ends": dict(sorted(self.leaked_by_end.items())),
            },
        }

    def _breaker(self, with_names: bool, now: float) -> Json:
        parts = [_part(part, with_names, now) for part in self.breaker.parts]
        first, *others = parts or [{"reason": None}]
        return {"open": self.breaker.is_open, **first, "others": others}


# What is shown of each. A field that is not named here is not shown: it may name a node.
NOTICE = ("event", "reason", "count", "limit", "clear")
LEAK = ("cause", "count", "oldest_s", "free_in_s")
SIZE = ("size", "nodes", "coming", "booting", "wished", "going")
CAUSE = ("reason", "count", "in_s")


def _fields(one: object, *names: str) -> Json:
    return {name: value for name, value in plain(one).items() if name in names}


def _size(one: SizeWhy, with_names: bool) -> Json:
    """What keeps one size from growing and shrinking; without names no ids and no places."""
    cause = (*CAUSE, *(("nodes",) * with_names))
    return {
        **_fields(one, *SIZE),
        "grows": [_fields(each, *cause) for each in one.grows],
        "one_more": None if one.one_more is None else _fields(one.one_more, *cause),
        "shrinks": [_fields(each, *cause) for each in one.shrinks],
    }


def slots_used(slots: Slots) -> int:
    return sum(slots.held_by.values())


def _part(part: Breaker, with_names: bool, now: float) -> Json:
    """One cause of an open breaker; its sentences contain names (SAFETY.md B4)."""
    assert part.cause is not None
    shown: Json = {"reason": part.cause.value, "open_s": _age(part.opened_at, now)}
    if with_names:
        counts = ", ".join(f"{name} {count}" for name, count in part.detail.items())
        cause = part.cause.value.replace("_", " ")
        shown["cause"] = f"{cause}: {counts}" if counts else cause
        shown["clear"] = HOW_TO_CLEAR[part.cause]
    return shown


class Board:
    """Holds the daemon's newest decision and Status for the web's threads.

    `lease` tells it as it is now. What was decided is in `journal`, and in the file `standby` what
    was decided while this manager stood by.
    """

    def __init__(
        self,
        clock: Clock,
        lease: Callable[[], LeaseView] = lambda: HELD,
        *,
        journal: Path | None = None,
        standby: Path | None = None,
    ) -> None:
        self.clock = clock
        self.lease = lease
        self._journal, self._standby = journal, standby
        self.decision: DecisionView | None = None
        """The newest decision, None before the first. It is immutable, so readers need no lock."""
        self._newest: tuple[float, Callable[[], Status | None]] = clock.boottime(), lambda: None

    @property
    def journal(self) -> Path | None:
        stands_by = self.decision is not None and self.decision.mode == STANDBY
        return self._standby if stands_by else self._journal

    def replace(self, made_at: float, make: Callable[[], Status]) -> None:
        """Hold the status of the cycle that ended then; `make` is called once somebody reads it.

        Between two readers there may be several cycles, and a status counts all nodes and records.
        """
        # A single assignment, so readers need no lock; two that make the same status do no harm.
        self._newest = made_at, cache(make)

    def read(self) -> Status | None:
        """The newest status; None before the first cycle has ended."""
        _, made = self._newest
        status = made()
        return None if status is None else replace(status, lease=self.lease())

    def now(self) -> float:
        """The current boottime seconds, the clock of a Status's times."""
        return self.clock.boottime()

    def age(self) -> float:
        """Seconds since the end of the last cycle; before the first, since the board was made."""
        made_at, _ = self._newest
        return self.now() - made_at


def _mark_json(mark: Mark) -> Json:
    return {"by": mark.by, "since": timestamp(mark.at), "reason": mark.reason}


def _age(at: float | None, now: float) -> float | None:
    return None if at is None else _rounded(max(0.0, now - at))


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 3)
