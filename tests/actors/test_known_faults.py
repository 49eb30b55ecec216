"""Faults that are known and not mended yet: each test says what should be, and fails today.

`doc/fault-model.rst` lists them by the same ids, with what they mean to an operator. A test that
passes is reported as a failure: then its mark and its row go.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from nodemanager.actors.messages import Beat
from nodemanager.core.model import Job, WorkerState
from nodemanager.journal.api import Intent, IntentKind
from tests.actors.conftest import MakeRig
from tests.fakes import FakeCloud, FakeStore, TickingClock
from tests.fakes.journal import MemoryJournal

HOUR = 3600.0
WITHIN_S = 30.0
PAGE = Path(__file__).parents[2] / "doc" / "fault-model.rst"


def known_fault(id: str, what: str) -> pytest.MarkDecorator:
    return pytest.mark.xfail(strict=True, reason=f"{id}: {what}", raises=AssertionError)


def heard_by(*actors: Any) -> None:
    """Return when these have handled all that was told them before."""
    for actor in actors:
        actor.ask(Beat(lambda: None), timeout=WITHIN_S)


@known_fault("N6", "a created node that no listing shows and that never pings is never ended")
def test_a_created_node_that_nobody_sees_or_hears_is_a_failed_boot(make_rig: MakeRig) -> None:
    """D13: the cloud, asked by id, has it."""
    rig = make_rig(min_nodes=0, max_nodes=2, boot_fail_after=600)
    rig.jobs = (Job("job"),)
    rig.fleet.mute = True
    rig.start()
    rig.turn(1)
    (node,) = rig.nodes
    rig.cloud.machines[node.id].listed = False
    rig.jobs = ()
    rig.turn(2 * HOUR)
    assert rig.nodes == []


class StopsBeforeDestroy(MemoryJournal):
    """The process is stopped right after a destroy was written down: `meanwhile` happens."""

    meanwhile: Callable[[], None]

    def intend(self, intents: Sequence[Intent]) -> None:
        super().intend(intents)
        if any(one.kind is IntentKind.DESTROY for one in intents):
            self.meanwhile()


def test_a_destroy_that_was_confirmed_long_ago_is_not_sent(
    make_rig: MakeRig, clock: TickingClock
) -> None:
    """C11's not-after, D12: the process was stopped in between, and the node has work by now."""
    journal = StopsBeforeDestroy(clock)
    rig = make_rig(cloud=FakeCloud(clock), store=FakeStore(clock), journal=journal, min_nodes=0)
    rig.fleet.state = WorkerState.IDLE
    machine, _ = rig.fleet.add_node(age=10 * HOUR)

    def stopped_for_an_hour() -> None:
        rig.fleet.state = WorkerState.BUSY
        clock.advance(HOUR)
        rig.fleet.beat()

    journal.meanwhile = stopped_for_an_hour
    rig.start()
    rig.turn(600)
    assert machine.node in rig.nodes


def test_the_manual_lists_each_known_fault_and_no_other() -> None:
    section = PAGE.read_text(encoding="utf-8").partition("Known faults\n")[2]
    listed = re.findall(r"^   \* - (N\d+)$", section, flags=re.MULTILINE)
    marked = {
        mark.kwargs["reason"].partition(":")[0]
        for name, test in globals().items()
        if name.startswith("test_")
        for mark in getattr(test, "pytestmark", ())
        if mark.name == "xfail"
    }
    assert sorted(listed) == sorted(marked)
