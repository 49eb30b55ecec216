"""Counters and gauges for Prometheus, in a registry of their own.

Two tables define them: COUNTERS count logged events, GAUGES show the newest status.
Labels come from closed lists (sources, reasons, states, configured sizes). No id of a node or
record is ever a label, so that there are few series and they disclose no names.
"""

from __future__ import annotations

import threading
from collections import Counter as Tally
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict
from typing import NamedTuple

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, ProcessCollector
from prometheus_client.core import CounterMetricFamily, Metric
from prometheus_client.registry import Collector

from nodemanager import __version__
from nodemanager.clock import Clock
from nodemanager.core.execute.leftovers import LedgerState
from nodemanager.core.model.reasons import Event, Reason
from nodemanager.core.model.world import LeftoverKind, Outcome
from nodemanager.core.plan.slots import slots_per_node
from nodemanager.log import Fields
from nodemanager.refusals import Refusals
from nodemanager.web.status import ErrorCounts, Status, slots_used

SOURCES = ("cloud", "records", "demand", "scheduler")
_SECONDS = (0.01, 0.03, 0.1, 0.3, 1, 3, 10, 30, 100, 300)


class Counted(NamedTuple):
    """A counter of the logged `event`s for which `when` holds.

    Its label's value is the field named `label`, or what `of` gives.
    """

    event: Event
    name: str
    doc: str
    label: str | None = None
    of: Callable[[Fields], object] | None = None
    when: Callable[[Fields], bool] = lambda fields: True


COUNTERS = (
    Counted(
        Event.CYCLE_ABORTED,
        "cycles_aborted",
        "Snapshots that allowed no decision.",
        "reason",
    ),
    Counted(Event.RECORD_CLEANED, "cleans", "Records freed.", "reason"),
    Counted(
        Event.RECORD_CLEAN_SKIPPED,
        "cleans_skipped",
        "Cleans skipped by the pre-write check.",
        "reason",
    ),
    Counted(
        Event.RECORD_CLEAN_FAILED,
        "cleans_failed",
        "Cleans whose write failed.",
        when=lambda fields: fields["action"] != "unfence",
    ),
    Counted(Event.RECORD_PRUNED, "prunes", "Surplus records deleted."),
    Counted(Event.RECORD_FALSE_CLEAN, "false_cleans", "Freed records whose node lived."),
    Counted(Event.RECORD_RESTORED, "restores", "Freed records restored for their node."),
    Counted(Event.NODE_CREATED, "boots", "Nodes created.", "size"),
    Counted(
        Event.NODE_GONE,
        "boot_failures",
        "Nodes that never pinged.",
        "size",
        when=lambda fields: fields["reason"] is Reason.BOOT_FAILED,
    ),
    Counted(
        Event.NODE_SETUP_FAILED,
        "create_errors",
        "Create calls that failed.",
        "kind",
        of=lambda fields: type(fields["error"]).__name__,
    ),
    Counted(Event.NODE_GONE, "shutdowns", "Nodes destroyed.", "reason"),
    Counted(
        Event.NODE_SHUTDOWN_SKIPPED,
        "shutdowns_skipped",
        "Shutdowns skipped by the pre-write check.",
        "reason",
    ),
    Counted(
        Event.NODE_SHUTDOWN_FAILED,
        "destroy_errors",
        "Destroy calls that failed.",
        when=lambda fields: fields["outcome"] is Outcome.FAILED,
    ),
    Counted(Event.INVARIANT_BROKEN, "violations", "Promises broken, by rule.", "rule"),
    Counted(Event.ACTOR_DIED, "actor_exceptions", "Exceptions in actors."),
    Counted(
        Event.BREAKER_OPENED,
        "breaker_opened",
        "Times the breaker opened.",
        "reason",
        of=lambda fields: fields["cause"],
    ),
    Counted(
        Event.LEFTOVER_RELEASED,
        "leftovers_released",
        "Leftovers of gone nodes that were released.",
        "kind",
    ),
    Counted(
        Event.LEFTOVER_RELEASE_FAILED,
        "leftover_errors",
        "Releases that failed or whose outcome is unknown.",
        "kind",
        when=lambda fields: fields["outcome"] is not Outcome.ACCEPTED,
    ),
    Counted(
        Event.LEFTOVER_UNKNOWN,
        "leftover_ask_errors",
        "Failed queries for what a node pins or left behind.",
        when=lambda fields: fields.get("error") is not None,
    ),
)

LISTS = {
    Event.LIST_OK: "ok",
    Event.LIST_FAILED: "failed",
    Event.LIST_PARTIAL: "partial",
    Event.LIST_SUSPECT: "suspect",
}
"""The outcome of a list call by its logged event."""


class Gauged(NamedTuple):
    """A gauge; `of` gives its number, or its numbers by label values, from a status."""

    name: str
    doc: str
    of: Callable[[Status], float | Mapping[str, float] | Mapping[tuple[str, ...], float]]
    labels: tuple[str, ...] = ()


def _nodes(status: Status) -> Mapping[str, int]:
    counts = asdict(status.nodes)
    del counts["wish"]
    return counts


def _slots(status: Status) -> Mapping[str, int]:
    """Used and free slots; only the used ones where the store can't tell the total."""
    used, total = slots_used(status.slots), status.slots.total
    return {"used": used} if total is None else {"used": used, "free": max(0, total - used)}


def _spares(status: Status) -> Mapping[tuple[str, ...], int]:
    return {
        (size, state): count
        for size, one in status.spares.items()
        for state, count in (("wanted", one.wanted), ("ready", one.there), ("kept", one.kept))
    }


def _outdated(status: Status) -> Mapping[tuple[str, ...], int]:
    return {
        (size, cause): count
        for size, one in status.rotations.items()
        for cause, count in one.causes.items()
    }


def _stalled(status: Status) -> Mapping[str, int]:
    return {size: one.waits is Reason.ROTATION_STALLED for size, one in status.rotations.items()}


def _orders(status: Status) -> Mapping[str, int]:
    marks = status.marks
    return {"hold": len(marks.holds), "drain": len(marks.drains), "kill": len(marks.kills)}


def _leftovers(status: Status) -> Mapping[tuple[str, ...], int]:
    return {
        (kind.value, state.value): status.leftovers.get((kind, state), 0)
        for kind in LeftoverKind
        for state in LedgerState
        if state is not LedgerState.RELEASED
    }


GAUGES = (
    Gauged("nodes", "Cloud nodes by what they do.", _nodes, ("state",)),
    Gauged("nodes_wanted", "Nodes that the demand needs.", lambda shown: shown.nodes.wish),
    Gauged(
        "spare_nodes",
        "Nodes of each size beyond demand: `wanted` by `spare_nodes`, `ready` (idle or to come), "
        "and `kept` (fewer than wanted while something runs short).",
        _spares,
        ("size", "state"),
    ),
    Gauged(
        "nodes_outdated",
        "Nodes that wait to be replaced, by size and cause (image, type or age).",
        _outdated,
        ("size", "cause"),
    ),
    Gauged(
        "rotation_stalled",
        "1 while a size's replacements are as outdated as what they replace.",
        _stalled,
        ("size",),
    ),
    Gauged(
        "rotation_paused",
        "1 while an operator pauses the replacement of outdated nodes.",
        lambda shown: shown.marks.rotation is not None,
    ),
    Gauged("records", "Records by state.", lambda shown: shown.records, ("state",)),
    Gauged("verdicts", "The last plan's verdicts.", lambda shown: shown.reasons, ("reason",)),
    Gauged("slots", "Slots by whether a record holds them.", _slots, ("state",)),
    Gauged(
        "slots_leaked",
        "Slots held by a record without a node, by the reason that keeps it.",
        lambda shown: {leak.cause.value: leak.count for leak in shown.slots.leaks},
        ("cause",),
    ),
    Gauged(
        "slots_per_node",
        "Slots that the pool's records hold, for each live node (as if one, without any).",
        lambda shown: slots_per_node(shown.slots, shown.live),
    ),
    Gauged(
        "breaker_open",
        "1 while nothing is freed or destroyed.",
        lambda shown: shown.breaker.is_open,
    ),
    Gauged(
        "lease_held", "1 while this is the pool's active manager.", lambda shown: shown.lease_held
    ),
    Gauged(
        "paused",
        "1 while the pool is paused by an operator.",
        lambda shown: shown.marks.paused is not None,
    ),
    Gauged("orders", "Operators' standing orders.", _orders, ("kind",)),
    Gauged("deferred", "Cleans that wait for the next cycle.", lambda shown: shown.deferred),
    Gauged("max_nodes", "Configured `max_nodes`.", lambda shown: shown.max_nodes),
    Gauged(
        "quota",
        "Nodes that the cloud is believed to allow.",
        lambda shown: shown.max_nodes if shown.quota is None else shown.quota,
    ),
    Gauged("price", "Price per hour of all nodes.", lambda shown: shown.price),
    Gauged(
        "jobs_unsatisfiable",
        "Jobs of the wishlist that no node can satisfy, by reason.",
        lambda shown: Tally(reason for _, reason in shown.unsatisfiable),
        ("reason",),
    ),
    Gauged(
        "leftovers",
        "Leftovers of our nodes that are not released yet.",
        _leftovers,
        ("kind", "state"),
    ),
)


class Metrics:
    """The metrics of the daemon. Any thread may call its methods."""

    def __init__(self, pool: str, clock: Clock) -> None:
        self._clock = clock
        self.registry = CollectorRegistry()
        ProcessCollector(registry=self.registry)
        self._gauge("info", "Always 1.", "version", "pool").labels(__version__, pool).set(1)
        self._gauge("threads", "Threads of the process.").set_function(threading.active_count)

        self._lists = self._counter("lists", "List calls by how they ended.", "source", "outcome")
        self._list_seconds = self._histogram("list_seconds", "How long list calls took.", "source")
        self._list_items = self._gauge("list_items", "Entries of the last listing.", "source")
        self._list_ok_at = self._gauge(
            "list_last_ok_timestamp_seconds", "Time of the last complete listing.", "source"
        )
        self._cycle_seconds = self._histogram("cycle_seconds", "From snapshot to plan applied.")
        self._cycle_at = self._gauge("cycle_last_timestamp_seconds", "End of the last cycle.")

        self._counters: dict[str, Counter] = {}
        self._rows: dict[Event, list[Counted]] = {}
        for row in COUNTERS:
            labels = () if row.label is None else (row.label,)
            self._counters[row.name] = self._counter(row.name, row.doc, *labels)
            self._rows.setdefault(row.event, []).append(row)
        self._gauges = {row.name: self._gauge(row.name, row.doc, *row.labels) for row in GAUGES}
        self._start_at_none()

        self._refused = _Refused()
        self.registry.register(self._refused)

    def _start_at_none(self) -> None:
        """Start these series at 0, so that a first failure shows as an increase."""
        for source in SOURCES:
            for outcome in LISTS.values():
                self._lists.labels(source, outcome)
        for kind in LeftoverKind:
            self._counters["leftovers_released"].labels(kind.value)
            self._counters["leftover_errors"].labels(kind.value)
            for state in LedgerState:
                if state is not LedgerState.RELEASED:
                    self._gauges["leftovers"].labels(kind.value, state.value)

    def count_refusals(self, refusals: Refusals) -> None:
        """Show this server's refusals from now on."""
        self._refused.servers.append(refusals)

    def heard(self, event: Event, level: int, fields: Fields) -> None:
        """Count a logged event of any level; a log listener."""
        for row in self._rows.get(event, ()):
            if row.when(fields):
                counter = self._counters[row.name]
                if row.label is not None:
                    value = row.of(fields) if row.of is not None else fields[row.label]
                    counter = counter.labels("" if value is None else value)
                counter.inc()
        if event in LISTS:
            self._listed(event, fields)

    def _listed(self, event: Event, fields: Fields) -> None:
        if event is Event.LIST_SUSPECT and fields["reason"] is not Reason.COLLAPSED:
            # The call was counted when it ended; this suspicion (P6) came later, from elsewhere.
            return
        source = fields["source"]
        self._lists.labels(source, LISTS[event]).inc()
        if event is Event.LIST_OK:
            self._list_seconds.labels(source).observe(fields["took_s"])
            self._list_items.labels(source).set(fields["items"])
            self._list_ok_at.labels(source).set(self._clock.wall())

    def cycle(self, seconds: float) -> None:
        """Note a decision and the seconds that it took."""
        self._cycle_seconds.observe(seconds)
        self._cycle_at.set(self._clock.wall())

    def show(self, status: Status) -> None:
        """Set every gauge from the newest status; for each scrape."""
        for row in GAUGES:
            value, gauge = row.of(status), self._gauges[row.name]
            if isinstance(value, Mapping):
                _replace(gauge, {_labels(label): count for label, count in value.items()})
            else:
                gauge.set(value)

    def error_counts(self) -> ErrorCounts:
        """The counts of failures that Arvados Node Manager's status had, for a Status."""
        return ErrorCounts(
            actor_exceptions=_total(self._counters["actor_exceptions"]),
            boot_failures=_total(self._counters["boot_failures"]),
            list_nodes_errors=_total(self._lists, source="cloud", outcome="failed"),
            create_node_errors=_total(self._counters["create_errors"]),
            destroy_node_errors=_total(self._counters["destroy_errors"]),
        )

    def _counter(self, name: str, doc: str, *labels: str) -> Counter:
        return Counter(f"nodemanager_{name}_total", doc, labels, registry=self.registry)

    def _gauge(self, name: str, doc: str, *labels: str) -> Gauge:
        return Gauge(f"nodemanager_{name}", doc, labels, registry=self.registry)

    def _histogram(self, name: str, doc: str, *labels: str) -> Histogram:
        return Histogram(
            f"nodemanager_{name}", doc, labels, buckets=_SECONDS, registry=self.registry
        )


class _Refused(Collector):
    """Collects the refusals of this process's HTTP servers."""

    def __init__(self) -> None:
        self.servers: list[Refusals] = []

    def collect(self) -> Iterator[Metric]:
        family = CounterMetricFamily(
            "nodemanager_requests_refused",
            "Requests and connections that a server refused.",
            labels=("server", "reason"),
        )
        for server in self.servers:
            for reason, count in server.counts().items():
                family.add_metric((server.name, reason.value), count)
        yield family


def _labels(label: str | tuple[str, ...]) -> tuple[str, ...]:
    return (label,) if isinstance(label, str) else label


def _replace(gauge: Gauge, counts: Mapping[tuple[str, ...], float]) -> None:
    """Replace the gauge's values with `counts`, by label values.

    Sets vanished series to 0 and does not remove them, so that a scrape in between finds no gap.
    """
    gone = {tuple(s.labels.values()) for m in gauge.collect() for s in m.samples}
    for labels in gone.difference(counts):
        gauge.labels(*labels).set(0)
    for labels, count in counts.items():
        gauge.labels(*labels).set(count)


def _total(counter: Counter, **labels: str) -> int:
    samples = [s for metric in counter.collect() for s in metric.samples]
    return int(
        sum(
            sample.value
            for sample in samples
            if sample.name.endswith("_total") and labels.items() <= sample.labels.items()
        )
    )
