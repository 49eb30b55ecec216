"""Records: states (T7), and every condition of a clean at its edge (C0-C10, C20-C22)."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from nodemanager.core.model import CloudState, RecordState, Tags, WorkerState
from nodemanager.core.reasons import Kind, Reason
from nodemanager.core.records import classify
from nodemanager.core.breaker import Cause, opened
from nodemanager.core.snapshot import Expected, Flight
from tests.core.build import POOL, World, claim, cleaned, incarnation_of, node, record, world

STALE = 7200.0
"""node_stale_after's default."""


def gone(quiet: float = 9000.0, **fields: Any) -> World:
    """A world of one record whose node is gone, absence settled, and its plan."""
    made = world()
    made.add_record("r1", quiet=quiet, **fields)
    made.settle()
    return made


def quiet_at_plan(quiet: float) -> World:
    """A world in which `r1` has been quiet for exactly `quiet` seconds when it is judged."""
    made = world()
    made.add_record("r1", quiet=0.0)
    made.round(2)
    made.now = made.now + 100_000.0
    made.records = [record("r1", at=made.ago(quiet - 200.0))]
    made.poll()
    made.advance(90.0)
    made.poll()
    made.now = made.records[0].last_ping_at - (made.store_now - made.now) + quiet
    made.plan()
    return made


def test_the_record_of_a_vanished_node_gives_its_slot_back() -> None:
    made = gone()
    verdict = made.of_record("r1")
    assert (verdict.kind, verdict.reason) == (Kind.CLEAN, Reason.STALE_SLOT)
    assert made.cleaned == ["r1"]
