"""Set-ups while things change around them: unclear creates, a lease lost, demand that ends."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest

from nodemanager.actors.messages import Beat, Ordered
from nodemanager.core.model.world import Job, Tags
from nodemanager.core.operate.replies import Command
from nodemanager.core.operate.verbs import Verb
from nodemanager.errors import CloudError, StoreError
from tests.actors.conftest import MakeRig
from tests.actors.rig import Rig
from tests.fakes import fail, first, lose

HOUR = 3600.0
POLL_S = 30.0
AT_ONCE = 3
"""How many set-ups are under way at once, by `max_creates`."""
WITHIN_S = 30.0


def amid_creates(rig: Rig, happens: Callable[[], None]) -> None:
    """Let `happens` happen during the first create, while those beside it wait for it."""
    happened = threading.Event()

    def happen() -> None:
        happens()
        happened.set()

    waits = first(lambda: happened.wait(WITHIN_S))
    rig.cloud.on("create", first(happen), *[waits] * (AT_ONCE - 1))


def heard_by(*actors: Any) -> None:
    """Return when these have handled all that was told them before."""
    for actor in actors:
        actor.ask(Beat(lambda: None), timeout=WITHIN_S)


def test_booting_goes_on_within_two_polls_of_the_clouds_recovery(make_rig: MakeRig) -> None:
    """U9: eight creates were answered 500 within a minute."""
    rig = make_rig(min_nodes=0, max_nodes=8, poll_time=POLL_S)
    rig.jobs = tuple(Job(f"job-{number}") for number in range(8))
    rig.cloud.always("create", fail(CloudError("HTTP 500")))
    rig.start()
    rig.turn(60)
    rig.cloud.always("create", None)
    rig.turn(2 * POLL_S + 1)
    assert rig.nodes


def test_what_booting_waits_for_after_unclear_creates_is_said(make_rig: MakeRig) -> None:
    """U9."""
    rig = make_rig(min_nodes=0, max_nodes=8)
    rig.jobs = tuple(Job(f"job-{number}") for number in range(8))
    rig.cloud.always("create", fail(CloudError("HTTP 500")))
    rig.start()
    rig.turn(300)
    assert rig.lines("node.boot_refused")


def test_no_set_up_that_waits_goes_out_after_the_lease_is_lost(make_rig: MakeRig) -> None:
    """U10."""
    rig = make_rig(min_nodes=8, max_nodes=8, max_creates=AT_ONCE)
    amid_creates(rig, lambda: setattr(rig, "lease", False))
    rig.start()
    assert rig.cloud.calls["create"] <= AT_ONCE


def test_no_set_up_that_waits_goes_out_after_its_demand_has_ended(make_rig: MakeRig) -> None:
    """U10."""
    rig = make_rig(min_nodes=0, max_nodes=20, poll_time=POLL_S, max_creates=AT_ONCE)
    rig.jobs = tuple(Job(f"job-{number}") for number in range(15))

    def demand_ends() -> None:
        rig.jobs = ()
        rig.clock.advance(POLL_S + 15)
        rig.timer.fire()
        heard_by(rig.system.team.demand, rig.system.daemon)

    amid_creates(rig, demand_ends)
    rig.start()
    assert rig.cloud.calls["create"] <= AT_ONCE


def test_no_set_up_goes_on_once_a_node_is_listed_that_leaves_no_room_for_its_own(
    make_rig: MakeRig,
) -> None:
    """U10: the listing comes while the record is claimed."""
    rig = make_rig(min_nodes=1, max_nodes=1, poll_time=POLL_S)

    def comes_back() -> None:
        rig.cloud.add(tags=Tags())
        rig.clock.advance(POLL_S + 1)
        rig.timer.fire()
        heard_by(rig.system.team.cloud_list, rig.system.daemon, rig.system.daemon)

    rig.store.on("create", first(comes_back))
    rig.start()
    rig.turn(60)
    assert rig.cloud.calls["create"] == 0
    (told,) = rig.lines("node.setup_withdrawn")
    assert told["reason"] == "at_max_nodes"
    assert rig.lines("record.cleaned", record=told["record"], reason="create_refused")


def test_a_claim_whose_answer_was_lost_is_released_once_it_is_listed_u6(make_rig: MakeRig) -> None:
    """No create was sent for it: it need hold no slot and no node's place until it expires."""
    rig = make_rig(min_nodes=1, max_nodes=4, poll_time=POLL_S)
    rig.store.on("create", lose(StoreError("timed out")))
    rig.start()
    rig.turn(4 * POLL_S)
    (lost,) = rig.lines("node.setup_failed", action="claim")
    (freed,) = rig.lines("record.cleaned")
    assert (lost["definite"], freed["reason"]) == (False, "create_refused")
    assert rig.cloud.calls["create"] == len(rig.nodes) == 1
    assert [one.uuid for one in rig.records if one.claim] == [rig.nodes[0].tags.record]


@pytest.mark.slow
@pytest.mark.parametrize("before", ["claim", "create"])
def test_a_record_that_is_put_on_hold_is_neither_claimed_nor_booted_on(
    make_rig: MakeRig, before: str
) -> None:
    """U10, C9: the hold comes between the boot order and the claim, or between claim and create."""
    rig = make_rig(min_nodes=1, max_nodes=4, poll_time=POLL_S)
    record = rig.store.add_cleaned(quiet_for=10 * HOUR)

    def held() -> None:
        hold = Command(Verb.HOLD, "ann", "disk swap", record.uuid)
        rig.system.daemon.tell(Ordered(hold, lambda reply: None))
        heard_by(rig.system.daemon)

    if before == "claim":
        rig.cloud.on("check_image", first(held))
    else:
        rig.store.on("claim", first(held))
    rig.start()
    rig.turn(60)
    (told,) = rig.lines("node.setup_withdrawn")
    assert (told["reason"], told["record"]) == ("held", record.uuid)
    assert (rig.store.rows[record.uuid].claim is None) == (before == "claim")
    # Another record serves demand: after a withdrawn create, once the held claim is spent (U6).
    rig.turn(60 if before == "claim" else HOUR)
    assert len(rig.nodes) == 1
    assert record.uuid not in {node.tags.record for node in rig.nodes}


def test_a_record_whose_former_node_is_put_on_hold_is_not_claimed(make_rig: MakeRig) -> None:
    """U10, U8: its life could be given back no more."""
    rig = make_rig(min_nodes=0, max_nodes=4, poll_time=POLL_S, backlog="clean")
    rig.jobs = ()
    leaked = rig.store.add_leaked(7, quiet_for=10 * HOUR, instance_id="i-leaked")
    rig.start()
    rig.turn_until("record.cleaned", within=600, record=leaked.uuid)
    rig.turn(2 * POLL_S)  # until a listing shows the slot free: else the job gets a new record

    def held() -> None:
        hold = Command(Verb.HOLD, "ann", "it burned", "i-leaked")
        rig.system.daemon.tell(Ordered(hold, lambda reply: None))
        heard_by(rig.system.daemon)

    rig.cloud.on("check_image", first(held))
    rig.jobs = (Job("j"),)
    rig.turn_until("node.created", within=120)
    assert rig.reasons("node.setup_withdrawn", record=leaked.uuid) == ["held"]
    assert rig.store.rows[leaked.uuid].claim is None


def test_no_create_that_is_repeated_waits_for_a_worker_with_its_look_behind_it(
    make_rig: MakeRig,
) -> None:
    """U10: five creates are repeated, three workers are at it, and the pool is paused meanwhile."""
    rig = make_rig(min_nodes=5, max_nodes=5, max_creates=AT_ONCE)
    rig.cloud.on("create", *[fail(CloudError("HTTP 500"))] * 5)
    rig.start()
    assert rig.cloud.calls["create"] == 5

    def paused() -> None:
        rig.clock.advance(5)
        rig.timer.fire()
        rig.system.daemon.tell(Ordered(Command(Verb.PAUSE, "ann", "wait"), lambda reply: None))
        heard_by(rig.system.daemon)

    amid_creates(rig, paused)
    rig.turn(10)
    assert rig.cloud.calls["create"] <= 5 + AT_ONCE
