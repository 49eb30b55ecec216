"""Many creates and destroys at once, and what the cloud's refusals make of them (U13)."""

from __future__ import annotations

import threading
from collections.abc import Callable

import pytest

from nodemanager.core.model.world import WorkerState
from nodemanager.errors import (
    CapacityUnavailable,
    CloudError,
    FamilyQuotaExceeded,
    QuotaExceeded,
    SpotQuotaExceeded,
    Throttled,
)
from tests.actors.conftest import HOUR, MakeRig
from tests.actors.rig import Rig
from tests.actors.test_setup import heard_by
from tests.fakes import fail, first

pytestmark = pytest.mark.slow

MANY = 16
WITHIN_S = 30.0


def gathered(rig: Rig) -> Callable[[], int]:
    """Ends once MANY calls are on their way, and the daemon has still answered at once (U13)."""

    def meanwhile() -> None:
        heard_by(rig.system.daemon)

    return threading.Barrier(MANY, meanwhile, timeout=WITHIN_S).wait


def test_sixteen_creates_run_at_once_and_the_daemon_answers_meanwhile_u13(
    make_rig: MakeRig,
) -> None:
    rig = make_rig(min_nodes=MANY, max_nodes=MANY, max_creates=MANY)
    rig.cloud.always("create", first(gathered(rig)))
    rig.start()
    assert len(rig.nodes) == MANY
    assert rig.deaths == []


def test_sixteen_destroys_run_at_once_each_looked_at_right_before_u13_d2(
    make_rig: MakeRig,
) -> None:
    rig = make_rig(min_nodes=0, max_nodes=MANY, max_creates=MANY)
    rig.fleet.state = WorkerState.IDLE
    for _ in range(MANY):
        rig.fleet.add_node(age=10 * HOUR)
    rig.cloud.always("destroy", first(gathered(rig)))
    rig.start()
    rig.turn(300)
    assert rig.nodes == []
    assert rig.cloud.calls["pins"] >= MANY
    assert rig.store.calls["read"] >= MANY
    assert rig.deaths == []


def test_no_more_creates_than_max_creates_run_at_once_u13(make_rig: MakeRig) -> None:
    rig = make_rig(min_nodes=MANY, max_nodes=MANY, max_creates=2)
    running, most = [0], [0]

    def counted() -> None:
        with rig.cloud.lock:
            running[0] += 1
            most[0] = max(most[0], running[0])
        heard_by(rig.system.daemon)
        with rig.cloud.lock:
            running[0] -= 1

    rig.cloud.always("create", first(counted))
    rig.start()
    assert (len(rig.nodes), most[0]) == (MANY, 2)


def test_a_throttled_create_keeps_its_claim_and_is_sent_again_u13(make_rig: MakeRig) -> None:
    rig = make_rig(min_nodes=4, max_nodes=4, max_creates=4)
    rig.cloud.on("create", fail(Throttled("RequestLimitExceeded")))
    rig.start()
    rig.turn(29)  # no poll comes before
    assert len(rig.nodes) == 4
    assert rig.cloud.calls["create"] == 5
    assert not rig.lines("record.clean")
    assert len(rig.lines("record.claimed")) == 4
    assert [one["limit"] for one in rig.lines("cloud.throttled")] == [2]


def test_while_the_cloud_is_throttled_nothing_that_waits_calls_it_u13(make_rig: MakeRig) -> None:
    rig = make_rig(min_nodes=MANY, max_nodes=MANY, max_creates=2, poll_stale_after=3000)
    rig.cloud.on("create", fail(Throttled("slow down", retry_after=20.0)))
    rig.start()
    rig.forget_calls()
    rig.turn(19)
    assert sum(rig.cloud.calls.values()) == 0
    rig.turn(10)
    assert len(rig.nodes) == MANY


def test_a_throttled_destroy_is_looked_at_anew_d2(make_rig: MakeRig) -> None:
    rig = make_rig(min_nodes=0, max_nodes=4)
    rig.fleet.state = WorkerState.IDLE
    rig.fleet.add_node(age=10 * HOUR)
    rig.cloud.on("destroy", fail(Throttled("RequestLimitExceeded")))
    rig.start()
    rig.turn_until("node.shutdown_failed", within=600)
    before = rig.store.calls["read"]
    rig.turn(70)
    assert rig.nodes == []
    assert rig.store.calls["read"] > before


@pytest.mark.parametrize("at_once", [1, 3])
def test_a_quota_is_met_by_few_creates_in_vain_then_by_a_probe_u13(
    make_rig: MakeRig, at_once: int
) -> None:
    """Those that wait for a worker when it is met are withdrawn: each would be refused."""
    quota, wanted = 6, 20
    limits = {"min_nodes": wanted, "max_nodes": wanted, "boot_fail_after": 200}
    rig = make_rig(max_creates=at_once, poll_stale_after=100, **limits)

    def refused() -> None:
        if len(rig.nodes) >= quota:
            raise QuotaExceeded("InstanceLimitExceeded")

    rig.cloud.always("create", first(refused))
    rig.fleet.state = WorkerState.BUSY
    rig.start()
    assert len(rig.nodes) == quota
    assert rig.cloud.calls["create"] <= quota + at_once
    withdrawn = rig.lines("node.setup_withdrawn", reason="at_quota")
    assert len(withdrawn) >= wanted - quota - at_once

    before = rig.cloud.calls["create"]
    rig.turn(190)
    assert rig.cloud.calls["create"] == before
    rig.turn(60)
    assert rig.cloud.calls["create"] == before + 1, "one probe"


@pytest.mark.parametrize("error", [FamilyQuotaExceeded, SpotQuotaExceeded, CapacityUnavailable])
def test_what_rests_a_size_withdraws_those_of_it_that_wait_for_a_worker_u13(
    make_rig: MakeRig, error: type[CloudError]
) -> None:
    room, wanted, at_once = 6, 20, 3
    rig = make_rig(max_creates=at_once, min_nodes=wanted, max_nodes=wanted, boot_fail_after=200)

    def refused() -> None:
        if len(rig.nodes) >= room:
            raise error("VcpuLimitExceeded")

    rig.cloud.always("create", first(refused))
    rig.start()
    assert len(rig.nodes) == room
    assert rig.cloud.calls["create"] <= room + at_once
    withdrawn = rig.lines("node.setup_withdrawn", reason="size_rests")
    assert len(withdrawn) >= wanted - room - at_once
    assert len(rig.store.used_slots()) == room
