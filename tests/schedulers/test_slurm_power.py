"""Slurm's own power saving as demand: what its nodes' states ask for."""

from __future__ import annotations

from dataclasses import replace

import pytest

from nodemanager.core.model.scheduling import SchedulerNode
from nodemanager.core.model.world import Job, WorkerState
from nodemanager.schedulers.slurm import power
from nodemanager.schedulers.slurm.rows import SinfoNode, listing
from tests.cases import cases

SERVED = frozenset({"elastic"})
RESUME, OFF = "State=RESUME", "State=POWER_DOWN"


def node(name: str, *words: str) -> SchedulerNode:
    features = ("rack1", "instancetype=large", "instancetype=m5.large")
    row = SinfoNode(name, frozenset(words), "", features, weight=1, cores=1)
    (found,) = power.listing(listing([row])).items
    return found


def test_a_node_that_powers_up_is_a_job_that_it_alone_serves():
    nodes = [
        node("a", "idle", "cloud", "powered_down"),
        node("b", "allocated", "cloud", "powering_up", "not_responding"),
        node("c", "idle", "cloud", "powering_up"),
        node("d", "allocated", "cloud"),
        node("e", "idle", "cloud", "power_up", "powered_down"),
        # Its machine came before Slurm had powered it up: it is up.
        node("f", "idle", "cloud", "power_up"),
    ]
    assert power.queue(nodes) == (
        Job(id="power_up b", instance_type="large", host="b"),
        Job(id="power_up c", instance_type="large", host="c"),
        Job(id="power_up e", instance_type="large", host="e"),
    )
    assert nodes[-1].state is WorkerState.IDLE


def test_a_node_of_other_partitions_is_no_demand():
    rows = [SinfoNode(name, frozenset({"idle", "powering_up"}), "", (), 1, 1) for name in "abcd"]
    told = """\
NodeName=a Arch=x86_64 State=IDLE+CLOUD+POWERING_UP Partitions=old,elastic Reason=x
NodeName=b State=IDLE+CLOUD+POWERING_UP Partitions=old BootTime=None

NodeName=c State=IDLE+CLOUD+POWERING_UP BootTime=None
"""
    nodes = power.listing(listing(rows), power.partitions_of(told), SERVED).items
    assert [one.elsewhere for one in nodes] == [False, True, True, True]
    assert [job.host for job in power.queue(nodes)] == ["a"]


@pytest.mark.parametrize(
    ("words", "is_off"),
    [
        (("idle", "cloud", "powered_down"), True),
        (("idle", "cloud", "powered_down", "not_responding"), True),
        (("idle", "cloud", "powered_down", "power_up"), False),
        (("idle", "cloud", "powered_down", "powering_up"), False),
        (("idle", "cloud", "powering_down"), False),
        (("idle", "cloud", "powered_down", "power_down"), False),
        (("down", "cloud", "powered_down"), False),
        (("idle", "cloud"), False),
    ],
    ids=lambda told: "+".join(told) if isinstance(told, tuple) else None,
)
def test_only_a_node_that_is_off_and_that_nobody_sets_aside_is_powered_up(
    words: tuple[str, ...], is_off: bool
):
    assert node("a", *words).off is is_off
    on = power.orders_to_switch_on(node("a", *words))
    assert on == (("State=POWER_UP",) if is_off else ())
    for aside in ("drain", "maintenance"):
        assert power.orders_to_switch_on(node("a", *words, aside)) == ()


@cases(
    ("words", "reason", "orders"),
    {
        "not-noticed-yet": ("idle+cloud", "", ("State=POWER_DOWN_FORCE",)),
        "powers-up": ("mixed+powering_up", "", ("State=POWER_DOWN_FORCE",)),
        "down": ("down", "Not responding", ("State=POWER_DOWN_FORCE",)),
        "off": ("idle+powered_down", "", ()),
        "on-its-way": ("idle+powering_down", "", ()),
        "drained-by-us": (
            "idle+drain",
            "nodemanager: idle",
            ("State=POWER_DOWN_FORCE", "State=UNDRAIN"),
        ),
        "drained-and-off": ("idle+drain+powered_down", "nodemanager: idle", ("State=UNDRAIN",)),
        "drained-by-an-operator": ("idle+drain", "bad disk", ()),
        "drained-and-down": ("down+drain", "bad disk", ()),
    },
)
def test_what_a_node_without_its_machine_is_told_and_a_foreign_drain_stays_d16(
    words: str, reason: str, orders: tuple[str, ...]
):
    assert power.orders_to_switch_off(listed(*words.split("+"), reason=reason)) == orders


@pytest.mark.parametrize("words", ["idle+powering_up", "idle+power_up+powered_down"])
def test_what_waits_for_the_machine_after_one_that_had_joined_is_left_alone_u14(words: str):
    waiting = listed(*words.split("+"))
    assert power.orders_to_switch_off(waiting, had_joined=True) == ()
    assert power.orders_to_switch_off(waiting, had_joined=False) == ("State=POWER_DOWN_FORCE",)
    up = listed("idle")
    assert power.orders_to_switch_off(up, had_joined=True) == ("State=POWER_DOWN_FORCE",)


def test_a_node_that_is_given_up_is_no_demand():
    assert not power.queue([node("a", "down", "cloud", "powering_up")])
    assert not power.queue([node("a", "idle", "cloud", "powering_up", "power_down")])


def listed(*words: str, reason: str = "") -> SchedulerNode:
    row = SinfoNode("a", frozenset(words), reason, (), weight=1, cores=1)
    (found,) = power.listing(listing([row])).items
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


@cases(
    ("words", "reason", "order"),
    {
        "not-come": ("down+cloud+powered_down", "ResumeTimeout reached", RESUME),
        "no-answer": ("down+cloud+not_responding", "Not responding", OFF),
        "called-gone": ("down+cloud", "nodemanager: its node is gone", OFF),
    },
)
def test_a_node_that_is_down_for_no_operators_reason_is_given_up(
    words: str, reason: str, order: str
):
    found = listed(*words.split("+"), reason=reason)
    assert found.given_up
    assert power.orders_to_resume(found) == (order,)


@cases(
    ("words", "reason"),
    {
        "an-operator": ("down+cloud", "disk"),
        "reserved": ("down+cloud+maint", "ResumeTimeout reached"),
        "on-its-way-down": ("down+cloud+powering_down", "Not responding"),
        "on-its-way-up": ("down+cloud+power_up+powered_down", "nodemanager: x"),
        "up": ("idle+cloud", "nodemanager: x"),
    },
)
def test_any_other_node_is_not_given_up_and_is_resumed_as_it_is(words: str, reason: str):
    found = listed(*words.split("+"), reason=reason)
    assert not found.given_up
    assert power.orders_to_resume(found) == (RESUME,)
    assert power.orders_to_resume(None) == (RESUME,)


def test_any_other_node_is_told_as_it_is():
    rows = [
        SinfoNode(name, frozenset(words.split("+")), "", (), 1, 1)
        for name, words in {
            "a": "idle+cloud",
            "b": "allocated+cloud+powering_down",
            "c": "down+cloud+powered_down",
        }.items()
    ]
    others = listing(rows, problems=("x",))
    assert power.listing(others) == others
    assert not others.complete


def test_a_node_that_names_no_size_may_be_of_any():
    bare = replace(node("a", "idle", "powering_up"), features=("rack1",))
    assert power.queue([bare])
    assert power.queue([bare])[0].instance_type is None
