"""A record is freed while its node lives: told, stopped, given back (SAFETY.md U8)."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from nodemanager.actors.messages import Ordered
from nodemanager.app.from_config import settings_of
from nodemanager.config import load
from nodemanager.core.model.breaker import Cause
from nodemanager.core.model.world import (
    NO_TAGS,
    CloudState,
    Guarantee,
    Record,
    WorkerState,
)
from nodemanager.core.operate.replies import Command, Reply, Result
from nodemanager.core.operate.verbs import Verb
from nodemanager.errors import StoreError
from nodemanager.journal.reading import read
from nodemanager.journal.replay import replayed
from nodemanager.journal.sqlite import SqliteJournal
from tests.actors.conftest import MakeRig
from tests.actors.rig import Rig, until
from tests.fakes import FakeCloud, FakeStore, TickingClock
from tests.fakes.cloud import Machine
from tests.fakes.journal import MemoryJournal
from tests.fakes.script import fail, lose

pytestmark = pytest.mark.slow

HOUR = 3600.0


def freed_alive(rig: Rig, *, quiet: float = 3 * HOUR) -> tuple[Machine, Record]:
    """Run until a record is freed whose node lives: it fell silent, and A1 did not hold."""
    machine, record = rig.fleet.add_node(age=10 * HOUR, pinged_ago=quiet)
    rig.fleet.silent.add(machine.node.id)
    hide(rig, machine)
    rig.start()
    until(rig, "record.cleaned", within=600, record=record.uuid)
    return machine, record


def hide(rig: Rig, machine: Machine) -> None:
    del rig.cloud.machines[machine.node.id]


def show(rig: Rig, machine: Machine) -> None:
    rig.cloud.machines[machine.node.id] = machine


def wake(rig: Rig, machine: Machine) -> None:
    """The cloud knows the node again, and it pings."""
    show(rig, machine)
    rig.fleet.silent.discard(machine.node.id)


def test_a_late_ping_is_told_opens_the_breaker_and_the_record_is_given_back(
    make_rig: MakeRig,
) -> None:
    rig = make_rig(backlog="clean")
    machine, before = freed_alive(rig)
    assert not rig.store.rows[before.uuid].holds_anything
    rig.turn(90)
    # It pings before any listing shows it: that alone is told.
    rig.fleet.ping(machine)
    told = until(rig, "record.false_clean", within=120)
    wake(rig, machine)
    assert told["level"] == "error"
    assert told["reason"] == "late_ping"
    assert (told["record"], told["node"]) == (before.uuid, machine.node.id)
    assert (told["slot"], told["incarnation"]) == (before.slot_number, before.incarnation)
    assert told["late_s"] > 60
    assert told["cause"] == "stale_slot"
    (opened,) = rig.lines("breaker.opened")
    assert (opened["cause"], opened["count"]) == ("false_clean", 1)
    # A kill between the two would leave nobody who tells it: the next run inherits the breaker.
    lines = [line["event"] for line in rig.out.fields]
    assert lines.index("record.false_clean") < lines.index("breaker.opened")
    # The ping alone gives nothing back (U8): the cloud, asked by id, denied the node at first.
    restored = until(rig, "record.restored", within=120)
    assert restored["reason"] == "false_clean"
    assert restored["record"] == before.uuid
    after = rig.store.rows[before.uuid]
    assert (after.slot_number, after.hostname) == (before.slot_number, before.hostname)
    assert (after.claim, after.ping_secret) == (before.claim, before.ping_secret)
    until(rig, "breaker.closed", within=120, cause="false_clean")
    assert rig.fleet.refused[machine.node.id].startswith("401")
    rig.turn(HOUR)
    assert rig.lines("node.paired", record=before.uuid)
    assert rig.store.rows[before.uuid].claim == before.claim
    assert len(rig.lines("record.false_clean")) == len(rig.lines("record.restored")) == 1
    assert machine.node.id in rig.cloud.machines


def test_a_node_held_while_its_life_was_freed_is_released_by_the_same_id_c9(
    make_rig: MakeRig,
) -> None:
    """Its record was freed and no listing showed it when it was put on hold; now it is back."""
    rig = make_rig(backlog="clean")
    machine, before = freed_alive(rig)
    node_id = machine.node.id
    replies: list[Reply] = []
    rig.turn(90)
    rig.system.daemon.tell(Ordered(Command(Verb.HOLD, "ann", "wait", node_id), replies.append))
    wake(rig, machine)
    until(rig, "record.not_restored", within=300, reason="held", record=before.uuid)
    assert "held" in rig.reasons("node.keep", node=node_id)
    rig.system.daemon.tell(Ordered(Command(Verb.RELEASE, "ann", "", node_id), replies.append))
    until(rig, "record.restored", within=300, record=before.uuid)
    assert [one.result for one in replies] == [Result.DONE, Result.DONE]
    assert node_id in rig.cloud.machines


def test_a_ping_in_the_minute_of_the_clean_is_no_sign(make_rig: MakeRig) -> None:
    rig = make_rig(backlog="clean")
    machine, _ = freed_alive(rig)
    rig.fleet.ping(machine)
    assert rig.fleet.refused
    rig.turn(600)
    assert not rig.lines("record.false_clean")
    assert not rig.lines("breaker.opened")


@pytest.mark.parametrize("guarantee", list(Guarantee))
def test_without_late_pings_a_listed_node_that_is_alive_by_id_tells_it(
    make_rig: MakeRig, clock: TickingClock, guarantee: Guarantee
) -> None:
    """A store that remembers nothing: the node's tags say whose it is."""
    store = FakeStore(clock, guarantee=guarantee)
    store.tells_late_pings = False
    rig = make_rig(cloud=FakeCloud(clock), store=store, backlog="clean")
    machine, before = freed_alive(rig)
    rig.turn(90)
    wake(rig, machine)
    told = until(rig, "record.false_clean", within=300)
    assert told["reason"] == "alive_after_clean"
    assert (told["record"], told["node"], told["state"]) == (
        before.uuid,
        machine.node.id,
        "running",
    )
    until(rig, "record.restored", within=120, record=before.uuid)
    until(rig, "breaker.closed", within=120, cause="false_clean")


@pytest.mark.parametrize("comes_back", [True, False])
def test_a_node_that_we_destroyed_and_that_pings_on_is_given_its_record_if_it_is_there(
    make_rig: MakeRig, comes_back: bool
) -> None:
    """C20: a ping may be under way for long, and a record for nobody is a leaked slot."""
    rig = make_rig(min_nodes=0)
    rig.fleet.state = WorkerState.IDLE
    machine, before = rig.fleet.add_node(age=10 * HOUR)
    rig.start()
    until(rig, "record.cleaned", within=600, record=before.uuid, reason="after_shutdown")
    rig.turn(90)
    rig.fleet.silent.add(machine.node.id)
    if comes_back:
        machine.ends_at = None
        rig.cloud.change(machine.node.id, state=CloudState.RUNNING)
    rig.fleet.state = WorkerState.BUSY
    rig.fleet.ping(machine)
    until(rig, "record.false_clean", within=60, cause="after_shutdown")
    rig.fleet.silent.clear()
    until(rig, "breaker.closed", within=120, cause="false_clean")
    assert bool(rig.lines("record.restored")) is comes_back
    assert rig.store.rows[before.uuid].holds_anything is comes_back


def test_a_restart_neither_forgets_nor_tells_it_twice(make_rig: MakeRig) -> None:
    rig = make_rig(backlog="clean")
    machine, before = freed_alive(rig)
    rig.store.always("restore", fail(StoreError("timeout")))
    rig.turn(90)
    wake(rig, machine)
    until(rig, "record.false_clean", within=120)
    rig.turn(60)
    rig.kill()
    rig.forget_lines()
    rig.start()
    assert [line["cause"] for line in rig.lines("breaker.opened")] == ["false_clean"]
    rig.turn(300)
    assert not rig.lines("record.false_clean")
    assert not rig.lines("record.cleaned")
    rig.store.always("restore", None)
    until(rig, "record.restored", within=120, record=before.uuid)
    until(rig, "breaker.closed", within=120)


def test_what_a_former_run_freed_is_known_by_the_journal(make_rig: MakeRig) -> None:
    rig = make_rig(backlog="clean")
    rig.store.tells_late_pings = False
    machine, before = freed_alive(rig)
    rig.turn(90)
    rig.kill()
    wake(rig, machine)
    rig.start()
    told = until(rig, "record.false_clean", within=300)
    assert (told["reason"], told["slot"]) == ("alive_after_clean", before.slot_number)
    assert told["cause"] == "stale_slot"


def test_what_a_former_run_freed_is_no_free_to_come_where_our_clock_was_set_back(
    make_rig: MakeRig,
) -> None:
    """Else every listing would be from before it, until our clock is past it again (U8)."""
    rig = make_rig(backlog="clean")
    rig.store.tells_late_pings = False
    machine, before = freed_alive(rig)
    rig.turn(90)
    rig.kill()
    rig.clock.step_wall(-10 * HOUR)
    wake(rig, machine)
    rig.start()
    told = until(rig, "record.false_clean", within=300)
    assert (told["record"], told["reason"]) == (before.uuid, "alive_after_clean")


def unclaimed(rig: Rig) -> tuple[Machine, Record]:
    """A record without a claim is freed while its node lives, and given back an hour ago, says our
    clock, which was set back meanwhile."""
    machine, before = rig.fleet.add_node(age=10 * HOUR, pinged_ago=3 * HOUR)
    rig.store.put(before.uuid, claim=None)
    rig.cloud.change(machine.node.id, tags=NO_TAGS)
    machine = rig.cloud.machines[machine.node.id]
    rig.fleet.silent.add(machine.node.id)
    hide(rig, machine)
    rig.start()
    until(rig, "record.cleaned", within=600, record=before.uuid)
    rig.turn(90)
    rig.clock.step_wall(-HOUR)
    wake(rig, machine)
    until(rig, "record.false_clean", within=300)
    until(rig, "record.restored", within=300)
    until(rig, "breaker.closed", within=300, cause="false_clean")
    rig.forget_lines()
    return machine, before


def test_a_life_that_was_given_back_is_not_told_by_the_next_run_where_our_clock_was_set_back(
    make_rig: MakeRig,
) -> None:
    rig = make_rig(backlog="clean", adopt_unclaimed="yes")
    unclaimed(rig)
    rig.kill()
    rig.start()
    rig.turn(600)
    assert not rig.lines("record.false_clean")
    assert not rig.lines("breaker.opened")


def test_a_late_ping_while_no_daemon_ran_is_told_by_the_next(make_rig: MakeRig) -> None:
    rig = make_rig(backlog="clean")
    machine, before = freed_alive(rig)
    rig.kill()
    rig.clock.advance(90)
    wake(rig, machine)
    rig.fleet.beat()
    rig.fleet.silent.add(machine.node.id)
    rig.start()
    assert rig.reasons("record.false_clean") == ["late_ping"]
    assert rig.lines("record.restored", record=before.uuid)


def test_a_slot_that_is_anothers_by_now_is_told_and_the_breaker_stays_open(
    make_rig: MakeRig,
) -> None:
    rig = make_rig(backlog="clean")
    machine, before = freed_alive(rig)
    rig.turn(90)
    other = rig.store.add_leaked(before.slot_number, quiet_for=10)
    wake(rig, machine)
    refused = until(rig, "record.not_restored", within=120)
    assert refused["reason"] == "slot_taken"
    assert rig.store.rows[other.uuid] == other
    assert "destroy" in refused["clear"]
    rig.turn(HOUR)
    assert len(rig.lines("record.not_restored")) == 1
    assert not rig.lines("breaker.closed")
    assert machine.node.id in rig.cloud.machines
    assert not rig.store.rows[before.uuid].holds_anything
    hide(rig, machine)
    until(rig, "breaker.closed", within=HOUR, cause="false_clean")


def test_a_record_that_was_claimed_since_is_not_given_back(make_rig: MakeRig) -> None:
    rig = make_rig(backlog="clean")
    machine, before = freed_alive(rig)
    rig.turn(90)
    rig.store.write(
        before.uuid, hostname="compute9", slot_number=9, pool=rig.store.pool, ping_secret="other"
    )
    wake(rig, machine)
    refused = until(rig, "record.not_restored", within=120)
    assert refused["reason"] == "record_reused"
    assert rig.store.rows[before.uuid].slot_number == 9


def test_a_held_record_is_given_back_once_the_hold_is_over(make_rig: MakeRig) -> None:
    """C9: nothing automatic touches what an operator holds."""
    rig = make_rig(backlog="clean")
    machine, before = freed_alive(rig)
    rig.turn(90)
    rig.system.daemon.tell(
        Ordered(Command(Verb.HOLD, "test", "", before.uuid), lambda problem: None)
    )
    wake(rig, machine)
    assert until(rig, "record.not_restored", within=120)["reason"] == "held"
    rig.turn(120)
    assert not rig.lines("record.restored")
    rig.system.daemon.tell(
        Ordered(Command(Verb.RELEASE, "test", "", before.uuid), lambda problem: None)
    )
    until(rig, "record.restored", within=120)


def test_without_a_pre_image_it_is_told_and_left_to_the_operator(make_rig: MakeRig) -> None:
    """Another manager freed it: its journal is not ours."""
    rig = make_rig(backlog="clean")
    machine, before = freed_alive(rig)
    rig.kill()
    rig.journal = MemoryJournal(rig.clock)
    rig.clock.advance(90)
    wake(rig, machine)
    rig.start()
    rig.turn(60)
    assert rig.reasons("record.false_clean") == ["late_ping"]
    assert rig.reasons("record.not_restored") == ["no_pre_image"]
    rig.turn(300)
    assert len(rig.lines("record.not_restored")) == 1
    assert not rig.store.rows[before.uuid].holds_anything


def test_a_restore_whose_answer_was_lost_is_found_done(make_rig: MakeRig) -> None:
    rig = make_rig(backlog="clean")
    machine, before = freed_alive(rig)
    rig.store.on("restore", lose(StoreError("timeout")))
    rig.turn(90)
    wake(rig, machine)
    until(rig, "record.not_restored", within=120)
    until(rig, "breaker.closed", within=120, cause="false_clean")
    assert rig.store.rows[before.uuid].claim == before.claim
    assert rig.store.calls["restore"] == 1


def test_while_it_is_not_given_back_its_record_is_not_used_for_another(make_rig: MakeRig) -> None:
    rig = make_rig(backlog="clean")
    machine, before = freed_alive(rig)
    rig.store.always("restore", fail(StoreError("timeout")))
    rig.turn(90)
    wake(rig, machine)
    until(rig, "record.false_clean", within=120)
    settings = settings_of(load(rig.directory / "rig.cfg", environ={}), rig.cloud, rig.store)
    rig.apply(replace(settings, min_nodes=2))
    rig.turn(300)
    assert rig.lines("node.created")
    assert not rig.store.rows[before.uuid].holds_anything


def test_a_dry_run_tells_it_and_gives_nothing_back(make_rig: MakeRig) -> None:
    """S3."""
    rig = make_rig(backlog="clean")
    machine, _ = freed_alive(rig)
    rig.kill()
    rig.clock.advance(90)
    wake(rig, machine)
    rig.fleet.beat()
    rig.forget_calls()
    rig.start(dry_run=True)
    rig.turn(120)
    assert rig.reasons("record.false_clean") == ["late_ping"]
    assert rig.store.writes == []


def test_after_a_reset_it_is_not_told_again_until_it_was_given_back(make_rig: MakeRig) -> None:
    rig = make_rig(backlog="clean")
    machine, before = freed_alive(rig)
    rig.store.always("restore", fail(StoreError("timeout")))
    rig.turn(90)
    wake(rig, machine)
    until(rig, "record.false_clean", within=120)
    rig.system.daemon.tell(Ordered(Command(Verb.BREAKER_RESET, "test"), lambda problem: None))
    rig.turn(300)
    assert len(rig.lines("record.false_clean")) == 1
    assert [line["cause"] for line in rig.lines("breaker.opened")] == [Cause.FALSE_CLEAN.value]
    rig.store.always("restore", None)
    rig.store.restore(rig.store.rows[before.uuid], before)
    rig.turn(120)
    rig.forget_lines()
    rig.fleet.silent.add(machine.node.id)
    hide(rig, machine)
    until(rig, "record.cleaned", within=4 * HOUR, record=before.uuid)
    rig.turn(90)
    wake(rig, machine)
    until(rig, "record.false_clean", within=120)


def test_a_false_clean_replays_from_the_journal(
    make_rig: MakeRig, clock: TickingClock, tmp_path: Path
) -> None:
    path = tmp_path / "journal.db"
    journal = SqliteJournal(path=path, pool="pool", clock=clock, boot_id="boot-1")
    rig = make_rig(cloud=FakeCloud(clock), journal=journal, backlog="clean")
    machine, _ = freed_alive(rig)
    rig.turn(90)
    rig.kill()
    wake(rig, machine)
    rig.start()
    rig.turn(300)
    assert rig.lines("record.restored")
    steps = list(replayed(read(path)))
    journal.close()
    assert all(step.is_same for step in steps)
    causes = [step.plan.breaker.cause for step in steps]
    assert Cause.FALSE_CLEAN in causes
    assert causes[-1] is None
    assert any(step.plan.restores for step in steps)
