"""Slurm's own power saving as demand: what its nodes' states ask for."""

from __future__ import annotations

from dataclasses import replace

import pytest

from nodemanager.core.model.scheduling import SchedulerNode
from nodemanager.core.model.world import Job, Listed, WorkerState
from nodemanager.schedulers.slurm import power
from nodemanager.schedulers.slurm.rows import NodeRow

RESUME, OFF = "State=RESUME", "State=POWER_DOWN"


def node(name: str, *words: str) -> SchedulerNode:
    features = ("rack1", "instancetype=large", "instancetype=m5.large")
    row = NodeRow(
        name=name, words=frozenset(words), reason="", features=features, weight=1, cores=1
    )
    return row.node()


def test_a_node_that_powers_up_is_a_job_that_it_alone_serves():
    nodes = [
        node("a", "idle", "cloud", "powered_down"),
        node("b", "allocated", "cloud", "powering_up", "not_responding"),
        node("c", "idle", "cloud", "powering_up"),
        node("d", "allocated", "cloud"),
    ]
    assert power.queue(nodes) == (
        Job(id="power_up b", instance_type="large", host="b"),
        Job(id="power_up c", instance_type="large", host="c"),
    )


def test_a_node_that_is_given_up_is_no_demand():
    assert not power.queue([node("a", "down", "cloud", "powering_up")])
    assert not power.queue([node("a", "idle", "cloud", "powering_up", "power_down")])


def listed(*words: str, reason: str = "") -> SchedulerNode:
    told = replace(node("a", *words), reason=reason)
    (found,) = power.listing(Listed((told,))).items
    return found


@pytest.mark.parametrize(
    "words",
    [
        ("idle", "cloud", "powering_down"),
        ("idle", "cloud", "powered_down"),
        ("idle", "cloud", "powering_up"),
        ("allocated", "cloud", "powering_up"),
    ],
    ids="+".join,
)
def test_a_node_that_is_switched_off_gives_no_sign_of_life_and_does_no_work(words: tuple[str, ...]):
    found = listed(*words)
    assert found.suspended
    assert (found.state, found.responds, found.given_up) == (WorkerState.UNKNOWN, False, False)


@pytest.mark.parametrize(
    ("words", "reason", "order"),
    [
        pytest.param("down+cloud+powered_down", "ResumeTimeout reached", RESUME, id="not-come"),
        pytest.param("down+cloud+not_responding", "Not responding", OFF, id="no-answer"),
        pytest.param("down+cloud", "nodemanager: its node is gone", OFF, id="called-gone"),
    ],
)
def test_a_node_that_is_down_for_no_operators_reason_is_given_up(
    words: str, reason: str, order: str
):
    found = listed(*words.split("+"), reason=reason)
    assert found.given_up
    assert power.order_to_resume(found) == order


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        pytest.param("down+cloud", "disk", id="an-operator"),
        pytest.param("down+cloud+maint", "ResumeTimeout reached", id="reserved"),
        pytest.param("down+cloud+powering_down", "Not responding", id="on-its-way-down"),
        pytest.param("down+cloud+power_up+powered_down", "nodemanager: x", id="on-its-way-up"),
        pytest.param("idle+cloud", "nodemanager: x", id="up"),
    ],
)
def test_any_other_node_is_not_given_up_and_is_resumed_as_it_is(words: str, reason: str):
    found = listed(*words.split("+"), reason=reason)
    assert not found.given_up
    assert power.order_to_resume(found) == RESUME
    assert power.order_to_resume(None) == RESUME


def test_any_other_node_is_told_as_it_is():
    others = (
        node("a", "idle", "cloud"),
        node("b", "allocated", "cloud", "powering_down"),
        node("c", "down", "cloud", "powered_down"),
    )
    assert power.listing(Listed(others, complete=False, problems=("x",))) == Listed(
        others, complete=False, problems=("x",)
    )


def test_a_node_that_names_no_size_may_be_of_any():
    bare = replace(node("a", "idle", "powering_up"), features=("rack1",))
    assert power.queue([bare])[0].instance_type is None
