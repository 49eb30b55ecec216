"""Each counter counts the events of its row, and no other."""

from __future__ import annotations

from typing import Any

import pytest

from nodemanager.core.model.reasons import Event, Reason
from nodemanager.core.model.world import LeftoverKind, Outcome
from nodemanager.errors import QuotaExceeded
from nodemanager.log import INFO
from nodemanager.web.metrics import COUNTERS, Metrics
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
    (Event.NODE_SETUP_FAILED, {"error": ERROR}, "create_errors", {"kind": "QuotaExceeded"}),
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
def metrics() -> Metrics:
    return Metrics("main", ManualClock())


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
