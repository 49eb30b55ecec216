"""A decision about many nodes takes long, and must not take all of the daemon's time."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest

from nodemanager.actors.daemon.context import REST
from nodemanager.core.explain.verify import verify
from nodemanager.core.model.annotations import PAUSE
from nodemanager.core.model.reasons import Outlook, Reason
from nodemanager.core.operate.replies import Reply, Result
from nodemanager.core.operate.verbs import Verb
from nodemanager.core.plan.plan import Plan, plan
from tests.actors.conftest import HOUR, MakeRig
from tests.actors.rig import Rig
from tests.actors.test_operators import Operator

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


def slow(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    """From now on each decision takes two seconds, and the next one waits six more."""

    def slowly(*given: Any, **more: Any) -> Plan:
        rig.clock.advance(2.0)
        return plan(*given, **more)

    monkeypatch.setattr("nodemanager.actors.daemon.decisions.plan", slowly)
    rig.turn(60)


@pytest.fixture
def resting(make_rig: MakeRig, monkeypatch: pytest.MonkeyPatch) -> Rig:
    """A pool of two nodes at rest, whose daemon decides slowly."""
    rig = make_rig(min_nodes=2, max_nodes=4, backlog="clean")
    for _ in range(2):
        rig.fleet.add_node(age=10 * HOUR)
    rig.start()
    rig.turn(300)
    slow(rig, monkeypatch)
    assert verified(rig) == (Outlook.SETTLED, [])
    return rig


def verified(rig: Rig) -> tuple[Outlook, list[Reason]]:
    """What `nodemanager verify` tells now."""
    assert rig.shown is not None
    answer = verify(rig.shown, rig.clock.boottime())
    return answer.outlook, [one.reason for one in answer.open]


WAITS = Outlook.SETTLING, [Reason.UNDECIDED]


def test_who_has_the_answer_to_an_order_is_not_shown_the_time_before_it(resting: Rig) -> None:
    """`resume` and `verify` in one script: a decision from before the resume calls it paused."""
    rig, operator = resting, Operator(resting)
    orders: tuple[tuple[Callable[[], Reply], bool, tuple[Outlook, list[Reason]]], ...] = (
        (operator.pause, True, (Outlook.STUCK, [Reason.PAUSED])),
        (operator.resume, False, (Outlook.SETTLED, [])),
    )
    for order, is_paused, then in orders:
        assert order().result is Result.DONE
        assert verified(rig) == WAITS
        assert rig.shown is not None
        assert (PAUSE in rig.shown.marks.pool) is is_paused
        rig.turn(30)
        assert verified(rig) == then


def test_a_breaker_that_was_reset_is_not_shown_as_open(
    collapsed: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    slow(collapsed, monkeypatch)
    assert Reason.BREAKER_OPEN in verified(collapsed)[1]
    assert Operator(collapsed).reset().result is Result.DONE
    assert verified(collapsed) == WAITS


def test_what_a_reload_changed_is_not_verified_by_a_decision_from_before_it(resting: Rig) -> None:
    rig = resting
    rig.apply(replace(rig.system.settings, min_nodes=3))
    assert verified(rig) == WAITS
    rig.turn(30)
    assert verified(rig)[0] is Outlook.SETTLING
    assert verified(rig) != WAITS


def test_what_a_decision_itself_answers_is_shown_with_it(resting: Rig) -> None:
    """A cordon is judged by the decision that answers it: nothing is left to wait for."""
    rig = resting
    node_id = min(one.id for one in rig.nodes)
    replies = Operator(rig).say(Verb.CORDON, node_id, "a strange disk")
    while not replies:
        rig.turn(1)
    assert replies[0].result is Result.DONE
    assert rig.shown is not None
    assert node_id in rig.shown.marks.drains
    assert not rig.shown.undecided
