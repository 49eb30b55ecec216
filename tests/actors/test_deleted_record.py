"""A node whose record was deleted works on, as long as its scheduler gives it work (D7)."""

from __future__ import annotations

import pytest

from nodemanager.core.model.world import WorkerState
from tests.actors.conftest import MakeRig
from tests.actors.rig import Rig, restart
from tests.fakes.scheduler import FakeScheduler

pytestmark = pytest.mark.slow

HOUR = 3600.0


def pool(make_rig: MakeRig, scheduler: FakeScheduler) -> Rig:
    """Four nodes at work for hours."""
    rig = make_rig(min_nodes=0, dispatcher="slurm")
    rig.fleet.state = None
    for _ in range(4):
        _, record = rig.fleet.add_node(age=10 * HOUR)
        scheduler.says(record.hostname, WorkerState.BUSY)
    rig.start()
    rig.turn(600)
    return rig


def test_a_node_at_work_outlives_its_record_and_goes_once_its_work_is_done_d7(
    make_rig: MakeRig, scheduler: FakeScheduler
) -> None:
    rig = pool(make_rig, scheduler)
    record = next(iter(rig.store.rows.values()))
    node = next(one for one in rig.nodes if one.tags.record == record.uuid)
    del rig.store.rows[record.uuid]
    rig.turn(1.5 * HOUR)
    assert node.id in {one.id for one in rig.nodes}
    restart(rig)
    rig.turn(HOUR)
    assert node.id in {one.id for one in rig.nodes}, "the next run knows its hostname, too"
    scheduler.says(record.hostname, WorkerState.IDLE)
    scheduler.drain(record.hostname, "by an operator")
    rig.turn(HOUR)
    assert node.id not in {one.id for one in rig.nodes}
