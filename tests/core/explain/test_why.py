"""What keeps a size from growing and shrinking, by the demand's own rules."""

from __future__ import annotations

from dataclasses import replace

import pytest

from nodemanager.core.explain.events import grouped
from nodemanager.core.explain.explain import DecisionView
from nodemanager.core.explain.why import SizeWhy, why
from nodemanager.core.model.annotations import PAUSE, Mark
from nodemanager.core.model.reasons import Reason
from nodemanager.core.model.streaks import Loops, Streak
from nodemanager.core.model.world import Job, WorkerState
from nodemanager.core.observe.snapshot import Limits
from nodemanager.journal.event import LoggedEvent
from tests.cases import cases
from tests.core.build import LARGE, SMALL, START, World, incarnation_of, world
from tests.core.plan.test_seats import off, seat, wanted, wish

WANTED = (Job("j", cores=1, ram_mb=1, scratch_mb=1, count=3),)


def pool(*states: WorkerState, **settings: object) -> World:
    made = world(**{"max_nodes": 8, "consecutive_idle_count": 1, **settings})
    for number, state in enumerate(states, 1):
        made.add_record(f"r{number}", worker_state=state)
        made.add_node(f"r{number}", size=SMALL.instance_type)
    return made


def told(made: World, size: str | None = None) -> dict[str, SizeWhy]:
    made.settle()
    return {
        one.size: one for one in why(DecisionView(made.decided, made.last, made.settings), size)
    }


def test_only_active_sizes_are_told_unless_one_is_asked_for() -> None:
    made = pool(WorkerState.BUSY)
    assert list(told(made)) == ["small"]
    assert list(told(made, "large")) == ["large"]
    assert list(told(made, LARGE.instance_type)) == ["large"], "by its instance type, too"
    assert told(made, "hgue") == {}


def test_a_busy_and_an_idle_node_say_what_keeps_each() -> None:
    made = pool(WorkerState.BUSY, WorkerState.IDLE, min_nodes=2)
    small = told(made)["small"]
    assert small.nodes == {"busy": 1, "idle": 1}
    kept = {cause.reason: cause for cause in small.shrinks}
    assert kept.keys() == {Reason.BUSY, Reason.NEEDED}
    assert kept[Reason.NEEDED].measures == {"nodes": 2, "min_nodes": 2}
    assert kept[Reason.BUSY].nodes == ("i-r1",)
    assert (small.grows, small.one_more) == ((), None)


def test_what_is_wanted_and_refused_is_told_with_the_measure_and_the_limit() -> None:
    made = pool(WorkerState.BUSY, max_nodes=2)
    made.flags["demand"] = (replace(WANTED[0], count=2),)
    small = told(made)["small"]
    assert (small.wished, small.booting) == (2, 1)
    (cause,) = small.grows
    assert (cause.reason, cause.count) == (Reason.AT_MAX_NODES, 1)
    assert cause.measures["limit"] == 2
    assert cause.in_s is None, "no passing of time ends it"


REST = START + 5000.0


@cases(
    ("limits", "reason"),
    {
        "size": (Limits(resting={"small": REST}), Reason.SIZE_RESTS),
        "throttled": (Limits(throttled_until=REST), Reason.THROTTLED),
        "boot-loop": (Limits(loops=Loops({"small": Streak(5, 1, REST)})), Reason.BOOT_LOOP),
    },
)
def test_a_rest_says_until_when(limits: Limits, reason: Reason) -> None:
    made = pool()
    made.flags |= {"demand": WANTED, "limits": limits}
    (cause,) = told(made)["small"].grows
    assert (cause.reason, cause.count) == (reason, 3)
    assert cause.in_s == pytest.approx(REST - made.now)


def test_places_without_room_are_named_each_with_its_rest() -> None:
    made = pool()
    small, large = made.settings.sizes
    sized = (replace(small, places=("a", "b")), large)
    made.with_settings(sizes=sized)
    made.flags |= {"demand": WANTED, "limits": Limits(places={"small": {"a": REST, "b": REST - 9}})}
    one = told(made)["small"]
    (cause,) = one.grows
    assert cause.reason is Reason.PLACES_REST
    assert cause.in_s == pytest.approx(REST - 9 - made.now), "the first that takes nodes again"
    assert [rest.place for rest in one.resting] == ["a", "b"]


def test_full_slots_say_what_holds_them() -> None:
    made = pool(WorkerState.BUSY)
    made.flags |= {"demand": (replace(WANTED[0], count=4),), "slots": 1}
    (cause,) = told(made)["small"].grows
    assert (cause.reason, cause.count) == (Reason.NO_FREE_SLOT, 4)
    assert cause.measures == {"slots": 1, "listed_node": 1}


def test_where_nothing_is_wanted_it_says_what_would_refuse_one_more() -> None:
    made = pool(WorkerState.BUSY, max_nodes=1)
    small = told(made)["small"]
    assert small.grows == ()
    assert small.one_more is not None
    assert small.one_more.reason is Reason.AT_MAX_NODES


def test_a_pause_keeps_every_size_and_says_whose_it_is() -> None:
    made = pool(WorkerState.IDLE)
    made.flags |= {"demand": WANTED, "pool_marks": {PAUSE: Mark("ann", 1.0, "upgrade")}}
    small = told(made)["small"]
    (cause,) = small.grows
    assert cause.reason is Reason.PAUSED
    assert cause.measures["by"] == "ann"


def test_a_closed_window_says_when_it_opens() -> None:
    made = pool(WorkerState.IDLE, shutdown_windows=(86400.0 * 9, 60.0))
    (cause,) = told(made)["small"].shrinks
    assert cause.reason is Reason.WINDOW_CLOSED
    assert cause.in_s is not None
    assert 0.0 < cause.in_s < 86400.0 * 9


def test_a_node_that_goes_is_counted_and_keeps_nothing() -> None:
    made = pool(WorkerState.BUSY)
    made.flags["kills"] = {"i-r1": Mark("ann", 1.0, "its disk", incarnation_of("r1"))}
    small = told(made)["small"]
    assert (small.going, small.shrinks) == (1, ())


def test_no_decision_tells_nothing() -> None:
    made = pool(WorkerState.BUSY)
    made.poll_records()
    made.plan()
    assert why(DecisionView(made.decided, made.last, made.settings)) == ()


# What happened lately.


def event(at: float, name: str, reason: str | None = None, **names: str) -> LoggedEvent:
    return LoggedEvent(at, name, reason, **names)  # type: ignore[arg-type]


def test_events_of_one_kind_and_reason_are_one_group_the_newest_first() -> None:
    groups = grouped(
        [
            event(1.0, "node.gone", "node_down", host="compute1"),
            event(2.0, "record.cleaned", "stale_slot", record="r2"),
            event(3.0, "node.gone", "node_down", host="compute3", node="i-3"),
            event(4.0, "node.gone", "killed", node="i-4"),
            event(5.0, "node.keep", "busy", node="i-5"),
        ]
    )
    assert [(one.event, one.reason, one.count) for one in groups] == [
        ("node.gone", "killed", 1),
        ("node.gone", "node_down", 2),
        ("record.cleaned", "stale_slot", 1),
    ]
    assert (groups[1].first_at, groups[1].last_at) == (1.0, 3.0)
    assert groups[1].names == ("compute3", "compute1")


def test_what_is_wrong_comes_first_however_old_it_is() -> None:
    lost = LoggedEvent(1.0, "node.lost", host="compute1", more={"level": "warning"})
    broken = LoggedEvent(2.0, "invariant.broken", more={"level": "error"})
    groups = grouped([lost, broken, event(3.0, "node.paired"), event(4.0, "node.gone")])
    assert [(one.event, one.level) for one in groups] == [
        ("invariant.broken", "error"),
        ("node.lost", "warning"),
        ("node.gone", "info"),
        ("node.paired", "info"),
    ]


def test_each_lost_node_is_named_with_what_it_did_before_other_warnings() -> None:
    lost = [
        LoggedEvent(
            float(number),
            "node.lost",
            "node_absent",
            host=f"compute{number}",
            more={"level": "warning", "was": "busy" if number else "window_closed"},
        )
        for number in range(5)
    ]
    later = LoggedEvent(9.0, "job.unsatisfiable", "no_fitting_size", more={"level": "warning"})
    first, second = grouped([*lost, later])
    assert first.names == (*(f"compute{number}:busy" for number in (4, 3, 2, 1)), "compute0:idle")
    assert second.event == "job.unsatisfiable"


def test_polls_are_named_by_their_source_and_breakers_by_their_cause() -> None:
    failed = [
        LoggedEvent(float(at), "list.failed", more={"level": "warning", "source": source})
        for at, source in enumerate(("cloud", "records", "cloud"))
    ]
    opened = LoggedEvent(9.0, "breaker.opened", more={"cause": "cloud_collapsed"})
    assert [one.names for one in grouped([*failed, opened])] == [
        ("cloud", "records"),
        ("cloud_collapsed",),
    ]


def test_others_are_those_that_a_group_has_no_room_for_and_no_repetition() -> None:
    often = [event(float(at), "node.gone", host="compute1") for at in range(9)]
    many = [event(float(at), "node.created", host=f"compute{at}") for at in range(9)]
    gone, created = sorted(grouped([*often, *many]), key=lambda one: one.event, reverse=True)
    assert (gone.names, gone.others) == (("compute1",), 0)
    assert (len(created.names), created.others) == (3, 6)


def test_what_was_only_kept_is_told_when_asked_for() -> None:
    kept = [event(float(at), "node.keep", "busy", node=f"i-{at}") for at in range(9)]
    assert grouped(kept) == ()
    (group,) = grouped(kept, quiet=True)
    assert (group.count, group.names) == (9, ("i-8", "i-7", "i-6"))


def test_where_records_are_seats_a_size_without_a_free_one_can_not_grow() -> None:
    """The only free seat is another size's, or the plan's own boot takes it."""
    made = world(max_nodes=9, seats=True)
    made.records = [seat("r0", "s1"), seat("r1", "l1", "large")]
    made.poll_scheduler(off("s1"), off("l1"))
    assert told(made, "small")["small"].one_more is None

    made.poll_scheduler(wanted("s1"), off("l1"), jobs=(wish("s1"),))
    made.settle()
    small = told(made, "small")["small"]
    assert small.one_more is not None
    assert small.one_more.reason is Reason.NO_FREE_SLOT
    assert told(made, "large")["large"].one_more is None
