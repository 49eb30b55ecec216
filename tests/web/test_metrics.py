"""Each counter counts the events of its row, and no other."""

from __future__ import annotations

import math
from typing import Any

import pytest

from nodemanager.core.model.breaker import Breaker, Cause
from nodemanager.core.model.reasons import Event, Reason
from nodemanager.core.model.world import LeftoverKind, Outcome
from nodemanager.core.plan.slots import Slots
from nodemanager.errors import QuotaExceeded
from nodemanager.lib.log import INFO
from nodemanager.web.metric_rows import COUNTERS
from nodemanager.web.metrics import Metrics
from nodemanager.web.status import PollStatus, Status
from tests.fakes.clock import ManualClock

ERROR = QuotaExceeded("full")
COUNTED: list[tuple[Event, dict[str, Any], str, dict[str, str]]] = [
    (Event.LIST_FAILED, {"source": "cloud"}, "lists", {"source": "cloud", "outcome": "failed"}),
    (Event.LIST_PARTIAL, {"source": "cloud"}, "lists", {"source": "cloud", "outcome": "partial"}),
    (
        Event.LIST_SUSPECT,
        {"source": "records", "reason": Reason.COLLAPSED},
        "lists",
        {"source": "records", "outcome": "suspect"},
    ),
    (
        Event.CYCLE_ABORTED,
        {"reason": Reason.IMPOSSIBLE},
        "cycles_aborted",
        {"reason": "impossible"},
    ),
    (Event.RECORD_CLEANED, {"reason": Reason.STALE_SLOT}, "cleans", {"reason": "stale_slot"}),
    (
        Event.RECORD_CLEAN_SKIPPED,
        {"reason": Reason.READ_ONLY},
        "cleans_skipped",
        {"reason": "read_only"},
    ),
    (Event.RECORD_CLEAN_FAILED, {"action": "write", "error": ERROR}, "cleans_failed", {}),
    (Event.RECORD_PRUNED, {}, "prunes", {}),
    (Event.RECORD_FALSE_CLEAN, {"reason": Reason.FALSE_CLEAN}, "false_cleans", {}),
    (Event.RECORD_RESTORED, {"reason": Reason.FALSE_CLEAN}, "restores", {}),
    (Event.NODE_CREATED, {"size": "small"}, "boots", {"size": "small"}),
    (
        Event.NODE_GONE,
        {"reason": Reason.BOOT_FAILED, "size": "small"},
        "boot_failures",
        {"size": "small"},
    ),
    (Event.NODE_GONE, {"reason": Reason.IDLE, "size": None}, "shutdowns", {"reason": "idle"}),
    (
        Event.NODE_SETUP_FAILED,
        {"size": "small", "error": ERROR},
        "create_errors",
        {"size": "small", "kind": "QuotaExceeded"},
    ),
    (
        Event.NODE_SHUTDOWN_SKIPPED,
        {"reason": Reason.READ_ONLY},
        "shutdowns_skipped",
        {"reason": "read_only"},
    ),
    (Event.NODE_SHUTDOWN_FAILED, {"outcome": Outcome.FAILED}, "destroy_errors", {}),
    (Event.INVARIANT_BROKEN, {"rule": "C3"}, "violations", {"rule": "C3"}),
    (Event.ACTOR_DIED, {"actor": "NodeSetupActor"}, "actor_exceptions", {}),
    (Event.BREAKER_OPENED, {"cause": "collapsed"}, "breaker_opened", {"reason": "collapsed"}),
    (
        Event.LEFTOVER_RELEASED,
        {"kind": LeftoverKind.VOLUME.value},
        "leftovers_released",
        {"kind": "volume"},
    ),
    (
        Event.LEFTOVER_RELEASE_FAILED,
        {"kind": LeftoverKind.VOLUME.value, "outcome": Outcome.UNKNOWN},
        "leftover_errors",
        {"kind": "volume"},
    ),
    (Event.LEFTOVER_UNKNOWN, {"error": ERROR}, "leftover_ask_errors", {}),
]

NOT_COUNTED: list[tuple[Event, dict[str, Any], str]] = [
    (Event.LIST_SUSPECT, {"source": "cloud", "reason": Reason.LISTING_SHORT}, "lists"),
    (Event.RECORD_CLEAN_FAILED, {"action": "unfence", "error": ERROR}, "cleans_failed"),
    (Event.NODE_GONE, {"reason": Reason.IDLE, "size": "small"}, "boot_failures"),
    (Event.NODE_SHUTDOWN_FAILED, {"outcome": Outcome.UNKNOWN}, "destroy_errors"),
    (
        Event.LEFTOVER_RELEASE_FAILED,
        {"kind": "volume", "outcome": Outcome.ACCEPTED},
        "leftover_errors",
    ),
    (Event.LEFTOVER_UNKNOWN, {"detail": "found by its tags"}, "leftover_ask_errors"),
]


def totals(metrics: Metrics, name: str) -> dict[tuple[str, ...], float]:
    return {
        tuple(sample.labels.values()): sample.value
        for family in metrics.registry.collect()
        for sample in family.samples
        if sample.name == f"nodemanager_{name}_total" and sample.value
    }


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def metrics(clock: ManualClock) -> Metrics:
    return Metrics("main", clock)


@pytest.mark.parametrize(
    ("event", "fields", "name", "labels"), COUNTED, ids=[f"{row[0]}-{row[2]}" for row in COUNTED]
)
def test_an_event_told_is_one_more(
    event: Event, fields: dict[str, Any], name: str, labels: dict[str, str], metrics: Metrics
) -> None:
    for _ in range(2):
        metrics.heard(event, INFO, fields)
    assert totals(metrics, name) == {tuple(labels.values()): 2}
    assert metrics.registry.get_sample_value(f"nodemanager_{name}_total", labels) == 2


@pytest.mark.parametrize(
    ("event", "fields", "name"), NOT_COUNTED, ids=[f"{row[0]}-{row[2]}" for row in NOT_COUNTED]
)
def test_what_ended_otherwise_is_not_counted(
    event: Event, fields: dict[str, Any], name: str, metrics: Metrics
) -> None:
    metrics.heard(event, INFO, fields)
    assert totals(metrics, name) == {}


def test_every_counter_has_its_case() -> None:
    assert {row.name for row in COUNTERS} | {"lists"} == {name for _, _, name, _ in COUNTED}


def test_a_whole_listing_says_how_long_how_many_and_when(metrics: Metrics) -> None:
    metrics.heard(Event.LIST_OK, INFO, {"source": "cloud", "took_s": 0.25, "items": 40})
    value = metrics.registry.get_sample_value
    assert totals(metrics, "lists") == {("cloud", "ok"): 1}
    assert value("nodemanager_list_seconds_sum", {"source": "cloud"}) == 0.25
    assert value("nodemanager_list_items", {"source": "cloud"}) == 40
    assert value("nodemanager_list_last_ok_timestamp_seconds", {"source": "cloud"})


def released(metrics: Metrics, reason: str) -> tuple[float | None, float | None]:
    """How many slots were freed for that reason, and the seconds that they took together."""
    value, labels = metrics.registry.get_sample_value, {"reason": reason}
    name = "nodemanager_slot_release_seconds"
    return value(f"{name}_count", labels), value(f"{name}_sum", labels)


def test_from_a_nodes_last_sign_of_life_to_its_freed_slot(
    metrics: Metrics, clock: ManualClock
) -> None:
    clean = {"reason": Reason.STALE_SLOT, "record": "r1"}
    metrics.heard(Event.RECORD_CLEAN, INFO, clean | {"idle_s": 7300.0})
    clock.advance(10.0)
    metrics.heard(Event.RECORD_CLEANED, INFO, clean)
    assert released(metrics, "stale_slot") == (1, 7310)
    metrics.heard(Event.RECORD_CLEANED, INFO, clean)
    assert released(metrics, "stale_slot") == (1, 7310)


def test_a_clean_that_was_skipped_is_measured_anew(metrics: Metrics, clock: ManualClock) -> None:
    """It was alive after all."""
    clean = {"reason": Reason.STALE_SLOT, "record": "r1"}
    metrics.heard(Event.RECORD_CLEAN, INFO, clean | {"idle_s": 7300.0})
    clock.advance(50_000.0)
    metrics.heard(Event.RECORD_CLEAN, INFO, clean | {"idle_s": 7201.0})
    metrics.heard(Event.RECORD_CLEANED, INFO, clean)
    assert released(metrics, "stale_slot") == (1, 7201)


def test_from_the_end_that_we_made_of_a_node_to_its_freed_slot(
    metrics: Metrics, clock: ManualClock
) -> None:
    gone = {"reason": Reason.IDLE_BEYOND_DEMAND, "size": "small", "record": "r1"}
    metrics.heard(Event.NODE_GONE, INFO, gone)
    clock.advance(2.0)
    cleaned = {"reason": Reason.AFTER_SHUTDOWN, "record": "r1"}
    metrics.heard(Event.RECORD_CLEANED, INFO, cleaned)
    assert released(metrics, "after_shutdown") == (1, 2)


def test_a_place_rests_and_wakes(metrics: Metrics, clock: ManualClock) -> None:
    until = clock.boottime() + 300
    status = Status(clock.boottime(), "main", resting=(("small", "zone-a", until),))
    labels = {"size": "small", "place": "zone-a"}

    def rest() -> float | None:
        metrics.show(status)
        return metrics.registry.get_sample_value("nodemanager_place_rest_seconds", labels)

    assert rest() == 300
    clock.advance(200)
    assert rest() == 100
    clock.advance(101)
    assert rest() == 0
    status = Status(clock.boottime(), "main")
    assert rest() == 0


def test_ages_go_on_while_nothing_is_decided(metrics: Metrics, clock: ManualClock) -> None:
    now = clock.boottime()
    polls = {"cloud": PollStatus(now - 5, items=3), "demand": PollStatus(failures_in_a_row=4)}
    status = Status(now, "main", polls=polls, poll_stale_after=600.0, last_ping_s=20.0)
    value = metrics.registry.get_sample_value
    metrics.show(status)
    clock.advance(60)
    metrics.show(status)
    assert value("nodemanager_poll_age_seconds", {"source": "cloud"}) == 65
    assert value("nodemanager_poll_age_seconds", {"source": "demand"}) is None
    assert value("nodemanager_poll_failures", {"source": "demand"}) == 4
    assert value("nodemanager_poll_stale_after_seconds") == 600
    assert value("nodemanager_last_ping_age_seconds") == 80
    metrics.show(Status(now, "main"))
    age = value("nodemanager_last_ping_age_seconds")
    assert age is not None
    assert math.isnan(age)


def test_what_holds_the_breaker_open_is_told_by_cause(metrics: Metrics) -> None:
    two = Breaker(Cause.WRITES_FAIL, 1.0, others=(Breaker(Cause.FALSE_CLEAN, 2.0),))
    for breaker, causes in ((two, {"writes_fail", "false_clean"}), (Breaker(), set())):
        metrics.show(Status(0.0, "main", breaker=breaker))
        found = {
            sample.labels["cause"]
            for family in metrics.registry.collect()
            for sample in family.samples
            if sample.name == "nodemanager_breaker_causes" and sample.value
        }
        assert found == causes


def test_the_slots_of_a_decision_make_the_trend(metrics: Metrics, clock: ManualClock) -> None:
    for used in range(10, 21):
        metrics.slots(Slots(30, 30 - used, {"no_node": used}, None))
        clock.advance(600)
    run_out = metrics.registry.get_sample_value("nodemanager_slots_run_out_seconds")
    assert run_out == pytest.approx(10 * 600)
    metrics.slots(Slots(None, None, {"no_node": 30}, None))
    assert run_out == metrics.registry.get_sample_value("nodemanager_slots_run_out_seconds")


def test_a_first_failure_is_an_increase(metrics: Metrics) -> None:
    """A series that begins at 1 has no increase for Prometheus."""
    value = metrics.registry.get_sample_value
    for rule in ("C0", "C12", "U8", "proof"):
        assert value("nodemanager_violations_total", {"rule": rule}) == 0
    assert value("nodemanager_false_cleans_total") == 0
