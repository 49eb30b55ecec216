"""A decision about many nodes takes long, and must not take all of the daemon's time."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest

from nodemanager.actors.daemon.context import REST
from nodemanager.core.plan.plan import Plan, plan
from tests.actors.conftest import HOUR, MakeRig

pytestmark = pytest.mark.slow


def test_a_decision_that_takes_long_leaves_most_of_the_time_to_all_else_u13(
    make_rig: MakeRig, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As with ten thousand nodes: each clean's end is news, and the next clean waited for it."""
    rig = make_rig(min_nodes=0, backlog="clean", max_cleans_per_cycle=25, node_stale_after=600)
    for slot in range(1, 26):
        rig.store.add_leaked(slot, quiet_for=5 * HOUR)
    decided, took_s = [], 2.0

    def slowly(*given: Any, **more: Any) -> Plan:
        decided.append(rig.clock.boottime())
        rig.clock.advance(took_s)
        return plan(*given, **more)

    monkeypatch.setattr("nodemanager.actors.daemon.decisions.plan", slowly)
    rig.start()
    rig.turn(600)
    assert len(rig.lines("record.cleaned")) == 25
    rests = [later - sooner for sooner, later in pairwise(decided)]
    assert min(rests) >= took_s * (1 + REST)
    assert len(decided) > 10
