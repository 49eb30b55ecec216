"""Slurm's own power saving as demand: what its nodes' states ask for."""

from __future__ import annotations

from dataclasses import replace

from nodemanager.core.model.scheduling import SchedulerNode, is_drained_by_us
from nodemanager.core.model.world import Job, Listed, WorkerState
from nodemanager.schedulers.slurm import power
from nodemanager.schedulers.slurm.rows import NodeRow


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


def test_a_suspended_node_is_idle_and_drained_and_no_sign_of_life():
    for word in ("powering_down", "powered_down"):
        (told,) = power.listing(Listed((node("a", "idle", "cloud", word),))).items
        assert told.state is WorkerState.IDLE
        assert told.drained
        assert is_drained_by_us(told)
        assert not told.responds


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
