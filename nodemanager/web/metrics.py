"""Counters and gauges for Prometheus, in a registry of their own.

Tables define most of them (metric_rows.py): COUNTERS count logged events, GAUGES and AGES show the
newest status. The others, which are measured here, are histograms, what the process knows of
itself, how soon slots came free, and when they run out.
"""

from __future__ import annotations

import math
import threading
from collections import Counter as Tally
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from enum import StrEnum
from typing import NamedTuple

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, ProcessCollector
from prometheus_client.core import CounterMetricFamily, Metric
from prometheus_client.registry import Collector

from nodemanager import __version__
from nodemanager.core.model.breaker import Cause
from nodemanager.core.model.reasons import Event, Reason
from nodemanager.core.model.world import LeftoverKind
from nodemanager.core.plan.leftovers import LedgerState
from nodemanager.core.plan.slots import Leak, Slots
from nodemanager.core.safety.proof import UNPROVEN
from nodemanager.httpserver.refusals import Refusals
from nodemanager.lib.clock import Clock
from nodemanager.lib.logline import Fields
from nodemanager.web.metric_rows import AGES, COUNTERS, GAUGES, Aged, Counted, Gauged
from nodemanager.web.status import ErrorCounts, Status, slots_used

MOST = 100_000
"""The most ends that are remembered, of records that were not freed yet."""


class ReleaseTimes:
    """Remembers for each record, from the logged events, when its node ended (boottime seconds).

    A node that went away by itself ended with its last sign of life, as its clean tells it
    (`idle_s`); one that we destroyed, once the cloud said that it was gone.
    """

    def __init__(self) -> None:
        self._ended: dict[str, float] = {}

    def heard(self, event: Event, fields: Fields, now: float) -> float | None:
        """Take an event. For a freed record: the seconds since its node's end, if it is known."""
        record = fields.get("record")
        if record is None:
            return None
        if event is Event.NODE_GONE:
            self._note(record, now)
        elif event is Event.RECORD_CLEAN and (idle_s := fields.get("idle_s")) is not None:
            self._note(record, now - idle_s)
        elif event is Event.RECORD_CLEANED and (ended := self._ended.pop(record, None)) is not None:
            return max(0.0, now - ended)
        return None

    def _note(self, record: str, at: float) -> None:
        self._ended.pop(record, None)
        self._ended[record] = at
        if len(self._ended) > MOST:
            del self._ended[next(iter(self._ended))]


# When the slots run out, if they go on being taken as they were lately.

WINDOW_S = 6 * 3600.0
"""How far back the trend looks."""
NEEDED_S = 3600.0
"""The least time of samples for a trend: the nodes that a start boots are none."""
EVERY_S = 60.0


class Taken(NamedTuple):
    """How many slots were held at `at` (boottime seconds), and how many were free."""

    at: float
    used: int
    free: int


class SlotTrend:
    """Keeps a sample a minute of the slots taken. Any thread may call its methods."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._samples: deque[Taken] = deque()

    def note(self, sample: Taken) -> None:
        """Take a sample, in the place of the last one until that is a minute from its own last."""
        with self._lock:
            samples = self._samples
            if len(samples) > 1 and samples[-1].at - samples[-2].at < EVERY_S:
                samples.pop()
            samples.append(sample)
            while sample.at - samples[0].at > WINDOW_S:
                samples.popleft()

    def run_out_s(self) -> float:
        """See `run_out_s`."""
        with self._lock:
            samples = tuple(self._samples)
        return run_out_s(samples)


def run_out_s(samples: Sequence[Taken]) -> float:
    """Seconds until no slot is free, by a straight line through `samples`; from the newest on.

    0 where none is free, infinite where they are not taken faster than given back, or where there
    are samples of less than NEEDED_S.
    """
    if not samples:
        return math.inf
    newest = samples[-1]
    if newest.free <= 0:
        return 0.0
    if newest.at - samples[0].at < NEEDED_S:
        return math.inf
    mean_at = math.fsum(one.at for one in samples) / len(samples)
    mean_used = math.fsum(one.used for one in samples) / len(samples)
    spread = math.fsum((one.at - mean_at) ** 2 for one in samples)
    rise = math.fsum((one.at - mean_at) * (one.used - mean_used) for one in samples)
    return newest.free * spread / rise if rise > 0.0 else math.inf


# By which way the nodes went whose slots leak.


"""The most records whose node's way out is remembered."""
UNSEEN = "unseen"
"""No destroy of this run is known: the node died or was ended by others, or before the start."""
GOING = frozenset({Event.NODE_SHUTDOWN_STARTED, Event.NODE_GONE})


class WaysOut:
    """Remembers for each record, from the logged events, why its node was ended.

    The reasons are those of doc/tune. A record that is freed, or gets a new node, is forgotten.
    """

    def __init__(self) -> None:
        self._reasons: dict[str, str] = {}

    def heard(self, event: Event, fields: Fields) -> None:
        record = fields.get("record")
        if record is None:
            return
        if event in GOING:
            self._reasons.pop(record, None)
            reason = fields["reason"]
            self._reasons[record] = reason.value if isinstance(reason, StrEnum) else str(reason)
            if len(self._reasons) > MOST:
                del self._reasons[next(iter(self._reasons))]
        elif event in (Event.RECORD_CLEANED, Event.NODE_CREATED):
            self._reasons.pop(record, None)

    def count(self, records: Iterable[str]) -> Mapping[str, int]:
        """How many of those records, by uuid, had a node that went each way."""
        return Tally(self._reasons.get(record, UNSEEN) for record in records)


SOURCES = ("cloud", "records", "demand", "scheduler")
RULES = (*(f"C{number}" for number in range(13)), "U6", "U8", UNPROVEN)
"""What the runtime monitor may call broken."""
_SECONDS = (0.01, 0.03, 0.1, 0.3, 1, 3, 10, 30, 100, 300)
_HOUR = 3600
_RELEASE_SECONDS = (
    *(1, 10, 60, 300, 900, 1800),
    *(hours * _HOUR for hours in (1, 2, 2.25, 2.5, 3, 4, 6, 12, 24)),
)
"""Finer beyond two hours, the default of `node_stale_after`."""

LISTS = {
    Event.LIST_OK: "ok",
    Event.LIST_FAILED: "failed",
    Event.LIST_PARTIAL: "partial",
    Event.LIST_SUSPECT: "suspect",
}
"""The outcome of a list call by its logged event."""


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
        self._releases = ReleaseTimes()
        self._ways_out = WaysOut()
        self._release_seconds = self._histogram(
            "slot_release_seconds",
            "From a node's end to its freed slot, by the clean's reason.",
            "reason",
            buckets=_RELEASE_SECONDS,
        )
        self._trend = SlotTrend()
        self._gauge(
            "slots_run_out_seconds",
            "Until no slot is free, if they go on being taken as in the last 6 hours.",
        ).set_function(self._trend.run_out_s)

        self._counters: dict[str, Counter] = {}
        self._rows: dict[Event, list[Counted]] = {}
        for row in COUNTERS:
            self._counters[row.name] = self._counter(row.name, row.doc, *row.labels)
            self._rows.setdefault(row.event, []).append(row)
        rows: list[Gauged | Aged] = [*GAUGES, *AGES]
        self._gauges = {row.name: self._gauge(row.name, row.doc, *row.labels) for row in rows}
        self._start_at_none()

        self._refused = _Refused()
        self.registry.register(self._refused)

    def _start_at_none(self) -> None:
        """Start these series at 0, so that a first failure shows as an increase."""
        for rule in RULES:
            self._counters["violations"].labels(rule)
        for cause in Cause:
            self._counters["breaker_opened"].labels(cause.value)
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

    def count_pings(self, answered: Callable[[], int]) -> None:
        """Show how many pings this process's registry has answered, as `answered` tells."""
        self.registry.register(_Pings(answered))

    def heard(self, event: Event, level: int, fields: Fields) -> None:
        """Count a logged event of any level; a log listener."""
        for row in self._rows.get(event, ()):
            if row.when(fields):
                counter = self._counters[row.name]
                (counter.labels(*row.label_values(fields)) if row.labels else counter).inc()
        if event in LISTS:
            self._listed(event, fields)
        self._ways_out.heard(event, fields)
        took_s = self._releases.heard(event, fields, self._clock.boottime())
        if took_s is not None:
            self._release_seconds.labels(fields["reason"]).observe(took_s)

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

    def slots(self, slots: Slots) -> None:
        if slots.total is not None:
            used = slots_used(slots)
            self._trend.note(Taken(self._clock.boottime(), used, max(0, slots.total - used)))

    def show(self, status: Status) -> None:
        """Set every gauge from the newest status; for each scrape."""
        for row in GAUGES:
            value, gauge = row.of(status), self._gauges[row.name]
            if isinstance(value, Mapping):
                _replace(
                    gauge,
                    {
                        ((label,) if isinstance(label, str) else label): count
                        for label, count in value.items()
                    },
                )
            else:
                gauge.set(value)
        now = self._clock.boottime()
        for aged in AGES:
            seconds, gauge = aged.of(status, now), self._gauges[aged.name]
            if aged.labels:
                _replace(gauge, seconds)
            else:
                gauge.set(seconds.get((), math.nan))

    def leaked_by_end(self, leaks: Iterable[Leak]) -> Mapping[str, int]:
        """The leaked slots by the way in which their nodes went."""
        return self._ways_out.count(record for leak in leaks for record in leak.records)

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

    def _histogram(
        self, name: str, doc: str, *labels: str, buckets: tuple[float, ...] = _SECONDS
    ) -> Histogram:
        return Histogram(
            f"nodemanager_{name}", doc, labels, buckets=buckets, registry=self.registry
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


class _Pings(Collector):
    """Collects the number of answered pings."""

    def __init__(self, answered: Callable[[], int]) -> None:
        self._answered = answered

    def collect(self) -> Iterator[Metric]:
        yield CounterMetricFamily(
            "nodemanager_pings",
            "Pings that the registry of this process took.",
            value=self._answered(),
        )


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
