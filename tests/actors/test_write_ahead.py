"""What is written down, and in which order: nothing acts before its intent (SAFETY.md R1, R2)."""

from __future__ import annotations

from typing import Any

import pytest

from nodemanager.core.model.world import Guarantee, Job, WorkerState
from nodemanager.errors import CloudError, StoreError
from nodemanager.journal.api import IntentKind
from tests.actors.conftest import Leaking, MakeRig
from tests.actors.rig import Rig
from tests.actors.test_recovery import Idle, idle, killed, killed_in, restart, until
from tests.fakes import FakeCloud, FakeStore, TickingClock, fail, first, lose
from tests.fakes.script import Step

HOUR = 3600.0
__all__ = ["idle"]


def test_a_record_used_again_boots_a_new_instance_u5(make_rig: MakeRig) -> None:
    """EC2 answers a client token that it knows with the instance it made for it."""
    clock = TickingClock()
    store = FakeStore(clock, slots=[1])
    rig = make_rig(
        cloud=FakeCloud(clock), store=store, max_nodes=1, node_stale_after=600, backlog="clean"
    )
    rig.jobs = (Job("a"),)
    rig.start()
    rig.turn(60)
    (first,) = rig.lines("node.created")
    rig.cloud.vanish(first["node"])
    rig.turn_until("record.cleaned", within=HOUR, record=first["record"])
    rig.turn(300)
    _, second = rig.lines("node.created")
    assert second["record"] == first["record"]
    assert second["node"] != first["node"]
    assert rig.lines("node.paired", node=second["node"])


def test_killed_in_the_look_after_gone_the_slot_is_free_at_once_c20(idle: Idle) -> None:
    """The clean is written down before its last look: nothing else would lead to it."""
    rig, _, uuid = idle()
    rig.cloud.on("find_by_record", killed_in(rig, lost=False))
    rig.start()
    killed(rig)
    assert [one.intent.kind for one in rig.journal.open_intents()] == [IntentKind.CLEAN]
    restart(rig)
    until(rig, "record.cleaned", within=90, record=uuid, reason="after_shutdown")


def test_a_destroy_is_concluded_only_once_its_clean_is_written_down_r1(
    idle: Idle, monkeypatch: pytest.MonkeyPatch
) -> None:
    rig, node_id, uuid = idle()
    conclude = rig.journal.conclude
    open_then: list[set[str]] = []

    def seen(key: str, outcome: str, details: Any = None) -> None:
        if key == f"destroy:{node_id}":
            open_then.append({one.intent.key for one in rig.journal.open_intents()})
        conclude(key, outcome, details)

    monkeypatch.setattr(rig.journal, "conclude", seen)
    rig.start()
    until(rig, "record.cleaned", within=900, record=uuid)
    assert open_then == [{f"destroy:{node_id}", f"clean:{uuid}"}]


def test_without_the_lease_no_clean_is_written_down_and_it_follows_once_the_lease_is_back_l6(
    idle: Idle,
) -> None:
    """Another manager may have taken the pool, and writes its own cleans into the same journal."""
    rig, node_id, uuid = idle()
    rig.cloud.on("destroy", losing_the_lease(rig))
    rig.start()
    rig.turn(500)
    assert rig.nodes == []
    assert [one.intent.key for one in rig.journal.open_intents()] == [f"destroy:{node_id}"]
    rig.lease = True
    until(rig, "record.cleaned", within=90, record=uuid, reason="after_shutdown")
    assert rig.journal.open_intents() == ()


def test_without_the_lease_no_outcome_is_written_down_until_it_is_back_l6(
    leaking: Leaking,
) -> None:
    """The entry may be another manager's by now, which took over what this one began."""
    rig, record = leaking()
    rig.store.on("clean", losing_the_lease(rig))
    rig.start()
    until(rig, "record.cleaned", within=600, record=record.uuid)
    assert [one.intent.key for one in rig.journal.open_intents()] == [f"clean:{record.uuid}"]
    rig.lease = True
    rig.turn(60)
    assert rig.journal.open_intents() == ()
    (ended,) = (one for one in rig.journal.concluded() if one.intent.record == record.uuid)
    assert ended.outcome == "cleaned"
    assert rig.lines("invariant.broken") == []


def losing_the_lease(rig: Rig) -> Step:
    """The lock file is removed while the call is under way."""
    return first(lambda: setattr(rig, "lease", False))


def test_a_record_is_not_even_looked_at_before_its_node_is_gone_r1(idle: Idle) -> None:
    rig, _, uuid = idle()
    rig.store.on("clean", killed_in(rig, lost=False))
    rig.start()
    killed(rig)
    # As if the kill had come between the two writes of a node that is gone.
    (clean,) = rig.journal.open_intents()
    destroy = next(
        one.intent for one in rig.journal.concluded() if one.intent.kind is IntentKind.DESTROY
    )
    rig.journal.intend([destroy])
    rig.cloud.always("ask", fail(CloudError("timeout")))
    restart(rig)
    rig.turn(200)
    assert clean.intent.record == uuid
    assert rig.store.calls["read"] == rig.cloud.calls["find_by_record"] == 0
    rig.cloud.always("ask", None)
    until(rig, "record.cleaned", within=600, record=uuid)


def test_a_late_write_is_remembered_over_a_restart_c12_u2(make_rig: MakeRig) -> None:
    """A claim that timed out may take effect for node_stale_after, and would undo another's."""
    clock = TickingClock()
    store = FakeStore(clock, guarantee=Guarantee.FENCED)
    rig = make_rig(cloud=FakeCloud(clock), store=store, backlog="clean", max_nodes=4)
    rig.jobs = (Job("a"),)
    rig.fleet.state = WorkerState.IDLE
    old = store.add(modified_at=store.now() - 10 * HOUR)
    store.on("claim", fail(StoreError("timed out")))
    rig.start()
    rig.turn(300)
    assert rig.journal.open_intents() == ()
    assert not rig.lines("record.claimed", record=old.uuid)
    restart(rig)
    rig.jobs = (Job("a", count=2),)
    assert until(rig, "record.claimed", within=300)["record"] != old.uuid


@pytest.mark.parametrize("lost", [True, False], ids=["took-effect", "did-not"])
def test_a_claim_of_unknown_outcome_counts_until_both_listings_began_after_it_u6(
    make_rig: MakeRig, lost: bool
) -> None:
    """A listing that began before can't show it, and a boot beside it would be one too many."""
    rig: Rig = make_rig(min_nodes=1, max_nodes=3, cloudlist_poll_time=5, nodelist_poll_time=60)
    rig.store.add(modified_at=rig.store.now() - HOUR)
    error = StoreError("timed out")
    rig.store.on("claim", lose(error) if lost else fail(error))
    rig.start()
    rig.turn(50)
    assert rig.store.calls["claim"] == 1
    assert rig.cloud.calls["create"] == 0
