"""What each node cost, and for what: the money of a recording by size, cause and time.

Times are epoch seconds, prices and money are in the currency of `[Size] price`, per hour.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from nodemanager.core.judge.node_view import BAD, FAILED_BOOTS, OUTSIDE, NodeView
from nodemanager.core.model.reasons import Documented, Reason
from nodemanager.core.model.settings import Settings
from nodemanager.core.model.sizes import Sizes, size_name
from nodemanager.core.model.world import CloudNode, Record

UNWATCHED_AFTER_S = 600.0
"""Between decisions further apart than this no daemon watched the nodes."""
UNSIZED = "unknown"


class CostCause(Documented):
    """What the money of a node was for."""

    BUSY = "busy", "It worked."
    BOOTING = "booting", "It was starting."
    FAILED_BOOT = "failed_boot", "It was starting, and its boot came to nothing."
    IDLE = "idle", "It was idle, and demand or `min_nodes` wanted it."
    SPARE = "spare", "It was idle, and kept ready as one of its size's `spare_nodes`."
    LATE = (
        "late",
        "It was idle, and could not go yet: by `shutdown_windows`, `consecutive_idle_count`, or "
        "because its next word was awaited.",
    )
    DRAINING = "draining", "It took no more work: drained, cordoned, set aside, or to be taken."
    ENDING = "ending", "Its shutdown was ordered, and the cloud still had it."
    LOST = (
        "lost",
        "It was silent, stopped, down or without a record. Of a node that never came back, all "
        "time since its last ping counts.",
    )
    KEPT = "kept", "It could not be judged or shut down: held, paused, unreadable, breaker open."
    UNKNOWN = "unknown", "It pinged, and did not say what it did."
    UNWATCHED = "unwatched", "No daemon watched it."


_REASONS: Mapping[CostCause, str] = {
    CostCause.BUSY: "busy",
    CostCause.BOOTING: "booting unjoined",
    CostCause.IDLE: "needed",
    CostCause.SPARE: "spare",
    CostCause.LATE: "window_closed not_idle_long idle_word_old drain_awaited late_destroy "
    "shutdown_cap no_longer_wanted",
    CostCause.DRAINING: "draining cordoned parking leaving set_aside",
    CostCause.ENDING: "shutting_down idle_beyond_demand suspended other_image other_type too_old "
    "killed drained parked noticed",
    CostCause.LOST: "silent_within_window unpaired_within_window down_in_scheduler unscheduled",
    CostCause.KEPT: "held unreadable ambiguous impossible untagged no_launch_time breaker_open "
    "paused read_only no_lease not_authorised poll_stale",
    CostCause.UNKNOWN: "worker_unknown up_in_scheduler",
}
CAUSE_OF = {
    Reason(name): cause for cause, names in _REASONS.items() for name in names.split()
} | dict.fromkeys(BAD, CostCause.ENDING)
"""The cause by the reason of the node's verdict. Any other reason tells nothing of the node, so
that the cause before it goes on."""


@dataclass(slots=True)
class Stretch:
    """The time of one node under one verdict; `price` and `launched` are None where not known."""

    node: str
    size: str
    price: float | None
    cause: CostCause
    reason: Reason | None
    since: float
    until: float
    launched: float | None = None


class Account:
    """Follows a recording's decisions, and gives every node's time as stretches."""

    def __init__(self) -> None:
        self.stretches: list[Stretch] = []
        self._open: dict[str, Stretch] = {}
        self._of: dict[str, list[Stretch]] = {}
        self._nodes: Mapping[str, CloudNode] = {}
        self._gone: dict[str, float] = {}
        self._listed: tuple[float, float] | None = None
        """When the newest complete cloud listing began, and the one before it."""
        self._last: float | None = None

    def listed(self, nodes: Mapping[str, CloudNode], at: float) -> None:
        """Take a complete cloud listing that began `at`."""
        self._nodes = {**nodes}
        self._listed = at, at if self._listed is None else self._listed[0]

    def gone(self, node_ids: Iterable[str], at: float) -> None:
        """Note that the cloud confirmed the end of these nodes."""
        self._gone |= dict.fromkeys(node_ids, at)

    def decided(
        self,
        at: float,
        changes: Mapping[str, Reason | None],
        records: Mapping[str, Record],
        settings: Settings,
        *,
        whole: bool,
    ) -> None:
        """Take a decision's changed reasons by node id; `whole`: all that it judged are there."""
        last, sizes = self._last, Sizes(settings.sizes)
        if whole:
            for node_id in self._open.keys() - changes.keys():
                self._close(node_id, self._end_of(node_id, at))
        if last is not None and at - last > UNWATCHED_AFTER_S:
            for one in list(self._open.values()):
                self._begin(one, last, CostCause.UNWATCHED)
                self._begin(one, at, one.cause, one.reason)
        for node_id, reason in changes.items():
            self._changed(node_id, reason, at, records, sizes)
        self._last = at

    def end(self) -> None:
        """Close every stretch at the last decision."""
        for node_id in list(self._open):
            self._close(node_id, self._last or 0.0)

    def _changed(
        self,
        node_id: str,
        reason: Reason | None,
        at: float,
        records: Mapping[str, Record],
        sizes: Sizes,
    ) -> None:
        if reason is None or reason in OUTSIDE:
            self._close(node_id, self._end_of(node_id, at))
            return
        before = self._open.get(node_id)
        cause = CAUSE_OF.get(reason)
        if before is not None and (cause is None or before.reason is reason):
            return
        node = self._nodes.get(node_id)
        record = None if node is None else records.get(node.tags.record or "")
        if before is None:
            at = self._first_at(node, at)
            size, price = _priced(node, record, sizes)
            launched = None if node is None else node.created_at
            before = Stretch(node_id, size, price, CostCause.UNKNOWN, None, at, at, launched)
        self._begin(before, at, cause or CostCause.UNKNOWN, reason)
        if reason in FAILED_BOOTS:
            self._was(node_id, CostCause.FAILED_BOOT, of=CostCause.BOOTING)
        elif reason in BAD and record is not None and record.last_ping_at is not None:
            self._was(node_id, CostCause.LOST, since=record.last_ping_at)

    def _first_at(self, node: CloudNode | None, at: float) -> float:
        """When a node of which nothing was known began to cost: its launch, as far as watched."""
        if self._last is None:
            return at
        earliest = self._last if self._listed is None else min(self._last, self._listed[1])
        launched = at if node is None or node.created_at is None else node.created_at
        return min(max(launched, earliest), at)

    def _end_of(self, node_id: str, at: float) -> float:
        """When it ended: as the cloud confirmed it, else when a listing began that lacks it."""
        lacking = at if self._listed is None else min(at, self._listed[0])
        return min(self._gone.get(node_id, lacking), at)

    def _begin(
        self, before: Stretch, at: float, cause: CostCause, reason: Reason | None = None
    ) -> None:
        self._close(before.node, at)
        new = replace(before, cause=cause, reason=reason, since=at, until=at)
        self._open[before.node] = new

    def _close(self, node_id: str, at: float) -> None:
        one = self._open.pop(node_id, None)
        if one is not None and at > one.since:
            one.until = at
            self.stretches.append(one)
            self._of.setdefault(node_id, []).append(one)

    def _was(
        self, node_id: str, cause: CostCause, *, of: CostCause | None = None, since: float = 0.0
    ) -> None:
        """Put right what the past stretches of a node were for, now that it is known."""
        for one in self._of.get(node_id, ()):
            if one.until <= since or (of is not None and one.cause is not of):
                continue
            if one.since < since:
                self.stretches.append(replace(one, until=since))
                one.since = since
            one.cause = cause


def _priced(
    node: CloudNode | None, record: Record | None, sizes: Sizes
) -> tuple[str, float | None]:
    """The name of the node's size, and its price: as at its claim, else as configured."""
    if node is None:
        return UNSIZED, None
    size = sizes.of_node(node, record)
    name = (size.name if size is not None else size_name(node, record)) or UNSIZED
    claim = None if record is None or record.incarnation != node.tags.incarnation else record.claim
    price = (claim.price if claim is not None else None) or (size.price if size else None)
    return name, price or None


def prices_by_cause(views: Iterable[NodeView], sizes: Sizes) -> dict[str, float]:
    """The price per hour of these nodes, by what it is for; those without a price cost nothing."""
    sums: defaultdict[str, float] = defaultdict(float)
    for view in views:
        if view.verdict.reason not in OUTSIDE:
            cause = CAUSE_OF.get(view.verdict.reason, CostCause.UNKNOWN)
            sums[cause.value] += _priced(view.node, view.record, sizes)[1] or 0.0
    return sums


# Sums.


@dataclass(slots=True)
class CostSum:
    """Money, the hours of the nodes, and those of them whose price is not known."""

    money: float = 0.0
    hours: float = 0.0
    unpriced_hours: float = 0.0

    def add(self, hours: float, price: float | None) -> None:
        self.hours += hours
        self.money += hours * (price or 0.0)
        self.unpriced_hours += hours if price is None else 0.0


def cause_of(one: Stretch) -> str:
    return one.cause.value


def size_of(one: Stretch) -> str:
    return one.size


def spent(
    stretches: Iterable[Stretch], key: Callable[[Stretch], str], edges: Sequence[float]
) -> list[dict[str, CostSum]]:
    """The sums by key of what lies between each two of `edges`."""
    sums: list[dict[str, CostSum]] = [{} for _ in edges[1:]]
    for one in stretches:
        since, until = max(one.since, edges[0]), min(one.until, edges[-1])
        place = bisect_right(edges, since) - 1
        while since < until:
            end = min(until, edges[place + 1])
            sums[place].setdefault(key(one), CostSum()).add((end - since) / 3600, one.price)
            since, place = end, place + 1
    return sums


def total_of(sums: Mapping[str, CostSum]) -> CostSum:
    total = CostSum()
    for one in sums.values():
        total.money += one.money
        total.hours += one.hours
        total.unpriced_hours += one.unpriced_hours
    return total
