"""What a plan takes over from the plan before: what came out the same, and nothing else.

That this never shows, each plan of each test of core proves: see `World.plan`.
"""

from __future__ import annotations

import pytest

from nodemanager.core.model.reasons import Reason
from nodemanager.core.model.world import WorkerState
from nodemanager.core.observe.pairing import Pairs
from tests.core.build import World, world


@pytest.fixture
def steady() -> World:
    """Two busy pairs that were planned once, and that pinged since."""
    made = world()
    for uuid in ("r1", "r2"):
        made.add_record(uuid, worker_state=WorkerState.BUSY)
        made.add_node(uuid)
    made.round()
    for uuid in ("r1", "r2"):
        made.ping(uuid, WorkerState.BUSY)
    return made


def joined(made: World) -> Pairs:
    assert made.last is not None
    return made.last.pairs


def test_verdicts_that_come_out_the_same_are_those_of_the_plan_before(steady: World) -> None:
    records, nodes = steady.of_record("r1"), steady.of_node("i-r1")
    assert (records.reason, nodes.reason) == (Reason.PAIRED, Reason.BUSY)
    steady.round()
    assert steady.of_record("r1") is records
    assert steady.of_node("i-r1") is nodes


def test_another_reason_or_another_node_makes_another_verdict(steady: World) -> None:
    steady.ping("r1", WorkerState.IDLE)
    steady.change("r2", instance_id="i-other")
    steady.change_node("i-r2", id="i-other")
    steady.round()
    assert steady.of_node("i-r1").reason is not Reason.BUSY
    assert steady.of_record("r2").measures == {"node": "i-other"}


def test_the_same_listings_are_joined_once(steady: World) -> None:
    steady.round()
    before = joined(steady)
    steady.poll_cloud()
    steady.plan()
    assert joined(steady) is before


@pytest.mark.parametrize("what", ["records", "nodes", "settings"])
def test_another_listing_or_setting_is_joined_again(steady: World, what: str) -> None:
    steady.round()
    before = joined(steady)
    if what == "records":
        steady.ping("r1", WorkerState.BUSY)
        steady.poll_records()
    elif what == "nodes":
        steady.change_node("i-r1", held=True)
        steady.poll_cloud()
    else:
        steady.with_settings(pool="others")
    steady.plan()
    assert joined(steady) is not before
    assert (len(joined(steady).record_of) == 0) == (what == "settings")
