"""What waits on an Arvados server, through the real arvados-python-client over a socket."""

from __future__ import annotations

from typing import Any

import pytest

from nodemanager.app import adapters
from nodemanager.app.from_config import asks_arvados
from nodemanager.core.model.reasons import Reason
from nodemanager.core.model.world import Job
from nodemanager.errors import SchedulerError
from nodemanager.lib import log
from tests.cases import cases
from tests.records.arvados_servers import ERRORS, TOKEN, Reply, ScriptedApi, scripted
from tests.schedulers.arvados_queues import GIB, QueueServer, container, old_job, uuid_of

pytestmark = pytest.mark.socket

__all__ = ["scripted"]


@pytest.fixture
def server(scripted: ScriptedApi) -> QueueServer:
    return QueueServer(scripted)


def needs(**constraints: Any) -> dict[str, Any]:
    return {"vcpus": 1, "ram": GIB, "keep_cache_ram": 0, **constraints}


# Containers.


def test_a_container_asks_for_a_node_with_what_it_is_constrained_to(server: QueueServer) -> None:
    server.items["containers"] = [
        container(
            1,
            runtime_constraints=needs(
                vcpus=4,
                ram=8 * GIB,
                keep_cache_ram=256 * 2**20,
                keep_cache_disk=10**9,
                cuda={"device_count": 2, "driver_version": "11.0", "hardware_capability": "9.0"},
            ),
            mounts={
                "/tmp": {"kind": "tmp", "capacity": 50 * 10**9},
                "/scratch": {"kind": "tmp", "capacity": 1},
                "/in": {"kind": "collection", "capacity": 10**15},
            },
            scheduling_parameters={"preemptible": True, "max_run_time": 3600},
        )
    ]
    assert server.jobs() == (
        Job(
            uuid_of("containers", 1),
            cores=4,
            ram_mb=8 * 1024 + 256,
            scratch_mb=51_001,
            preemptible=True,
            gres=(("gpu", 2),),
        ),
    )


def test_the_gpus_of_later_servers_are_read_and_none_is_none(server: QueueServer) -> None:
    server.items["containers"] = [
        container(1, runtime_constraints=needs(gpu={"stack": "rocm", "device_count": 1})),
        container(2, runtime_constraints=needs(cuda={"device_count": 0})),
        container(3, scheduling_parameters=None, mounts=None),
    ]
    assert [job.gres for job in server.jobs()] == [(("gpu", 1),), (), ()]


def test_only_what_waits_and_may_run_is_asked_for(server: QueueServer) -> None:
    server.items["containers"] = [
        container(1, state="Locked"),
        container(2, state="Running"),
        container(3, priority=0),
        container(4, state="Complete"),
        container(5, state="Cancelled"),
        container(6),
    ]
    assert [job.id[-1] for job in server.jobs()] == ["1", "6"]


def test_the_most_urgent_is_first_and_then_the_oldest_u12(server: QueueServer) -> None:
    server.items["containers"] = [
        container(1, priority=5, created_at="2026-01-31T10:00:09Z"),
        container(2, priority=7),
        container(3, priority=5, created_at="2026-01-31T10:00:01Z"),
    ]
    server.items["jobs"] = [old_job(1), old_job(2, priority=9)]
    assert [job.id[-1] for job in server.jobs()] == ["2", "3", "1", "2", "1"]


# The whole queue, or none (L1, L2).


def test_the_queue_is_read_page_by_page(server: QueueServer) -> None:
    server.items["containers"] = [container(number) for number in range(25)]
    server.page = 10
    assert len(server.jobs()) == 25
    asked = server.asked("containers")
    assert [one.json("filters")[2:] for one in asked] == [
        [],
        [["uuid", ">", uuid_of("containers", 9)]],
        [["uuid", ">", uuid_of("containers", 19)]],
    ]


def test_without_a_count_only_an_empty_page_is_the_end(server: QueueServer) -> None:
    server.items["containers"] = [container(number) for number in range(25)]
    server.page, server.counts = 10, False
    assert len(server.jobs()) == 25
    assert len(server.asked("containers")) == 4


def test_what_starts_while_the_queue_is_read_does_not_fail_it(server: QueueServer) -> None:
    waiting = server.items["containers"] = [container(number) for number in range(25)]
    server.page = 10
    server.after_page = lambda: waiting[15].update(state="Running")
    assert len(server.jobs()) == 24


def test_a_page_that_is_missing_fails_the_poll(server: QueueServer) -> None:
    server.items["containers"] = [container(number) for number in range(25)]
    server.page = 10

    def lose() -> None:
        server.page = 0

    server.after_page = lose
    with pytest.raises(SchedulerError, match="15 are left"):
        server.jobs()


@pytest.mark.parametrize("ignored", ["filters", "order"])
def test_a_server_that_ignores_what_it_is_asked_fails_the_poll(
    server: QueueServer, ignored: str
) -> None:
    server.items["containers"] = [container(number) for number in reversed(range(25))]
    server.page, server.ignores = 10, frozenset({ignored})
    with pytest.raises(SchedulerError, match="uuids do not rise"):
        server.jobs()


@cases(
    ("fields", "problem"),
    {
        "state": ({"state": "Complete"}, "state 'Complete' was not asked for"),
        "priority": ({"priority": 0}, "its priority was not asked for"),
        "a-node": ({"uuid": "zzzzz-7ekkf-000000000000001"}, "is no uuid of it"),
    },
)
def test_an_item_that_was_not_asked_for_fails_the_poll(
    server: QueueServer, fields: dict[str, Any], problem: str
) -> None:
    server.items["containers"] = [container(1, **fields), container(2)]
    server.ignores = frozenset({"filters"})
    with pytest.raises(SchedulerError, match=problem):
        server.jobs()


@cases(
    ("fields", "problem"),
    {
        "no-number": ({"priority": "high"}, "is no whole number"),
        "no-vcpus": ({"runtime_constraints": {"ram": 1}}, "vcpus = None"),
        "negative": ({"runtime_constraints": needs(ram=-1)}, "ram = -1"),
        "a-boolean": ({"runtime_constraints": needs(vcpus=True)}, "vcpus = True"),
        "a-list": ({"runtime_constraints": [1]}, "is no object"),
        "mount": ({"mounts": {"/tmp": 3}}, "mounts '/tmp' is no object"),
        "size": ({"mounts": {"/t": {"kind": "tmp", "capacity": "big"}}}, "capacity = 'big'"),
        "how": ({"scheduling_parameters": {"preemptible": 1}}, "neither true"),
    },
)
def test_a_container_that_can_not_be_read_is_told_and_concerns_no_other(
    server: QueueServer, fields: dict[str, Any], problem: str
) -> None:
    server.items["containers"] = [container(1, **fields), container(2)]
    server.ignores = frozenset({"filters"})
    jobs = {job.id: job for job in server.jobs()}
    unread, other = (jobs[container(number)["uuid"]] for number in (1, 2))
    assert unread.unserved is not None
    assert unread.unserved.reason is Reason.JOB_UNREADABLE
    assert problem in unread.unserved.detail
    assert other.unserved is None


@cases(
    ("reply", "problem"),
    {
        "500": (Reply(ERRORS, 500), "500"),
        "404": (Reply(ERRORS, 404), "404"),
        "no-items": (Reply({"items": None}), "no items"),
        "html": (Reply(b"<html>"), "no JSON object"),
        "a-list": (Reply([1]), "no JSON object"),
    },
)
def test_an_answer_that_is_no_list_fails_the_poll(
    server: QueueServer, reply: Reply, problem: str
) -> None:
    server.fails = reply
    with pytest.raises(SchedulerError, match=problem):
        server.jobs()


def test_a_busy_server_says_when_to_come_again(server: QueueServer) -> None:
    server.fails = Reply(ERRORS, 503, {"retry-after": "40"})
    with pytest.raises(SchedulerError) as raised:
        server.jobs()
    assert raised.value.retry_after == 40.0


def test_others_than_administrators_see_only_their_own_and_are_refused(
    server: QueueServer,
) -> None:
    server.administrator = False
    with pytest.raises(SchedulerError, match="administrator"):
        server.jobs()
    server.has("containers")
    with pytest.raises(SchedulerError, match="administrator"):
        server.jobs()


# Which queues the server has.


def test_a_server_without_containers_fails_the_poll_that_asks_for_them(
    server: QueueServer,
) -> None:
    server.has("jobs", "users")
    with pytest.raises(SchedulerError, match="containers_queue = no"):
        server.jobs()
    assert server.queue(containers=False).queue() == ()


def test_the_jobs_of_an_old_server_are_asked_only_where_it_has_them(
    server: QueueServer, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", logger="nodemanager")
    server.items["jobs"] = [old_job(1)]
    queue = server.queue(containers=False)
    assert len(queue.queue()) == 1
    assert len(queue.queue()) == 1
    server.has("containers", "users")
    assert queue.queue() == ()
    told = [log.fields_of(record) or {} for record in caplog.records]
    assert [line["queues"] for line in told] == ["jobs.queue", "none"]


def test_an_old_job_asks_for_its_nodes_whatever_the_kind_of_number(server: QueueServer) -> None:
    server.items["jobs"] = [
        old_job(
            1,
            runtime_constraints={
                "min_nodes": "3",
                "min_cores_per_node": 2,
                "min_ram_mb_per_node": "4000",
                "min_scratch_mb_per_node": 100,
            },
        ),
        old_job(2, runtime_constraints=None),
        old_job(3, state="Running"),
    ]
    assert server.jobs() == (
        Job(uuid_of("jobs", 1), cores=2, ram_mb=4000, scratch_mb=100, count=3),
        Job(uuid_of("jobs", 2)),
    )
    # Its API lets nobody choose the fields.
    assert "select" not in server.asked("jobs")[0].params


# As demand.


@cases(
    ("options", "asked"),
    {
        "registry": ("containers_queue = yes\n[Records]\nprovider = registry\n", 1),
        "old-server": ("jobs_queue = yes\n", 2),
        "both": ("containers_queue = yes\n", 3),
        "none": ("jobs_queue = no\n", None),
        "no-records-there": ("[Records]\nprovider = registry\n", None),
    },
)
def test_the_options_say_which_queues_are_asked(
    server: QueueServer, configured: Any, options: str, asked: int | None
) -> None:
    server.items["containers"] = [container(1)]
    server.items["jobs"] = [old_job(1), old_job(2)]
    config = configured(f"[Arvados]\nhost = {server.api.url}\ntoken = {TOKEN}\n{options}")
    wishlist = adapters.wishlist_of(config)
    assert asks_arvados(config) is (wishlist is not None) is (asked is not None)
    if wishlist is not None:
        assert len(wishlist()) == asked
        assert {one.token for one in server.api.asked} == {f"Bearer {TOKEN}"}
