"""A store that is another, is down, or is not ours to write to (SAFETY.md L5, L6, D8)."""

from __future__ import annotations

from dataclasses import replace

import pytest

from nodemanager.actors.poll.polling import ACCOUNT_EVERY_S
from nodemanager.app.state import StateDirectory
from nodemanager.errors import CloudError, ForeignAnswer, Unauthorized
from tests.actors.conftest import MakeRig
from tests.cases import cases
from tests.fakes import fail, first

pytestmark = pytest.mark.slow

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


def test_a_registry_restored_from_a_backup_makes_the_daemon_read_only_until_somebody_looked(
    make_rig: MakeRig,
) -> None:
    """L5, N26: the id is the same. Two records claimed since the backup are gone, and their nodes
    were ordered destroyed as unpaired. Neither a restart nor a count that catches up ends it."""
    rig = make_rig(min_nodes=4, max_nodes=8)
    for _ in range(2):
        rig.fleet.add_node(age=10 * HOUR)
    backup, beats = dict(rig.store.rows), rig.store.beats
    for _ in range(2):
        rig.fleet.add_node(age=10 * HOUR)
    rig.start()
    rig.turn(300)
    rig.store.rows, rig.store.beats = backup, beats
    rig.forget_calls()
    told = rig.turn_until("identity.changed", within=60)
    assert "restored" in told["problem"]
    assert "facts.json" in told["problem"]
    rig.turn(HOUR)
    rig.kill()
    rig.start()
    rig.turn(HOUR)
    assert rig.cloud.writes == []
    assert set(rig.store.writes) == {"store_time heartbeat"}
    assert len(rig.nodes) == 4

    facts = StateDirectory(rig.directory / "state", clock=rig.clock)
    facts.remember("restored", None)
    rig.turn_until("identity.seen", within=60, store="store-1")
    rig.turn(HOUR)
    assert rig.lines("node.gone"), "what has no record is judged like any other by now"


def test_a_count_of_heartbeats_that_rises_is_no_news(make_rig: MakeRig) -> None:
    """L5: also when other managers of the store beat in between, and over a restart."""
    rig = make_rig(min_nodes=0)
    rig.start()
    rig.turn(120)
    rig.store.beats += 1000
    rig.kill()
    rig.start()
    rig.turn(120)
    assert not rig.lines("identity.changed")


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


def test_listing_goes_on_while_the_account_of_this_process_cant_be_told_again(
    make_rig: MakeRig,
) -> None:
    """L5, N20: STS is down for half a day, and EC2 answers."""
    rig = make_rig(min_nodes=1, backlog="clean")
    _, record = rig.fleet.add_node(age=10 * HOUR, pinged_ago=1.5 * HOUR)
    assert record.instance_id is not None
    rig.cloud.vanish(record.instance_id)
    rig.start()
    rig.turn(120)
    rig.cloud.always("account", fail(CloudError("sts.amazonaws.com: timed out")))
    rig.change_polling(240)
    rig.turn(12 * HOUR)
    rig.change_polling(30)
    assert rig.lines("list.failed") == []
    assert rig.lines("record.cleaned", record=record.uuid)
    (told,) = rig.lines("identity.unverified")
    assert told["account"] == rig.cloud.account_name

    rig.cloud.always("account", None)
    assert rig.turn_until("identity.seen", within=120)


def test_an_account_that_was_never_told_is_waited_for(make_rig: MakeRig) -> None:
    """L5, N20: what was known before a restart says nothing of today's credentials."""
    rig = make_rig(min_nodes=1)
    rig.start()
    rig.turn(60)
    rig.kill()
    rig.cloud.always("account", fail(CloudError("sts.amazonaws.com: timed out")))
    rig.forget_calls()
    rig.start()
    rig.turn(HOUR)
    assert rig.cloud.calls["list_nodes"] == 0
    assert rig.lines("list.failed", source="cloud")


def test_another_account_makes_read_only_however_the_next_question_ends(
    make_rig: MakeRig,
) -> None:
    """L5, N20."""
    rig = make_rig(min_nodes=0)
    rig.start()
    rig.turn(60)
    rig.cloud.on("account", first(lambda: setattr(rig.cloud, "account_name", "fake:account-2")))
    rig.turn_until("identity.changed", within=900)
    rig.cloud.always("account", fail(CloudError("sts.amazonaws.com: timed out")))
    rig.apply(replace(rig.system.settings, min_nodes=2))
    rig.turn(2 * HOUR)
    assert rig.nodes == []


def test_another_account_is_noticed_though_the_listing_behind_the_question_fails(
    make_rig: MakeRig,
) -> None:
    """L5: the daemon hears of the account with the listing, and the next one is believed."""
    rig = make_rig(min_nodes=0)
    rig.start()
    rig.turn(60)
    known, rig.cloud.account_name = rig.cloud.account_name, "fake:account-2"
    fails = first(lambda: rig.cloud.on("list_nodes", fail(CloudError("500"))))
    rig.cloud.on("account", fails)
    rig.turn_until("identity.changed", within=ACCOUNT_EVERY_S + 120)
    rig.cloud.account_name = known
    rig.cloud.on("account", fails)
    rig.forget_lines()
    assert rig.turn_until("identity.seen", within=150)["account"] == known


@cases(
    "error",
    {"refused": Unauthorized("the key is revoked"), "foreign": ForeignAnswer("a proxy's page")},
)
def test_an_account_question_that_is_refused_stops_listing(
    make_rig: MakeRig, error: CloudError
) -> None:
    """L5, N20: only an outage of the one who tells it is none of ours."""
    rig = make_rig(min_nodes=0)
    rig.start()
    rig.turn(60)
    rig.cloud.always("account", fail(error))
    rig.turn(900)
    rig.forget_calls()
    rig.turn(HOUR)
    assert rig.cloud.calls["list_nodes"] == 0


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


def test_stamps_that_contradict_each_other_are_told_and_free_nothing_t1(make_rig: MakeRig) -> None:
    rig = make_rig(min_nodes=0, backlog="clean")
    long_ago = rig.store.now() - 10 * HOUR
    record = rig.store.add_leaked(7, quiet_for=5 * HOUR, modified_at=long_ago)
    rig.start()
    rig.turn(60)
    (told,) = rig.lines("clock.doubted", source="records")
    assert (list(told["doubted"]), told["more"]) == ([record.uuid], None)
    assert rig.reasons("record.keep", record=record.uuid)[-1] == "within_window"
    rig.turn(HOUR)
    assert len(rig.lines("clock.doubted")) == 1
    assert rig.store.rows[record.uuid].slot_number == 7


def test_of_many_records_with_such_stamps_ten_are_named_t1(make_rig: MakeRig) -> None:
    rig = make_rig(min_nodes=0, backlog="clean")
    long_ago = rig.store.now() - 10 * HOUR
    rig.store.add_leaked(1, quiet_for=5 * HOUR)
    doubted = [
        rig.store.add_leaked(slot, quiet_for=5 * HOUR, modified_at=long_ago).uuid
        for slot in range(2, 14)
    ]
    rig.start()
    rig.turn(60)
    (told,) = rig.lines("clock.doubted")
    assert (list(told["doubted"]), told["more"]) == (doubted[:10], 2)
