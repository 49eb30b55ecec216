"""A store that is another, is down, or is not ours to write to (SAFETY.md L5, L6, D8)."""

from __future__ import annotations

from tests.actors.conftest import Leaking, MakeRig
from tests.fakes import first

HOUR = 3600.0


def test_a_registry_swapped_for_an_empty_one_makes_the_daemon_read_only(
    make_rig: MakeRig,
) -> None:
    rig = make_rig(min_nodes=4, max_nodes=8)
    for _ in range(4):
        rig.fleet.add_node(age=10 * HOUR)
    rig.start()
    rig.turn(60)
    true_rows, rig.store.rows, rig.store.id = rig.store.rows, {}, "store-2"
    rig.forget_calls()

    rig.turn(5 * HOUR)

    assert rig.cloud.writes == []
    assert set(rig.store.writes) == {"store_time heartbeat"}
    assert rig.lines("identity.changed", reason="read_only")
    assert len(rig.nodes) == 4

    rig.store.rows, rig.store.id = true_rows, "store-1"
    rig.turn(10 * 60)
    assert rig.summary()["paired"] == 4
    assert len(rig.nodes) == 4


def test_credentials_that_lead_to_the_known_account_again_are_noticed_with_the_next_poll(
    make_rig: MakeRig,
) -> None:
    """L5: read-only, but not for longer than the credentials were wrong."""
    rig = make_rig(min_nodes=0)
    rig.start()
    rig.turn(60)
    known, rig.cloud.account_name = rig.cloud.account_name, "fake:account-2"
    rig.turn_until("identity.changed", within=900)
    rig.turn(300)
    rig.cloud.account_name = known
    rig.forget_lines()
    assert rig.turn_until("identity.seen", within=150)["account"] == known


def test_a_registry_swapped_right_before_a_set_up_gets_no_record(make_rig: MakeRig) -> None:
    """L5: it is looked at before anything is written, not at the next poll."""
    rig = make_rig(min_nodes=1, max_nodes=1)
    swapped: list[str] = []

    def swap() -> None:
        if rig.store.calls["list_records"] and not swapped:
            swapped.append("store-2")
            rig.store.rows, rig.store.id = {}, "store-2"

    rig.store.always("store_id", first(swap))
    rig.start()
    rig.turn(300)
    assert rig.store.rows == {}
    assert rig.cloud.calls["create"] == 0
    assert rig.lines("node.setup_failed", action="claim")


def test_a_registry_down_for_longer_than_the_window_costs_no_busy_node(
    make_rig: MakeRig,
) -> None:
    rig = make_rig(min_nodes=0, max_nodes=8)
    for _ in range(6):
        rig.fleet.add_node(age=10 * HOUR)
    rig.start()
    rig.turn(300)
    rig.store.down = True
    rig.turn(3 * HOUR)
    assert rig.lines("list.failed", source="records")

    # It answers again some time before the nodes' next pings.
    rig.fleet.mute = True
    rig.store.down = False
    rig.turn(600)
    rig.fleet.mute = False
    rig.turn(HOUR)

    assert len(rig.nodes) == 6
    assert rig.lines("node.shutdown_started") == []
    assert rig.store.calls["clean"] == 0
    assert rig.summary()["paired"] == 6


def test_without_the_lease_nothing_is_written(leaking: Leaking) -> None:
    rig, record = leaking()
    rig.lease = False
    rig.start()
    rig.turn(600)
    assert rig.store.calls["clean"] == 0
    assert "no_lease" in rig.reasons("record.keep", record=record.uuid)
    assert len(rig.lines("lease.lost")) == 1
