"""What is still to be released, as the metrics and the status page show it (D4)."""

from __future__ import annotations

from nodemanager.core import leftovers
from nodemanager.core.leftovers import Ledger
from nodemanager.core.model import Leftover, LeftoverKind
from nodemanager.core.plan import plan
from nodemanager.web.metrics import Metrics
from nodemanager.web.observer import WebObserver
from nodemanager.web.status import Board
from tests.core.build import world
from tests.fakes.clock import ManualClock

VOLUME = Leftover(LeftoverKind.VOLUME, "vol-1", "i-1")
INTERFACE = Leftover(LeftoverKind.INTERFACE, "eni-1", "i-1")


def watched() -> tuple[WebObserver, Metrics, Board]:
    clock = ManualClock()
    board, metrics = Board(clock), Metrics("pool", clock)
    return WebObserver(board, metrics, mode="apply", holder="here"), metrics, board


def value(metrics: Metrics, name: str, **labels: str) -> float | None:
    return metrics.registry.get_sample_value(f"nodemanager_{name}", labels)


def test_the_ledger_is_a_gauge_by_kind_and_state_from_the_first_scrape_on() -> None:
    observer, metrics, _ = watched()
    assert value(metrics, "leftovers", kind="volume", state="waiting") == 0
    ledger = leftovers.entered(Ledger(), [VOLUME, INTERFACE], 0.0)
    observer.leftovers(leftovers.counts(ledger))
    assert value(metrics, "leftovers", kind="volume", state="waiting") == 1
    observer.leftovers(leftovers.counts(leftovers.ended(ledger, "i-1", 0.0)))
    assert value(metrics, "leftovers", kind="volume", state="waiting") == 0
    assert value(metrics, "leftovers", kind="interface", state="due") == 1


def test_releases_and_failures_are_counted() -> None:
    observer, metrics, _ = watched()
    observer.leftover_released(LeftoverKind.VOLUME)
    observer.leftover_failed(LeftoverKind.INTERFACE)
    observer.leftovers_unknown()
    assert value(metrics, "leftovers_released_total", kind="volume") == 1
    assert value(metrics, "leftovers_released_total", kind="address") == 0
    assert value(metrics, "leftover_errors_total", kind="interface") == 1
    assert value(metrics, "leftover_ask_errors_total") == 1


def test_the_status_page_counts_what_is_left_and_names_nothing() -> None:
    observer, _, board = watched()
    made = world()
    made.round()
    ledger = leftovers.entered(Ledger(), [VOLUME, INTERFACE], 0.0)
    observer.leftovers(leftovers.counts(leftovers.ended(ledger, "i-1", 0.0)))
    snapshot = made.snapshot()
    observer.planned(plan(snapshot, made.settings), snapshot, made.settings, 0.0)
    status = board.read()
    assert status is not None
    shown = status.to_json(with_names=False, now=made.now)
    assert shown["leftovers"] == {"waiting": 0, "due": 2, "releasing": 0, "failed": 0}
    assert "vol-1" not in repr(shown)
