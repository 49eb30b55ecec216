"""What the status page and the metrics are told of a decision."""

from __future__ import annotations

import pytest

from nodemanager.core.explain.picture import Picture
from nodemanager.web.metrics import Metrics
from nodemanager.web.observer import WebObserver
from nodemanager.web.status import Board
from tests.core.build import world
from tests.fakes.clock import ManualClock


@pytest.mark.parametrize(("mode", "held"), [("apply", True), ("dry-run", False)])
def test_a_dry_run_holds_no_lease(mode: str, held: bool) -> None:
    """O12, S3."""
    clock = ManualClock()
    board, metrics = Board(clock), Metrics("main", clock)
    observer = WebObserver(board, metrics, holder="here")
    made = world()
    made.settle()
    assert made.last is not None
    assert made.decided is not None
    observer.show(Picture(made.decided, made.last, made.settings, mode=mode))
    status = board.read()
    assert status is not None
    assert status.lease_held is held
    assert metrics.registry.get_sample_value("nodemanager_lease_held") == float(held)
