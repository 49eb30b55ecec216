"""When the scheduler is told that a destroyed node is gone: while the name is still its (C20)."""

from __future__ import annotations

from dataclasses import replace

import pytest

from nodemanager.core.execute.effects import DestroyNode, MarkDown, Wait
from nodemanager.core.execute.shutdown import Destroying, Marking, ShutDown, ShutdownState
from nodemanager.core.execute.workflow import Action, Answered, Due, LogLine, Seen, Step
from nodemanager.core.model.changed import changed
from nodemanager.core.model.reasons import Reason
from nodemanager.core.model.settings import CLOCK_STEP_S
from nodemanager.core.model.world import CloudState, Guarantee, Outcome, life_key
from nodemanager.core.plan.destroy import ShutdownOrder
from tests.cases import cases
from tests.core.build import World, incarnation_of, node, world


@cases(
    ("pinged_by", "told"),
    {
        "by-itself": ("i-r1", True),
        "by-nobody-who-says-who-it-is": (None, True),
        "by-its-twin-which-works-under-that-name": ("i-twin", False),
    },
)
def test_the_name_is_marked_down_unless_another_instance_pings_its_record_c20(
    pinged_by: str | None, told: bool
) -> None:
    made = world()
    made.add_record("r1")
    made.change("r1", instance_id=pinged_by)
    (record,) = made.records
    gone = MarkDown("compute1", "r1", incarnation_of("r1"), "i-r1")
    assert gone.is_still_its(record) is told


def test_the_name_of_a_later_life_or_of_no_record_is_left_alone_c20() -> None:
    made = world()
    made.add_record("r1")
    (record,) = made.records
    gone = MarkDown("compute1", "r1", incarnation_of("r1", 2), "i-r1")
    assert not gone.is_still_its(record)
    assert not gone.is_still_its(None)


VISIBLE_AFTER = 300.0


def killed(made: World, age: float | None, reason: Reason) -> ShutdownOrder:
    """A node of that age, at work, that is destroyed."""
    made.add_record("r1")
    one = made.record("r1")
    return ShutdownOrder(
        "i-r1", "node-r1", "small", reason, "p", 0, made.now + 60.0,
        None if age is None else made.ago(age), "r1", one.version, one.incarnation,
        hostname="compute1",
    )  # fmt: skip


def gone(made: World, order: ShutdownOrder) -> Step[ShutdownState]:
    destroyed = Answered(DestroyNode("i-r1", order.not_after), Outcome.GONE)
    return ShutDown().on(Destroying(order), destroyed, seen(made))


def seen(made: World) -> Seen:
    return Seen(made.snapshot(), made.settings, Guarantee.CAS)


@cases(
    ("age", "reason", "waits_s"),
    {
        "old-enough": (VISIBLE_AFTER + CLOCK_STEP_S + 10.0, Reason.KILLED, 0.0),
        "young": (100.0, Reason.KILLED, VISIBLE_AFTER + CLOCK_STEP_S - 100.0),
        "of-unknown-age": (None, Reason.KILLED, VISIBLE_AFTER),
        "of-no-work": (100.0, Reason.NODE_DOWN, 0.0),
    },
)
def test_a_killed_nodes_name_waits_until_its_twin_must_show_c20_a1(
    age: float | None, reason: Reason, waits_s: float
) -> None:
    made = world(scheduled=True, visible_after=VISIBLE_AFTER)
    made.round()
    order = killed(made, age, reason)
    mark = MarkDown("compute1", "r1", order.incarnation, "i-r1", asks_twins=reason is Reason.KILLED)
    for step in (gone(made, order), ShutDown().resume(Marking(order), seen(made))):
        assert isinstance(step.state, Marking)
        if not waits_s:
            assert step.effects == (mark,)
            continue
        (wait,) = step.effects
        assert isinstance(wait, Wait)
        assert wait.seconds == pytest.approx(waits_s, abs=1.0)
        assert ShutDown().on(step.state, Due(), seen(made)).effects == (mark,)


def test_no_name_waits_where_a_cloud_shows_at_once_what_it_has_a1() -> None:
    made = world(scheduled=True, visible_after=0.0)
    made.round()
    (effect,) = gone(made, killed(made, 100.0, Reason.KILLED)).effects
    assert isinstance(effect, MarkDown)


def test_a_name_that_the_scheduler_had_switched_off_may_wait_for_the_next_machine_u14() -> None:
    made = world(scheduled=True, visible_after=VISIBLE_AFTER)
    made.round()
    step = gone(made, killed(made, 100.0, Reason.SUSPENDED))
    assert not step.effects
    assert [one.action for one in step.begin] == [Action.CLEAN]


@pytest.mark.parametrize("reason", [Reason.NODE_DOWN, Reason.NODE_STOPPED, Reason.KILLED])
@pytest.mark.parametrize("waits", [False, True])
def test_what_the_scheduler_waits_for_is_the_next_machine_of_one_that_had_joined_u14(
    waits: bool, reason: Reason
) -> None:
    """Its machine was heard, then switched off by the scheduler, and ends for whatever reason."""
    made = world(scheduled=True, visible_after=0.0)
    order = killed(made, 100.0, reason)
    made.round()
    key = life_key("r1", order.incarnation)
    name = replace(made.history.hostnames[key], waits=waits)
    made.history = changed(made.history, hostnames={key: name})
    workflow, begun = ShutDown(), Marking(order)
    for step in (
        gone(made, order),
        workflow.resume(begun, seen(made)),
        workflow.on(replace(begun, is_asked=False), Due(), seen(made)),
    ):
        (mark,) = step.effects
        assert isinstance(mark, MarkDown)
        assert mark.had_joined is not waits
    left = workflow.on(begun, Answered(mark, answer=False), seen(made))
    assert [one.fields["action"] for one in left.tell if isinstance(one, LogLine)] == ["down"]
    assert [one.action for one in left.begin] == [Action.CLEAN]


def test_a_killed_nodes_name_is_not_marked_while_its_twin_lives_c20() -> None:
    mark = MarkDown("compute1", "r1", incarnation_of("r1"), "i-r1", asks_twins=True)
    own, twin = node("r1"), node("r1", id="i-twin")
    assert mark.is_alone(())
    assert mark.is_alone((own, node("r1", id="i-twin", state=CloudState.TERMINATED)))
    assert not mark.is_alone((own, twin))
    assert not mark.is_alone((node("r1", id="i-twin", state=CloudState.STOPPING),))
