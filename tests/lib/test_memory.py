"""Garbage is collected by the clock, and not for what was listed."""

from __future__ import annotations

import gc
import weakref

from nodemanager.lib.memory import COLLECT_OBJECTS, COLLECT_S, collecting, uncollected
from tests.fakes.clock import ManualClock


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


def test_many_cycles_are_freed_before_it_is_time() -> None:
    """N35."""
    with collecting(ManualClock()) as collector:
        gone = weakref.ref(Knot())
        for _ in range(COLLECT_OBJECTS // 2):
            Knot()
        assert not collector.beat()
        assert gone() is not None
        for _ in range(2 * COLLECT_OBJECTS):
            Knot()
        assert collector.beat()
        assert gone() is None
        assert not collector.beat()


def test_what_replaces_as_much_brings_no_collection_forward() -> None:
    """A listing that replaces the one before."""
    with collecting(ManualClock()) as collector:
        listing = [[number] for number in range(2 * COLLECT_OBJECTS)]
        collector.beat()
        for _ in range(5):
            listing = [[number] for number in range(2 * COLLECT_OBJECTS)]
            assert not collector.beat()
        assert listing


def test_nothing_collects_in_between_and_as_before_afterwards() -> None:
    assert gc.isenabled()
    with collecting(ManualClock()):
        assert not gc.isenabled()
    assert gc.isenabled()


def test_what_was_frozen_before_stays_so() -> None:
    gc.freeze()
    with collecting(ManualClock()):
        pass
    assert gc.get_freeze_count() > 0


def test_nothing_is_collected_while_a_program_starts() -> None:
    with uncollected():
        assert not gc.isenabled()
        with collecting(ManualClock()):
            assert not gc.isenabled()
        assert not gc.isenabled()
    assert gc.isenabled()
