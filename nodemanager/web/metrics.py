"""Counters and gauges for Prometheus, in a registry of their own.

Two tables say where each comes from: COUNTERS from the events that the log tells, GAUGES from the
status after each decision. Labels come from closed lists (sources, reasons, states, configured
sizes): no id of a node or record is ever a label, so that the series stay few and tell no names.
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
from nodemanager.core.leftovers import LedgerState
from nodemanager.core.model import LeftoverKind, Outcome
from nodemanager.core.reasons import Event, Reason
from nodemanager.log import Fields
from nodemanager.refusals import Refusals
from nodemanager.web.status import ErrorCounts, Status

SOURCES = ("cloud", "records", "demand", "scheduler")
_SECONDS = (0.01, 0.03, 0.1, 0.3, 1, 3, 10, 30, 100, 300)


class Counted(NamedTuple):
    """One more for each `event` told `when` this holds; `label` is the field `of` that name."""

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
        "Snapshots no decision could be made from.",
        "reason",
    ),
    Counted(Event.RECORD_CLEANED, "cleans", "Records freed.", "reason"),
    Counted(
        Event.RECORD_CLEAN_SKIPPED,
        "cleans_skipped",
        "Cleans left undone at the last look.",
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
    Counted(Event.RECORD_RESTORED, "restores", "Freed records given back to their node."),
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
        "Shutdowns left undone at the last look.",
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
        "Times it opened.",
        "reason",
        of=lambda fields: fields["cause"],
    ),
    Counted(
        Event.LEFTOVER_RELEASED,
        "leftovers_released",
        "Things of gone nodes that were released.",
        "kind",
    ),
    Counted(
        Event.LEFTOVER_RELEASE_FAILED,
        "leftover_errors",
        "Releases that failed, or of which nobody knows.",
        "kind",
        when=lambda fields: fields["outcome"] is not Outcome.ACCEPTED,
    ),
    Counted(
        Event.LEFTOVER_UNKNOWN,
        "leftover_ask_errors",
        "Failed questions what a node pins, or what was left behind.",
        when=lambda fields: fields.get("error") is not None,
    ),
)

LISTS = {
    Event.LIST_OK: "ok",
    Event.LIST_FAILED: "failed",
    Event.LIST_PARTIAL: "partial",
    Event.LIST_SUSPECT: "suspect",
}
"""How a list call ended, by what is told of it."""


class Gauged(NamedTuple):
    """What a gauge shows `of` a status: a number, or one for each value of its labels."""

    name: str
    doc: str
    of: Callable[[Status], float | Mapping[str, float] | Mapping[tuple[str, ...], float]]
    labels: tuple[str, ...] = ()


def _nodes(status: Status) -> Mapping[str, int]:
    counts = asdict(status.nodes)
    del counts["wish"]
    return counts


def _slots(status: Status) -> Mapping[str, int]:
    """Where the store can't say how many there are, only the used ones are shown."""
    used, total = status.slots.used, status.slots.total
    return {"used": used} if total is None else {"used": used, "free": max(0, total - used)}


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
    Gauged("nodes_wanted", "Nodes that demand calls for.", lambda shown: shown.nodes.wish),
    Gauged("records", "Records by state.", lambda shown: shown.records, ("state",)),
    Gauged("verdicts", "The last plan's verdicts.", lambda shown: shown.reasons, ("reason",)),
    Gauged("slots", "Slots by whether a record holds them.", _slots, ("state",)),
    Gauged(
        "slots_leaked",
        "Slots held by a record without a node, by what keeps it.",
        lambda shown: {leak.cause.value: leak.count for leak in shown.slots.leaks},
        ("cause",),
    ),
    Gauged(
        "breaker_open",
        "1 while nothing is freed or destroyed.",
        lambda shown: shown.breaker.reason is not None,
    ),
    Gauged(
        "lease_held", "1 while this is the pool's active manager.", lambda shown: shown.lease_held
    ),
    Gauged(
        "paused",
        "1 while an operator has the pool paused.",
        lambda shown: shown.marks.paused is not None,
    ),
    Gauged("orders", "Operators' orders that stand.", _orders, ("kind",)),
    Gauged("deferred", "Cleans that wait for the next cycle.", lambda shown: shown.deferred),
    Gauged("max_nodes", "Configured `max_nodes`.", lambda shown: shown.max_nodes),
    Gauged(
        "quota",
        "Nodes the cloud is thought to allow.",
        lambda shown: shown.max_nodes if shown.quota is None else shown.quota,
    ),
    Gauged("price", "Price per hour of all nodes.", lambda shown: shown.price),
    Gauged(
        "jobs_unsatisfiable",
        "Jobs of the wishlist that can't be had, by reason.",
        lambda shown: Tally(reason for _, reason in shown.unsatisfiable),
        ("reason",),
    ),
    Gauged(
        "leftovers",
        "Things of our nodes that are still to be released.",
        _leftovers,
        ("kind", "state"),
    ),
)


class Metrics:
    """What the daemon and its actors count. Every method may be called from any thread."""

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
            "list_last_ok_timestamp_seconds", "When a list call last answered whole.", "source"
        )
        self._cycle_seconds = self._histogram("cycle_seconds", "From snapshot to plan applied.")
        self._cycle_at = self._gauge("cycle_last_timestamp_seconds", "When a cycle last ended.")

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
        """From the first scrape on, so that a first failure is seen as an increase."""
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
        """Show what this server refuses, from now on."""
        self._refused.servers.append(refusals)

    def heard(self, event: Event, level: int, fields: Fields) -> None:
        """Count what the log was told, of whatever level."""
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
            # P6: that call was counted when it ended; the doubt came later, and from elsewhere.
            return
        source = fields["source"]
        self._lists.labels(source, LISTS[event]).inc()
        if event is Event.LIST_OK:
            self._list_seconds.labels(source).observe(fields["took_s"])
            self._list_items.labels(source).set(fields["items"])
            self._list_ok_at.labels(source).set(self._clock.wall())

    def cycle(self, seconds: float) -> None:
        """One decision was taken, in so many seconds."""
        self._cycle_seconds.observe(seconds)
        self._cycle_at.set(self._clock.wall())

    def show(self, status: Status) -> None:
        """Set every gauge from the picture that goes on the board."""
        for row in GAUGES:
            value, gauge = row.of(status), self._gauges[row.name]
            if isinstance(value, Mapping):
                _replace(gauge, {_labels(label): count for label, count in value.items()})
            else:
                gauge.set(value)

    def error_counts(self) -> ErrorCounts:
        """The forerunner's counts of failures, for a Status."""
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
    """What the HTTP servers of this process refused."""

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
    """Show `counts` and nothing of before, under the gauge's labels.

    What went is set to 0 and not removed: a scrape in between must not find a gap.
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
