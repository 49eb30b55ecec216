"""What is still to be released, as the metrics and the status page show it (D4)."""

from __future__ import annotations

from nodemanager.core.explain.explain import DecisionView
from nodemanager.core.model.reasons import Event
from nodemanager.core.model.world import Leftover, LeftoverKind
from nodemanager.core.plan import leftovers
from nodemanager.core.plan.leftovers import Ledger
from nodemanager.core.plan.plan import plan
from nodemanager.lib.log import INFO
from nodemanager.web.metrics import Metrics
from nodemanager.web.observer import WebObserver
from nodemanager.web.status import Board
from tests.core.build import world
from tests.fakes.clock import ManualClock

VOLUME = Leftover(LeftoverKind.VOLUME, "vol-1", "i-1")
INTERFACE = Leftover(LeftoverKind.INTERFACE, "eni-1", "i-1")


def shown(*ledgers: Ledger) -> tuple[Metrics, Board]:
    """What the metrics and the board show after a decision beside each of these ledgers."""
    clock, made = ManualClock(), world()
    made.round()
    board, metrics = Board(clock), Metrics("pool", clock)
    observer = WebObserver(board, metrics)
    snapshot = made.snapshot()
    decided = plan(snapshot, made.settings)
    for ledger in ledgers:
        counts = leftovers.counts(ledger)
        observer.show(DecisionView(snapshot, decided, made.settings, leftovers=counts))
        status = board.read()
        assert status is not None
        metrics.show(status)
    return metrics, board


def value(metrics: Metrics, name: str, **labels: str) -> float | None:
    return metrics.registry.get_sample_value(f"nodemanager_{name}", labels)


def test_the_ledger_is_a_gauge_by_kind_and_state_from_the_first_scrape_on() -> None:
    metrics, _ = shown()
    assert value(metrics, "leftovers", kind="volume", state="waiting") == 0
    ledger = leftovers.entered(Ledger(), [VOLUME, INTERFACE], 0.0)
    metrics, _ = shown(ledger)
    assert value(metrics, "leftovers", kind="volume", state="waiting") == 1
    metrics, _ = shown(ledger, leftovers.ended(ledger, "i-1", 0.0))
    assert value(metrics, "leftovers", kind="volume", state="waiting") == 0
    assert value(metrics, "leftovers", kind="interface", state="due") == 1


def test_releases_and_failures_of_each_kind_are_there_from_the_first_scrape_on() -> None:
    metrics, _ = shown()
    metrics.heard(Event.LEFTOVER_RELEASED, INFO, {"kind": "volume"})
    assert value(metrics, "leftovers_released_total", kind="volume") == 1
    assert value(metrics, "leftovers_released_total", kind="address") == 0
    assert value(metrics, "leftover_errors_total", kind="interface") == 0


def test_the_status_page_counts_what_is_left_and_names_nothing() -> None:
    ledger = leftovers.entered(Ledger(), [VOLUME, INTERFACE], 0.0)
    _, board = shown(leftovers.ended(ledger, "i-1", 0.0))
    status = board.read()
    assert status is not None
    page = status.to_json(with_names=False, now=status.made_at)
    assert page["leftovers"] == {"waiting": 0, "due": 2, "releasing": 0, "failed": 0}
    assert "vol-1" not in repr(page)
