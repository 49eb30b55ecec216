"""The daemon with a scheduler: its queue, its word on nodes, drain, mark down (T6, D12, L1)."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from nodemanager.actors.messages import Ordered
from nodemanager.actors.poll import polling
from nodemanager.core.model.scheduling import OURS, SchedulerNode
from nodemanager.core.model.world import Job, Listed, WorkerState
from nodemanager.core.operate.replies import Command
from nodemanager.core.operate.verbs import Verb
from nodemanager.core.plan.errands import MarkGone
from nodemanager.errors import CapacityUnavailable, SchedulerError, SchedulerRefused
from nodemanager.schedulers.api import SchedulerVerb
from tests.actors.conftest import MakeRig
from tests.actors.rig import Rig, until
from tests.fakes import fail
from tests.fakes.scheduler import FakeScheduler

pytestmark = pytest.mark.slow

BUSY, IDLE, DOWN = WorkerState.BUSY, WorkerState.IDLE, WorkerState.DOWN
HOUR = 3600.0


def one_node(
    make_rig: MakeRig, scheduler: FakeScheduler, state: WorkerState, **options: object
) -> tuple[Rig, str]:
    """One node, which says nothing of its work, and its hostname."""
    rig = make_rig(min_nodes=0, dispatcher="slurm", **options)
    rig.fleet.state = None
    _, record = rig.fleet.add_node(age=10 * HOUR)
    assert record.hostname is not None
    scheduler.says(record.hostname, state)
    return rig, record.hostname


def test_an_idle_node_drains_goes_is_marked_down_and_only_then_its_record_is_freed(
    make_rig: MakeRig, scheduler: FakeScheduler
) -> None:
    rig, host = one_node(make_rig, scheduler, IDLE)
    rig.start()
    line = until(rig, "node.drain", within=600)
    assert (line["action"], line["host"]) == ("drain", host)
    until(rig, "record.cleaned", within=600)
    assert scheduler.calls == [("drain", host), ("down", host)]
    assert rig.nodes == []
    events = [line["event"] for line in rig.out.fields]
    assert events.index("node.gone") < events.index("record.cleaned")


def test_a_busy_node_stays_whatever_it_says_itself(
    make_rig: MakeRig, scheduler: FakeScheduler
) -> None:
    rig, _ = one_node(make_rig, scheduler, BUSY)
    rig.fleet.state = IDLE
    rig.start()
    rig.turn(2 * HOUR)
    assert (len(rig.nodes), scheduler.calls) == (1, [])


def test_a_job_that_comes_while_it_drains_gets_the_node_back(
    make_rig: MakeRig, scheduler: FakeScheduler
) -> None:
    rig, host = one_node(make_rig, scheduler, IDLE)
    scheduler.busy_at_drain = True
    rig.start()
    until(rig, "node.drain", within=600)
    rig.turn(300)
    assert scheduler.calls == [("drain", host), ("resume", host)]
    assert len(rig.nodes) == 1
    assert not scheduler.known[host].draining


def test_a_job_that_starts_right_before_the_destroy_is_seen_by_the_second_question_d2(
    make_rig: MakeRig, scheduler: FakeScheduler
) -> None:
    """Somebody resumes the node, and a job begins, behind the listing that showed it drained."""
    rig, _ = one_node(make_rig, scheduler, IDLE)
    scheduler.resumed_behind_a_look = True
    rig.start()
    until(rig, "node.shutdown_skipped", within=900)
    assert rig.reasons("node.shutdown_skipped")[:1] == ["no_longer_wanted"]
    rig.turn(300)
    assert len(rig.nodes) == 1


def test_a_name_that_the_scheduler_lacks_is_told_with_the_remedy_and_boots_none_u12(
    make_rig: MakeRig, scheduler: FakeScheduler
) -> None:
    rig = make_rig(min_nodes=0, dispatcher="slurm")
    scheduler.names = frozenset({"Compute001"})
    rig.start()
    rig.apply(replace(rig.system.settings, hostname="compute%(slot_number)d"))
    scheduler.jobs = (Job("1"),)
    line = until(rig, "node.boot_refused", within=600)
    assert line["reason"] == "not_in_scheduler"
    assert "compute1" in line["detail"]
    assert "Compute001" in line["detail"]
    (warned,) = rig.lines("config.warning")
    assert warned["message"] == line["detail"]
    rig.turn(600)
    assert (len(rig.nodes), len(rig.lines("config.warning"))) == (0, 1)

    scheduler.names = frozenset(f"compute{number}" for number in range(1, 1000))
    rig.turn(300)
    assert rig.nodes


@pytest.mark.parametrize("incomplete", [False, True])
def test_a_scheduler_that_does_not_answer_keeps_everything_l1_c7(
    make_rig: MakeRig, scheduler: FakeScheduler, incomplete: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    rig, _ = one_node(make_rig, scheduler, IDLE)
    if incomplete:
        monkeypatch.setattr(FakeScheduler, "nodes", lambda self: Listed((), complete=False))
    else:
        scheduler.fails = SchedulerError("timed out")
    scheduler.jobs = (Job("7", count=3),)
    rig.start()
    rig.turn(3 * HOUR)
    assert (len(rig.nodes), scheduler.calls, rig.lines("node.setup_started")) == (1, [], [])
    failed = rig.lines("list.partial" if incomplete else "list.failed", source="scheduler")
    assert failed


def test_the_record_waits_until_the_scheduler_has_heard_and_no_longer_than_action_timeout(
    make_rig: MakeRig, scheduler: FakeScheduler
) -> None:
    rig, host = one_node(make_rig, scheduler, IDLE)
    scheduler.fails_down = SchedulerError("timed out")
    rig.start()
    until(rig, "node.gone", within=900)
    rig.turn(300)
    assert not rig.lines("record.cleaned")
    assert [line["action"] for line in rig.lines("node.drain", level="warning")] == ["down"]
    until(rig, "record.cleaned", within=1200)
    assert ("down", host) in scheduler.calls


def test_a_node_that_the_scheduler_does_not_know_is_freed_at_once(
    make_rig: MakeRig, scheduler: FakeScheduler
) -> None:
    rig, _ = one_node(make_rig, scheduler, IDLE)
    scheduler.fails_down = SchedulerRefused("invalid node name")
    rig.start()
    until(rig, "node.gone", within=900)
    rig.turn(60)
    assert rig.lines("record.cleaned")


def test_a_restart_marks_down_what_a_former_run_saw_gone(
    make_rig: MakeRig, scheduler: FakeScheduler
) -> None:
    rig, host = one_node(make_rig, scheduler, IDLE)
    scheduler.fails_down = SchedulerError("timed out")
    rig.start()
    until(rig, "node.gone", within=900)
    rig.kill()
    scheduler.fails_down = None
    rig.start()
    rig.turn(60)
    assert scheduler.known[host].state is DOWN
    assert rig.lines("record.cleaned")


def test_a_restart_gives_a_drained_node_that_is_wanted_its_work_back(
    make_rig: MakeRig, scheduler: FakeScheduler
) -> None:
    rig, host = one_node(make_rig, scheduler, IDLE)
    # It has not stopped working when the daemon is killed.
    scheduler.busy_at_drain = True
    rig.start()
    until(rig, "node.drain", within=600)
    rig.kill()
    scheduler.says(host, IDLE)
    scheduler.calls[:] = []
    scheduler.jobs = (Job("7"),)
    rig.start()
    rig.turn(120)
    assert scheduler.calls in ([("resume", host)], [])
    assert not scheduler.known[host].draining
    assert len(rig.nodes) == 1


def test_a_dry_run_tells_the_scheduler_nothing_s3(
    make_rig: MakeRig, scheduler: FakeScheduler
) -> None:
    rig, _ = one_node(make_rig, scheduler, IDLE)
    rig.start(dry_run=True)
    rig.turn(900)
    assert (len(rig.nodes), scheduler.calls) == (1, [])


HUGE = Job("9", cores=64)


def test_a_job_that_no_size_can_run_is_told_once_and_stays_u12(
    make_rig: MakeRig, scheduler: FakeScheduler
) -> None:
    rig = make_rig(min_nodes=0, dispatcher="slurm")
    scheduler.jobs = (HUGE,)
    rig.start()
    rig.turn(900)
    (told,) = [one for one in scheduler.errands if one[0] == "comment"]
    assert told[1] == "9"
    assert told[2].startswith(OURS)
    assert "cores=64" in told[2]
    assert not [one for one in scheduler.errands if one[0] == "cancel"]
    (line,) = rig.lines("scheduler.told", action="comment")
    assert (line["job"], line["reason"]) == ("9", "no_fitting_size")


def test_it_is_cancelled_only_where_the_file_says_so_and_after_it_was_told_u12(
    make_rig: MakeRig, scheduler: FakeScheduler
) -> None:
    rig = make_rig(min_nodes=0, dispatcher="slurm")
    scheduler.jobs = (HUGE,)
    rig.start()
    rig.apply(replace(rig.system.settings, cancel_unsatisfiable=True))
    rig.turn(600)
    told = [one for one in scheduler.errands if one[0] in ("comment", "cancel")]
    assert [one[:2] for one in told] == [("comment", "9"), ("cancel", "9")]
    comment, cancel = (rig.lines("scheduler.told", action=one)[0] for one in ("comment", "cancel"))
    assert rig.out.fields.index(comment) < rig.out.fields.index(cancel)


def test_a_node_gets_the_weight_and_features_of_its_size_once(
    make_rig: MakeRig, scheduler: FakeScheduler
) -> None:
    rig, host = one_node(make_rig, scheduler, BUSY)
    rig.start()
    rig.turn(900)
    assert [one[:2] for one in scheduler.errands] == [("describe", host)]
    size = rig.nodes[0].size
    assert f"instancetype={size}" in scheduler.known[host].features


@pytest.mark.parametrize(
    "error", [SchedulerError("timed out"), SchedulerRefused("access denied")], ids=str
)
def test_an_errand_that_fails_is_not_repeated_each_poll(
    make_rig: MakeRig, scheduler: FakeScheduler, error: SchedulerError
) -> None:
    rig = make_rig(min_nodes=0, dispatcher="slurm")
    scheduler.jobs, scheduler.fails_errands = (HUGE,), error
    rig.start()
    rig.turn(1500)
    tries = len([one for one in scheduler.errands if one[0] == "comment"])
    assert tries == 1 if error.definite else 1 < tries <= 6
    scheduler.fails_errands = None
    rig.turn(2400)
    assert rig.lines("scheduler.told", action="comment")[-1].get("error") is None


@pytest.mark.parametrize("has_twin", [False, True], ids=["alone", "with-a-twin"])
def test_a_killed_nodes_name_is_left_to_its_twin_c20(
    make_rig: MakeRig, scheduler: FakeScheduler, has_twin: bool
) -> None:
    """Two nodes of one create have one name, and a job is on either."""
    rig, host = one_node(make_rig, scheduler, BUSY)
    rig.start()
    rig.turn(120)
    (node,) = rig.nodes
    if has_twin:
        twin = rig.cloud.add(tags=node.tags, age=10 * HOUR)
        # Once a poll has shown both, nobody knows which of them is meant.
        rig.cloud.machines[twin.id].listed = False
    command = Command(Verb.KILL, "ann", "it hangs", node.id)
    rig.system.daemon.tell(Ordered(command, lambda reply: None))
    until(rig, "node.gone", within=600)
    rig.turn(300)
    assert scheduler.calls == ([] if has_twin else [("down", host)])


def test_a_vanished_node_is_marked_down_once_its_record_is_free_c20(
    make_rig: MakeRig, scheduler: FakeScheduler, monkeypatch: pytest.MonkeyPatch
) -> None:
    rig, host = one_node(make_rig, scheduler, BUSY, node_stale_after=1800)
    cleaned_before: list[bool] = []
    marked = FakeScheduler.mark_down

    def mark_down(self: FakeScheduler, node: str, reason: str, *, had_joined: bool = False) -> bool:
        cleaned_before.append(bool(rig.lines("record.cleaned")))
        return marked(self, node, reason, had_joined=had_joined)

    monkeypatch.setattr(FakeScheduler, "mark_down", mark_down)
    rig.start()
    rig.turn(120)
    (node,) = rig.nodes
    rig.cloud.vanish(node.id)
    scheduler.known[host] = SchedulerNode(host, BUSY, responds=False)
    until(rig, "record.cleaned", within=6 * HOUR)
    rig.turn(300)
    assert cleaned_before == [True]
    assert scheduler.calls == [("down", host)]
    (line,) = rig.lines("scheduler.told", action="down")
    assert line["host"] == host
    rig.turn(900)
    assert scheduler.calls == [("down", host)]


def test_no_node_is_marked_down_that_the_scheduler_reaches_when_it_is_asked_again(
    make_rig: MakeRig, scheduler: FakeScheduler, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The next node of that name comes up behind the listing that the plan was made from."""
    rig, host = one_node(make_rig, scheduler, BUSY, node_stale_after=1800)
    rig.start()
    rig.turn(120)
    rig.cloud.vanish(rig.nodes[0].id)
    scheduler.known[host] = SchedulerNode(host, BUSY, responds=False)
    gone, up = scheduler.known[host], SchedulerNode(host, BUSY)
    marks: list[str] = []
    sent = polling.SchedulerActor._run

    def run(self: Any, errand: Any) -> bool:
        if isinstance(errand, MarkGone):
            marks.append(errand.node)
        return sent(self, errand)

    def nodes(self: FakeScheduler) -> Listed[SchedulerNode]:
        return Listed((up if marks else gone,))

    monkeypatch.setattr(polling.SchedulerActor, "_run", run)
    monkeypatch.setattr(FakeScheduler, "nodes", nodes)
    until(rig, "record.cleaned", within=6 * HOUR)
    rig.turn(120)
    assert marks == [host]
    assert scheduler.calls == []
    assert not rig.lines("scheduler.told", action="down")


# What users of other tools met.


def test_a_stockout_leaves_no_mark_on_a_node_and_its_job_is_served_later(
    make_rig: MakeRig, scheduler: FakeScheduler
) -> None:
    """Whatever the size."""
    rig = make_rig(min_nodes=0, dispatcher="slurm")
    rig.fleet.state = None
    scheduler.jobs = (Job("7"),)
    rig.cloud.always("create", fail(CapacityUnavailable("no small ones")))
    rig.start()
    rig.turn(300)
    assert (rig.nodes, scheduler.calls) == ([], [])
    assert rig.lines("node.boot_refused", reason="size_rests")
    rig.cloud.always("create", None)
    until(rig, "node.created", within=2400)
    assert scheduler.calls == []


def test_a_size_without_capacity_gives_way_to_the_next_at_once_and_slurm_is_told_that_size(
    make_rig: MakeRig, scheduler: FakeScheduler, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It stays with that node, also once there is room again and the node is not up yet."""
    scheduler.can = frozenset({SchedulerVerb.DESCRIBE})
    rig = make_rig(min_nodes=0, max_nodes=4, dispatcher="slurm")
    rig.fleet.state = None
    create, asked = rig.cloud.create, list[str]()

    def without_small(order: Any) -> Any:
        asked.append(order.size.name)
        if order.size.name == "small":
            raise CapacityUnavailable("no small ones")
        return create(order)

    monkeypatch.setattr(rig.cloud, "create", without_small)
    scheduler.jobs = (Job("7"),)
    rig.start()
    line = until(rig, "node.created", within=120)
    assert (line["size"], asked) == ("large", ["small", "large"])
    (record,) = (one for one in rig.records if one.hostname)
    scheduler.says(str(record.hostname), DOWN)
    # Past the rest of the small one, before the node must be up.
    rig.turn(900)
    assert [node.size for node in rig.nodes] == ["large"]
    assert asked == ["small", "large"]
    scheduler.says(str(record.hostname), IDLE)
    rig.turn(120)
    known = scheduler.known[str(record.hostname)]
    large = next(one for one in rig.cloud.sizes if one.name == "large")
    assert known.weight == round(1000 * (large.price or 0))
    assert "instancetype=large" in known.features
    scheduler.says(str(record.hostname), BUSY)
    scheduler.jobs = ()
    rig.turn(300)
    assert [node.size for node in rig.nodes] == ["large"]


def test_an_idle_node_goes_while_a_size_has_no_capacity(
    make_rig: MakeRig, scheduler: FakeScheduler
) -> None:
    rig, host = one_node(make_rig, scheduler, IDLE)
    scheduler.jobs = (Job("7", cores=2),)
    rig.cloud.always("create", fail(CapacityUnavailable("no large ones")))
    rig.start()
    until(rig, "node.gone", within=600)
    rig.turn(30)
    assert scheduler.calls == [("drain", host), ("down", host)]


def test_a_node_that_never_comes_up_is_ended_and_its_name_is_used_again(
    make_rig: MakeRig, scheduler: FakeScheduler
) -> None:
    rig = make_rig(min_nodes=0, max_nodes=1, dispatcher="slurm", boot_fail_after=600)
    rig.fleet.mute = True
    scheduler.jobs = (Job("7"),)
    rig.start()
    first = until(rig, "node.created", within=120)
    scheduler.says(first["host"], DOWN)
    # It may be created in the same moment in which the first one is gone.
    second = rig.turn_until("node.created", within=3000)
    assert [one["node"] for one in rig.lines("node.gone")] == [first["node"]]
    assert second["host"] == first["host"]
    assert scheduler.calls == [("down", first["host"])]


def test_a_booting_node_is_never_resumed(make_rig: MakeRig, scheduler: FakeScheduler) -> None:
    rig = make_rig(min_nodes=0, dispatcher="slurm")
    rig.fleet.state = None
    scheduler.jobs = (Job("7"),)
    rig.start()
    host = until(rig, "node.created", within=120)["host"]
    for state in (DOWN, WorkerState.UNKNOWN, IDLE):
        scheduler.says(host, state)
        rig.turn(120)
    assert (len(rig.nodes), scheduler.calls) == (1, [])
