"""Demand through the whole team: sizes by tag and claim, the queue's order, what can't be had."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest

from nodemanager.actors.report.event_log import EventLog
from nodemanager.core.model.world import Job, Size, WorkerState
from nodemanager.lib import log
from tests.actors.conftest import MakeRig
from tests.actors.rig import Rig
from tests.cases import cases
from tests.core.build import world
from tests.fakes.cloud import LARGE, SMALL

pytestmark = pytest.mark.slow

PLAIN = SMALL
SPOT = replace(SMALL, name="small.spot", price=0.03, preemptible=True)
HOUR = 3600.0
REFUSALS = ("node.boot_refused", "job.unsatisfiable")


def booted(rig: Rig) -> Counter[str]:
    return Counter(str(line["size"]) for line in rig.lines("node.created"))


def with_sizes(rig: Rig, *sizes: Size) -> Rig:
    rig.sizes = sizes
    rig.fleet.state = WorkerState.IDLE
    return rig


@cases(
    ("job", "size"),
    {
        "ordinary": (Job("j", cores=1), "small"),
        "preemptible": (Job("j", cores=1, preemptible=True), "small.spot"),
    },
)
def test_one_job_beside_two_sizes_of_one_instance_type_boots_one_node_u11_n2(
    make_rig: MakeRig, job: Job, size: str
) -> None:
    """Over an hour of polls, and over a restart."""
    rig = with_sizes(make_rig(max_nodes=8), PLAIN, SPOT)
    rig.jobs = (job,)
    rig.start()
    rig.turn(HOUR)
    rig.kill()
    rig.start()
    rig.turn(HOUR)

    assert booted(rig) == {size: 1}
    assert not rig.lines("node.shutdown_started")
    (node,) = rig.nodes
    (record,) = rig.records
    assert record.claim is not None
    assert node.tags.size == record.claim.size == size


def test_the_size_of_an_unlisted_node_is_known_after_a_restart_n17(make_rig: MakeRig) -> None:
    """One of 0.8 an hour, not listed yet, leaves room for one more of 0.1 under 0.95."""
    rig = with_sizes(make_rig(max_nodes=8, max_total_price=0.95, boot_fail_after=1800))
    rig.jobs = (Job("big", cores=8),)
    rig.fleet.mute = True
    rig.start()
    (machine,) = rig.cloud.living()
    machine.listed = False
    rig.kill()
    rig.jobs = (Job("big", cores=8), Job("a"), Job("b"))
    rig.start()
    rig.turn(120)

    assert booted(rig) == {"large": 1, "small": 1}


def test_a_job_that_cant_be_had_is_told_once_by_its_id_and_again_when_the_reason_changes_u12(
    make_rig: MakeRig,
) -> None:
    rig = with_sizes(make_rig(max_nodes=4))
    rig.jobs = (Job("j", count=12), Job("beside"))
    rig.start()
    rig.turn(600)
    assert len(rig.nodes) == 1
    (told,) = rig.lines("job.unsatisfiable")
    assert (told["job"], told["reason"], told["count"], told["limit"]) == (
        "j",
        "job_over_max_nodes",
        12,
        4,
    )
    rig.jobs = (Job("j", cores=99), Job("beside"))
    rig.turn(600)
    assert rig.reasons("job.unsatisfiable", job="j") == ["job_over_max_nodes", "no_fitting_size"]
    rig.jobs = ()
    rig.turn(600)
    rig.jobs = (Job("j", cores=99),)
    rig.turn(600)
    assert len(rig.lines("job.unsatisfiable", job="j", reason="no_fitting_size")) == 2


def test_what_is_refused_for_long_is_told_again_every_half_hour(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Whoever reads only the end of a night's log sees why nothing was booted."""
    made = world(max_nodes=1)
    event_log = EventLog(log.get("nodemanager.daemon"), made.settings, "apply")

    def told(minutes: int, *jobs: Job) -> list[str]:
        caplog.clear()
        made.flags["demand"] = jobs
        for _ in range(minutes):
            event_log.plan(made.round(), made.now)
            made.advance(57.5)
        lines = [log.fields_of(one) for one in caplog.records]
        return [str(one["reason"]) for one in lines if one["event"] in REFUSALS]

    caplog.set_level(log.INFO, "nodemanager")
    wanted, never = Job("a"), Job("never", cores=99)
    both = ["at_max_nodes", "no_fitting_size"]
    assert told(30, wanted, wanted, never) == both
    assert told(30, wanted, wanted, never) == both
    assert told(1, wanted, wanted, never) == both
    assert told(20, wanted, wanted, never) == []
    assert told(1, wanted, never) == []
    assert told(1, wanted, wanted, never) == ["at_max_nodes"], "what begins anew is told at once"


def test_a_flood_of_jobs_that_cant_be_had_is_told_in_part_u12(make_rig: MakeRig) -> None:
    rig = make_rig(max_nodes=4)
    rig.jobs = tuple(Job(f"j{number}", cores=99) for number in range(1000))
    rig.start()
    rig.turn(300)
    assert len(rig.lines("job.unsatisfiable")) == 20


def test_a_failed_boot_counts_against_its_own_size_and_not_its_type_u11_b5(
    make_rig: MakeRig,
) -> None:
    rig = with_sizes(make_rig(max_nodes=5, boot_fail_after=300), PLAIN, SPOT)
    rig.jobs = tuple(Job(f"j{number}") for number in range(5))
    rig.fleet.mute = True
    rig.start()
    rest = rig.turn_until("boots.rest", within=2 * HOUR)
    assert rest["size"] == "small"
    assert LARGE.name not in booted(rig)
