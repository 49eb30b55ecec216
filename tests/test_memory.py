"""Garbage is collected by the clock, and not for what was listed."""

from __future__ import annotations

import gc
import weakref

from nodemanager.clock import ManualClock
from nodemanager.memory import COLLECT_S, collecting


class Knot:
    """Refers to itself, so that only a collection frees it."""

    def __init__(self) -> None:
        self.itself = self


def test_cycles_are_freed_once_it_is_time() -> None:
    clock = ManualClock()
    with collecting(clock) as collector:
        gone = weakref.ref(Knot())
        clock.advance(COLLECT_S - 1)
        assert not collector.beat()
        assert gone() is not None
        clock.advance(1)
        assert collector.beat()
        assert gone() is None
        assert not collector.beat()


def test_nothing_collects_in_between_and_as_before_afterwards() -> None:
    assert gc.isenabled()
    with collecting(ManualClock()):
        assert not gc.isenabled()
    assert gc.isenabled()
