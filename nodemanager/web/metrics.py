"""Counters and gauges for Prometheus, in a registry of their own.

Labels come from closed lists (sources, reasons, states, configured sizes): no id of a node or
record is ever a label, so that the series stay few and tell no names.
"""

from __future__ import annotations

import collections
import threading
from collections.abc import Iterator, Mapping
from dataclasses import asdict

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, ProcessCollector
from prometheus_client.core import CounterMetricFamily, Metric
from prometheus_client.registry import Collector

from nodemanager import __version__
from nodemanager.clock import Clock
from nodemanager.core.leftovers import LedgerState
from nodemanager.core.model import LeftoverKind
from nodemanager.refusals import Refusals
from nodemanager.web.status import ErrorCounts, Status

SOURCES = ("cloud", "records", "demand", "scheduler")
_SECONDS = (0.01, 0.03, 0.1, 0.3, 1, 3, 10, 30, 100, 300)


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
        for source in SOURCES:
            # From the first scrape on, so that a first failure is seen as an increase.
            for outcome in ("ok", "failed", "partial", "suspect"):
                self._lists.labels(source, outcome)

        self._cycle_seconds = self._histogram("cycle_seconds", "From snapshot to plan applied.")
        self._cycles_aborted = self._counter(
            "cycles_aborted", "Snapshots no decision could be made from.", "reason"
        )
        self._cycle_at = self._gauge("cycle_last_timestamp_seconds", "When a cycle last ended.")

        self._cleans = self._counter("cleans", "Records freed.", "reason")
        self._cleans_skipped = self._counter(
            "cleans_skipped", "Cleans left undone at the last look.", "reason"
        )
        self._cleans_failed = self._counter("cleans_failed", "Cleans whose write failed.")
        self._prunes = self._counter("prunes", "Surplus records deleted.")
        self._false_cleans = self._counter("false_cleans", "Freed records whose node lived.")
        self._restores = self._counter("restores", "Freed records given back to their node.")
        self._boots = self._counter("boots", "Nodes created.", "size")
        self._boot_failures = self._counter("boot_failures", "Nodes that never pinged.", "size")
        self._create_errors = self._counter("create_errors", "Create calls that failed.", "kind")
        self._shutdowns = self._counter("shutdowns", "Nodes destroyed.", "reason")
        self._shutdowns_skipped = self._counter(
            "shutdowns_skipped", "Shutdowns left undone at the last look.", "reason"
        )
        self._destroy_errors = self._counter("destroy_errors", "Destroy calls that failed.")
        self._violations = self._counter("violations", "Promises broken, by rule.", "rule")
        self._actor_exceptions = self._counter("actor_exceptions", "Exceptions in actors.")
        self._breaker_opened = self._counter("breaker_opened", "Times it opened.", "reason")

        self._leftovers_released = self._counter(
            "leftovers_released", "Things of gone nodes that were released.", "kind"
        )
        self._leftover_errors = self._counter(
            "leftover_errors", "Releases that failed, or of which nobody knows.", "kind"
        )
        for kind in LeftoverKind:
            self._leftovers_released.labels(kind.value)
            self._leftover_errors.labels(kind.value)
        self._leftover_ask_errors = self._counter(
            "leftover_ask_errors", "Failed questions what a node pins, or what was left behind."
        )
        self._leftovers = self._gauge(
            "leftovers", "Things of our nodes that are still to be released.", "kind", "state"
        )
        self.leftovers({})

        self._refused = _Refused()
        self.registry.register(self._refused)

        self._nodes = self._gauge("nodes", "Cloud nodes by what they do.", "state")
        self._wanted = self._gauge("nodes_wanted", "Nodes that demand calls for.")
        self._records = self._gauge("records", "Records by state.", "state")
        self._verdicts = self._gauge("verdicts", "The last plan's verdicts.", "reason")
        self._slots = self._gauge("slots", "Slots by whether a record holds them.", "state")
        self._leaked = self._gauge(
            "slots_leaked", "Slots held by a record without a node, by what keeps it.", "cause"
        )
        self._breaker = self._gauge("breaker_open", "1 while nothing is freed or destroyed.")
        self._lease = self._gauge("lease_held", "1 while this is the pool's active manager.")
        self._paused = self._gauge("paused", "1 while an operator has the pool paused.")
        self._orders = self._gauge("orders", "Operators' orders that stand.", "kind")
        self._deferred = self._gauge("deferred", "Cleans that wait for the next cycle.")
        self._max_nodes = self._gauge("max_nodes", "Configured `max_nodes`.")
        self._quota = self._gauge("quota", "Nodes the cloud is thought to allow.")
        self._price = self._gauge("price", "Price per hour of all nodes.")
        self._unsatisfiable = self._gauge(
            "jobs_unsatisfiable", "Jobs of the wishlist that can't be had, by reason.", "reason"
        )

    def count_refusals(self, refusals: Refusals) -> None:
        """Show what this server refuses, from now on."""
        self._refused.servers.append(refusals)

    def list_ok(self, source: str, seconds: float, items: int) -> None:
        self._lists.labels(source, "ok").inc()
        self._list_seconds.labels(source).observe(seconds)
        self._list_items.labels(source).set(items)
        self._list_ok_at.labels(source).set(self._clock.wall())

    def list_failed(self, source: str) -> None:
        self._lists.labels(source, "failed").inc()

    def list_partial(self, source: str) -> None:
        self._lists.labels(source, "partial").inc()

    def list_suspect(self, source: str) -> None:
        self._lists.labels(source, "suspect").inc()

    def cycle(self, seconds: float) -> None:
        self._cycle_seconds.observe(seconds)
        self._cycle_at.set(self._clock.wall())

    def cycle_aborted(self, reason: str) -> None:
        self._cycles_aborted.labels(reason).inc()

    def clean(self, reason: str) -> None:
        self._cleans.labels(reason).inc()

    def clean_skipped(self, reason: str) -> None:
        self._cleans_skipped.labels(reason).inc()

    def clean_failed(self) -> None:
        self._cleans_failed.inc()

    def false_clean(self) -> None:
        self._false_cleans.inc()

    def restore(self) -> None:
        self._restores.inc()

    def prune(self) -> None:
        self._prunes.inc()

    def boot(self, size: str) -> None:
        self._boots.labels(size).inc()

    def boot_failed(self, size: str) -> None:
        self._boot_failures.labels(size).inc()

    def create_failed(self, kind: str) -> None:
        """`kind` is the error's class: QuotaExceeded, CapacityUnavailable, CloudError ..."""
        self._create_errors.labels(kind).inc()

    def shutdown(self, reason: str) -> None:
        self._shutdowns.labels(reason).inc()

    def shutdown_skipped(self, reason: str) -> None:
        self._shutdowns_skipped.labels(reason).inc()

    def destroy_failed(self) -> None:
        self._destroy_errors.inc()

    def leftovers(self, counts: Mapping[tuple[str, str], int]) -> None:
        """How many there are by kind and state; what is not in `counts` is none."""
        for kind in LeftoverKind:
            for state in LedgerState:
                if state is not LedgerState.RELEASED:
                    count = counts.get((kind.value, state.value), 0)
                    self._leftovers.labels(kind.value, state.value).set(count)

    def leftover_released(self, kind: str) -> None:
        self._leftovers_released.labels(kind).inc()

    def leftover_failed(self, kind: str) -> None:
        self._leftover_errors.labels(kind).inc()

    def leftovers_unknown(self) -> None:
        self._leftover_ask_errors.inc()

    def violation(self, rule: str) -> None:
        """`rule` is its id in the safety rules."""
        self._violations.labels(rule).inc()

    def actor_exception(self) -> None:
        self._actor_exceptions.inc()

    def breaker_opened(self, reason: str) -> None:
        self._breaker_opened.labels(reason).inc()

    def show(self, status: Status) -> None:
        """Set every gauge from the picture that goes on the board."""
        counts = asdict(status.nodes)
        self._wanted.set(counts.pop("wish"))
        self.nodes_by_state(counts)
        self.records_by_state(status.records)
        _replace(self._verdicts, status.reasons)
        self.slots(status.slots.used, status.slots.total)
        _replace(self._leaked, {leak.cause.value: leak.count for leak in status.slots.leaks})
        self.breaker(open=status.breaker.reason is not None)
        self._lease.set(status.lease_held)
        marks = status.marks
        self._paused.set(marks.paused is not None)
        for kind, standing in (
            ("hold", marks.holds),
            ("drain", marks.drains),
            ("kill", marks.kills),
        ):
            self._orders.labels(kind).set(len(standing))
        self._deferred.set(status.deferred)
        self._max_nodes.set(status.max_nodes)
        self._quota.set(status.max_nodes if status.quota is None else status.quota)
        self._price.set(status.price)
        reasons = collections.Counter(reason for _, reason in status.unsatisfiable)
        _replace(self._unsatisfiable, reasons)

    def nodes_by_state(self, counts: Mapping[str, int]) -> None:
        _replace(self._nodes, counts)

    def records_by_state(self, counts: Mapping[str, int]) -> None:
        _replace(self._records, counts)

    def slots(self, used: int, total: int | None) -> None:
        """`total` None: the store can't say, and only the used ones are shown."""
        counts = {"used": used}
        if total is not None:
            counts["free"] = max(0, total - used)
        _replace(self._slots, counts)

    def breaker(self, *, open: bool) -> None:
        self._breaker.set(open)

    def error_counts(self) -> ErrorCounts:
        """The forerunner's counts of failures, for a Status."""
        return ErrorCounts(
            actor_exceptions=_total(self._actor_exceptions),
            boot_failures=_total(self._boot_failures),
            list_nodes_errors=_total(self._lists, source="cloud", outcome="failed"),
            create_node_errors=_total(self._create_errors),
            destroy_node_errors=_total(self._destroy_errors),
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


def _replace(gauge: Gauge, counts: Mapping[str, int]) -> None:
    """Show `counts` and nothing of before, under the gauge's one label.

    What went is set to 0 and not removed: a scrape in between must not find a gap.
    """
    gone = {next(iter(s.labels.values())) for m in gauge.collect() for s in m.samples}
    for label in gone.difference(counts):
        gauge.labels(label).set(0)
    for label, count in counts.items():
        gauge.labels(label).set(count)


def _total(counter: Counter, **labels: str) -> int:
    samples = [s for metric in counter.collect() for s in metric.samples]
    return int(
        sum(
            sample.value
            for sample in samples
            if sample.name.endswith("_total") and labels.items() <= sample.labels.items()
        )
    )
