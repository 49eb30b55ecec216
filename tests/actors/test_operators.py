"""Operators' commands to a running team: what they do, refuse, outlive, and write down (O1-O4)."""

from __future__ import annotations

import dataclasses
import threading
from pathlib import Path
from typing import Any

import pytest

from nodemanager.actors.daemon.context import Context
from nodemanager.actors.messages import CloudListed, Ordered
from nodemanager.actors.report.journal_writer import JournalWriter
from nodemanager.core.model.annotations import Mark, Marks
from nodemanager.core.model.reasons import Event, Reason
from nodemanager.core.model.world import Listing, Outcome, Record, Tags, WorkerState
from nodemanager.core.observe.facts import CommandGiven
from nodemanager.core.operate import commands
from nodemanager.core.operate.replies import Command, Reply, Result
from nodemanager.core.operate.verbs import Verb
from nodemanager.core.plan.plan import Plan
from nodemanager.errors import CloudError, StoreError, Throttled
from nodemanager.journal.kept import MARKS
from nodemanager.journal.reading import Decided, read
from nodemanager.journal.replay import replayed
from nodemanager.journal.sqlite import SqliteJournal
from nodemanager.journal.story import Story
from tests.actors.conftest import Leaking, MakeRig
from tests.actors.rig import Rig, memory, until
from tests.cases import cases
from tests.fakes import FakeCloud, FakeStore, TickingClock, answer, fail, first

pytestmark = pytest.mark.slow

HOUR = 3600.0


class Operator:
    """Tells a rig's daemon, and reads its answers."""

    def __init__(self, rig: Rig) -> None:
        self.rig = rig

    def say(self, verb: Verb, id: str | None = None, reason: str = "", **more: Any) -> list[Reply]:
        said: list[Reply] = []
        command = Command(verb, "ann", reason, id, **more)
        self.rig.system.daemon.tell(Ordered(command, said.append))
        self.rig.flush()
        return said

    def _now(self, verb: Verb, *given: Any, **more: Any) -> Reply:
        (reply,) = self.say(verb, *given, **more)
        return reply

    def hold(self, id: str, reason: str = "", **more: Any) -> Reply:
        return self._now(Verb.HOLD, id, reason, **more)

    def release(self, id: str) -> Reply:
        return self._now(Verb.RELEASE, id)

    def drain(self, id: str, reason: str = "new image") -> Reply:
        return self._now(Verb.DRAIN, id, reason)

    def cordon(self, id: str, reason: str = "a strange disk") -> Reply:
        return self._now(Verb.CORDON, id, reason)

    def uncordon(self, id: str) -> Reply:
        return self._now(Verb.UNCORDON, id)

    def run(self, id: str) -> Reply:
        return self._now(Verb.RUN, id)

    def kill(self, id: str) -> Reply:
        return self._now(Verb.KILL, id, "it hangs")

    def clean(self, id: str, *forced: str, reason: str = "it burned") -> Reply:
        return self._now(Verb.CLEAN, id, reason, forced=forced)

    def pause(self) -> Reply:
        return self._now(Verb.PAUSE, None, "upgrade")

    def resume(self) -> Reply:
        return self._now(Verb.RESUME)

    def reset(self) -> Reply:
        return self._now(Verb.BREAKER_RESET)


def pairs(rig: Rig, count: int = 2) -> list[tuple[str, Record]]:
    """So many nodes with their records, ages old and pinging."""
    made = []
    for _ in range(count):
        machine, record = rig.fleet.add_node(age=10 * HOUR)
        made.append((machine.node.id, record))
    return made


def restart(rig: Rig) -> Operator:
    rig.kill()
    rig.forget_lines()
    rig.start()
    return Operator(rig)


@pytest.fixture
def busy(make_rig: MakeRig) -> Rig:
    """A pool of two busy nodes, which demand wants."""
    rig = make_rig(min_nodes=2, max_nodes=4, backlog="clean")
    rig.fleet.state = WorkerState.BUSY
    pairs(rig)
    rig.start()
    rig.turn(120)
    return rig


def node_of(rig: Rig, number: int = 0) -> str:
    return sorted(node.id for node in rig.nodes)[number]


# Drain, run.


def test_a_drained_node_goes_once_idle_and_its_slot_is_freed(busy: Rig) -> None:
    """O1, C20."""
    rig, operator = busy, Operator(busy)
    node_id = node_of(rig)
    assert operator.drain(node_id).result is Result.DONE
    rig.turn(300)
    assert node_id in {node.id for node in rig.nodes}
    assert rig.reasons("node.keep", node=node_id)[-1] == "draining"
    assert rig.summary()["draining"] == 1
    rig.fleet.state = WorkerState.IDLE
    gone = until(rig, "node.gone", within=300, node=node_id)
    assert gone["reason"] == "drained"
    until(rig, "record.cleaned", within=60, record=gone["record"], reason="after_shutdown")
    (told,) = rig.lines("operator.drain")
    assert (told["by"], told["cause"], told["result"]) == ("ann", "new image", "done")


def test_a_drain_outlives_kill_9_and_run_undoes_it(busy: Rig) -> None:
    rig = busy
    node_id = node_of(rig)
    Operator(rig).drain(node_id)
    operator = restart(rig)
    rig.turn(120)
    assert rig.reasons("node.keep", node=node_id)[-1] == "draining"
    assert operator.drain(node_id).result is Result.ALREADY
    assert operator.run(node_id).result is Result.DONE
    assert operator.run(node_id).result is Result.ALREADY
    rig.fleet.state = WorkerState.IDLE
    rig.turn(600)
    assert rig.lines("node.gone", node=node_id, reason="drained") == []
    operator = restart(rig)
    rig.turn(120)
    assert "draining" not in rig.reasons("node.keep", node=node_id)


def test_a_cordon_keeps_an_idle_node_over_kill_9_until_it_is_uncordoned(busy: Rig) -> None:
    """O5: it is drained and kept, and another is booted in its place."""
    rig = busy
    node_id = node_of(rig)
    assert Operator(rig).cordon(node_id).result is Result.DONE
    rig.fleet.state = WorkerState.IDLE
    rig.turn(600)
    operator = restart(rig)
    rig.turn(600)
    assert node_id in {node.id for node in rig.nodes}
    assert len(rig.nodes) == 3, "min_nodes counts without it"
    assert rig.reasons("node.keep", node=node_id)[-1] == "cordoned"
    again = operator.cordon(node_id)
    assert again.result is Result.ALREADY
    assert again.text.endswith(": a strange disk")
    assert operator.uncordon(node_id).result is Result.DONE
    assert operator.uncordon(node_id).result is Result.ALREADY
    rig.turn(600)
    assert len(rig.nodes) == 2, "one of three idle nodes is beyond demand"


@cases(("verb", "reason"), {"cordon": (Verb.CORDON, "cordoned"), "drain": (Verb.DRAIN, "draining")})
def test_an_order_on_a_node_that_only_the_next_listing_shows_is_of_that_node(
    busy: Rig, verb: Verb, reason: str
) -> None:
    """O1, O5: it is told to stand, so it does."""
    node_id, said = node_of(busy), []
    machine = busy.cloud.machines[node_id]
    machine.listed = False
    busy.turn(30)
    machine.listed = True
    nodes, now, gate = busy.cloud.list_nodes().items, busy.clock.boottime(), threading.Event()
    daemon = busy.system.daemon
    # Until all three wait, it is held up by the answer to another command.
    daemon.tell(Ordered(Command(Verb.RELEASE, "bob", "", node_id), lambda reply: gate.wait(60)))
    daemon.tell(Ordered(Command(verb, "ann", "a strange disk", node_id), said.append))
    daemon.tell(CloudListed(Listing(nodes, now, now, complete=True)))
    gate.set()
    busy.flush()
    (reply,) = said
    assert reply.result is Result.DONE, reply.text
    busy.turn(60)
    assert busy.reasons("node.keep", node=node_id)[-1] == reason


@pytest.mark.parametrize("verb", [Verb.CORDON, Verb.DRAIN, Verb.KILL])
def test_an_order_that_is_undone_before_a_plan_saw_it_is_not_told_as_done(
    busy: Rig, verb: Verb
) -> None:
    """O1, O2, O5: else the last line of the log says what does not hold."""
    node_id, said, undone, gate = node_of(busy), [], [], threading.Event()
    daemon = busy.system.daemon
    # Until both wait, it is held up by the answer to another command.
    daemon.tell(Ordered(Command(Verb.RELEASE, "bob", "", node_id), lambda reply: gate.wait(60)))
    daemon.tell(Ordered(Command(verb, "ann", "a strange disk", node_id), said.append))
    daemon.tell(Ordered(Command(Verb.RUN, "ann", "", node_id), undone.append))
    gate.set()
    busy.flush()
    assert [reply.result for reply in (*said, *undone)] == [Result.FAILED, Result.DONE]
    assert said[0].text == f"{node_id} may take work again: a later order undid this one"
    busy.turn(60)
    assert node_id in {node.id for node in busy.nodes}


@cases(("verb", "reason"), {"cordon": (Verb.CORDON, "cordoned"), "drain": (Verb.DRAIN, "draining")})
def test_an_order_on_a_node_that_only_an_answer_shows_is_of_that_node(
    busy: Rig, verb: Verb, reason: str
) -> None:
    """O1, O5: listings lack it, and the cloud, asked by id, has it (P6)."""
    node_id, said = node_of(busy), []
    machine = busy.cloud.machines[node_id]
    machine.listed = False
    until(busy, "list.suspect", within=300, node=node_id)
    busy.system.daemon.tell(Ordered(Command(verb, "ann", "", node_id), said.append))
    busy.flush()
    (reply,) = said
    assert reply.result is Result.DONE, reply.text
    machine.listed = True
    busy.turn(60)
    assert busy.reasons("node.keep", node=node_id)[-1] == reason


def test_a_cordoned_node_that_falls_silent_unlisted_is_kept(busy: Rig) -> None:
    """O5: as an unlisted silent one it would be destroyed (D13)."""
    node_id = node_of(busy)
    busy.cloud.machines[node_id].listed = False
    until(busy, "list.suspect", within=300, node=node_id)
    assert Operator(busy).cordon(node_id).result is Result.DONE
    busy.fleet.silent.add(node_id)
    busy.turn(3 * HOUR)
    assert not busy.lines("node.shutdown_started", node=node_id)
    assert not busy.lines("record.cleaned")
    assert node_id in {node.id for node in busy.nodes}


@cases(("earlier", "later"), {"a-drain": ("drain", "cordon"), "a-cordon": ("cordon", "drain")})
def test_an_order_in_the_place_of_another_while_no_listing_shows_the_node_is_of_that_node(
    busy: Rig, earlier: str, later: str
) -> None:
    """O1, O5: what it takes the place of knows the node's life."""
    operator, node_id = Operator(busy), node_of(busy)
    assert getattr(operator, earlier)(node_id).result is Result.DONE
    busy.cloud.machines[node_id].listed = False
    busy.turn(60)
    assert getattr(operator, later)(node_id).result is Result.DONE
    busy.cloud.machines[node_id].listed = True
    busy.fleet.state = WorkerState.IDLE
    busy.turn(600)
    if later == "drain":
        assert busy.reasons("node.gone", node=node_id) == ["drained"]
    else:
        assert busy.reasons("node.keep", node=node_id)[-1] == "cordoned"


def test_a_drain_and_a_cordon_take_each_other_s_place(busy: Rig) -> None:
    rig, operator = busy, Operator(busy)
    node_id = node_of(rig)
    operator.drain(node_id)
    not_cordoned = operator.uncordon(node_id)
    assert not_cordoned.result is Result.ALREADY
    assert f"it is draining: `nodemanager undrain {node_id}` undoes that" in not_cordoned.text
    assert operator.cordon(node_id).result is Result.DONE
    rig.turn(120)
    assert rig.reasons("node.keep", node=node_id)[-1] == "cordoned"
    drained = operator.drain(node_id)
    assert drained.result is Result.DONE
    # Whoever drains many nodes at once must learn that somebody wanted to keep this one.
    assert "it takes the place of a cordon by ann since" in drained.text
    assert drained.text.endswith(": a strange disk")
    rig.fleet.state = WorkerState.IDLE
    assert until(rig, "node.gone", within=300, node=node_id)["reason"] == "drained"


def test_a_node_that_is_gone_is_not_cordoned(busy: Rig) -> None:
    """A drain of it is done already, but no cordon can keep it."""
    rig, operator = busy, Operator(busy)
    node_id = node_of(rig)
    operator.kill(node_id)
    until(rig, "node.gone", within=300, node=node_id)
    assert operator.drain(node_id).result is Result.ALREADY
    refused = operator.cordon(node_id)
    assert (refused.result, refused.reason) == (Result.REFUSED, Reason.NODE_ABSENT)
    assert "gone already" in refused.text


@pytest.mark.parametrize("drained", [False, True], ids=["as-idle", "by-a-drain"])
def test_a_node_whose_destroy_is_sent_is_not_cordoned(make_rig: MakeRig, drained: bool) -> None:
    """It goes whatever an operator says now (O5)."""
    rig = make_rig(min_nodes=0, max_nodes=4)
    rig.fleet.state = WorkerState.BUSY if drained else WorkerState.IDLE
    machine, _ = rig.fleet.add_node(age=36000.0)
    node_id, operator = machine.node.id, Operator(rig)
    rig.cloud.destroy_takes = 300.0
    rig.start()
    if drained:
        assert operator.drain(node_id).result is Result.DONE
        rig.fleet.state = WorkerState.IDLE
    until(rig, "node.shutdown_started", within=600, node=node_id)
    rig.turn(10)
    said = operator.cordon(node_id)
    assert said.result is Result.REFUSED, said.text


def test_the_second_time_a_command_says_who_gave_it_since_when_and_why(busy: Rig) -> None:
    operator = Operator(busy)
    node_id = node_of(busy)
    operator.drain(node_id)
    again = operator.drain(node_id, "another reason")
    assert again.result is Result.ALREADY
    assert "draining already, by ann since 2023" in again.text
    assert again.text.endswith(": new image")
    first = operator.hold(node_of(busy, 1), "I am logged in")
    assert f"`nodemanager release {node_of(busy, 1)}` ends that" in first.text
    held = operator.hold(node_of(busy, 1))
    assert held.result is Result.ALREADY
    assert held.text.endswith(": I am logged in")
    assert operator.pause().result is Result.DONE
    assert operator.pause().text.endswith(": upgrade")
    assert operator.resume().result is Result.DONE
    assert operator.resume().result is Result.ALREADY
    assert operator.reset().result is Result.ALREADY
    assert operator.release(node_of(busy, 1)).result is Result.DONE
    assert operator.release(node_of(busy, 1)).result is Result.ALREADY
    kept = operator.drain(node_id)
    assert kept.result is Result.ALREADY


# Kill.


def test_a_killed_node_goes_at_once_busy_as_it_is_and_another_is_booted(busy: Rig) -> None:
    """O2: through the last look, the destroy and C20."""
    rig = busy
    node_id = node_of(rig)
    looks = rig.cloud.calls["pins"]
    said = Operator(rig).kill(node_id)
    assert said.result is Result.DONE
    gone = until(rig, "node.gone", within=120, node=node_id)
    assert gone["reason"] == "killed"
    assert rig.cloud.calls["pins"] == looks + 1
    until(rig, "record.cleaned", within=60, record=gone["record"], reason="after_shutdown")
    rig.turn(120)
    assert len(rig.nodes) == 2
    assert Operator(rig).kill(node_id).result is Result.ALREADY


def test_a_kill_of_what_is_untagged_is_refused_by_d11(make_rig: MakeRig) -> None:
    rig = make_rig(min_nodes=0)
    stranger = rig.cloud.add(tags=Tags())
    rig.start()
    rig.turn(60)
    said = Operator(rig).kill(stranger.id)
    assert (said.result, said.reason, said.rule) == (Result.REFUSED, "untagged", "D11")
    rig.turn(600)
    assert rig.cloud.calls["destroy"] == 0
    (told,) = rig.lines("operator.kill")
    assert (told["result"], told["reason"], told["rule"]) == ("refused", "untagged", "D11")
    assert told.get("level", "info") == "info", "no news to anybody but its author"
    restart(rig)
    rig.turn(600)
    assert rig.cloud.calls["destroy"] == 0


@pytest.mark.parametrize("first", ["kill", "drain"])
def test_a_held_node_is_neither_killed_nor_drained(busy: Rig, first: str) -> None:
    """C9."""
    operator = Operator(busy)
    node_id = node_of(busy)
    operator.hold(node_id)
    said = getattr(operator, first)(node_id)
    assert (said.result, said.rule) == (Result.REFUSED, "C9")
    operator.release(node_id)
    busy.turn(300)
    assert busy.lines("node.gone") == []


def test_a_kill_that_could_not_be_carried_out_yet_outlives_the_process(busy: Rig) -> None:
    rig = busy
    node_id = node_of(rig)
    rig.cloud.always("destroy", fail(CloudError("cut off")))
    Operator(rig).kill(node_id)
    restart(rig)
    rig.cloud.always("destroy", None)
    gone = until(rig, "node.gone", within=2000, node=node_id)
    assert gone["reason"] == "killed"
    restart(rig)
    rig.turn(60)
    assert Operator(rig).kill(node_id).result is Result.ALREADY


def test_a_kill_is_undone_until_its_destroy_was_sent(busy: Rig) -> None:
    rig, operator = busy, Operator(busy)
    early, late = node_of(rig, 0), node_of(rig, 1)
    run = Ordered(Command(Verb.RUN, "ann", "", early), print)
    rig.store.on("read", first(lambda: rig.system.daemon.tell(run)))
    operator.kill(early)
    rig.turn(300)
    assert rig.reasons("node.shutdown_skipped", node=early) == ["no_longer_wanted"]
    assert rig.lines("node.gone", node=early) == []

    rig.cloud.always("ask", fail(CloudError("slow")))
    rig.cloud.always("destroy", answer(lambda _: Outcome.ACCEPTED))
    operator.kill(late)
    said = operator.run(late)
    assert (said.result, said.reason) == (Result.REFUSED, "shutting_down")
    rig.cloud.always("ask", None)
    until(rig, "node.gone", within=600, node=late, reason="killed")


def test_a_dry_run_kills_and_cleans_nothing_and_says_so(make_rig: MakeRig) -> None:
    """S3."""
    rig = make_rig(min_nodes=0)
    ((node_id, record),) = pairs(rig, 1)
    rig.start(dry_run=True)
    rig.turn(60)
    operator = Operator(rig)
    assert operator.kill(node_id).rule == "S3"
    assert operator.clean(record.uuid).rule == "S3"
    assert rig.cloud.calls["destroy"] == 0


# Clean by hand.


def test_each_rule_that_keeps_a_record_is_named_in_its_turn_until_all_are_broken(
    leaking: Leaking,
) -> None:
    """O3: it pinged inside its window, and said that it was busy."""
    rig, record = leaking(node_stale_after="4h")
    rig.start()
    rig.turn(120)
    operator = Operator(rig)
    said = operator.clean(record.uuid)
    assert (said.result, said.reason, said.rule) == (Result.REFUSED, "within_window", "C3")
    assert said.measures["window_s"] == 4 * HOUR
    said = operator.clean(record.uuid, "C3")
    assert (said.result, said.reason, said.rule) == (Result.REFUSED, "busy", "C2")
    assert rig.store.calls["clean"] == 0
    assert operator.clean(record.uuid, "C3", "C2").result is Result.DONE
    assert rig.store.calls["clean"] == 1
    assert operator.clean(record.uuid, "C3", "C2").result is Result.ALREADY
    rig.turn(120)
    assert operator.clean(record.uuid).result is Result.ALREADY
    assert rig.store.calls["clean"] == 1


def test_a_clean_before_or_after_the_one_plan_of_once_is_refused_for_that(
    make_rig: MakeRig,
) -> None:
    rig = make_rig(min_nodes=0, backlog="clean")
    rig.cloud.destroy_takes = None
    rig.fleet.state = WorkerState.IDLE
    pairs(rig, 1)
    leaked = rig.store.add_leaked(7, quiet_for=HOUR)
    rig.start(once=True)
    rig.turn(35)
    operator = Operator(rig)
    assert rig.lines("node.shutdown_started") == []
    early = operator.clean(leaked.uuid, "C3", "C5")
    assert (early.result, early.reason, early.rule) == (Result.REFUSED, "one_plan", None)
    until(rig, "node.shutdown_started", within=600)
    rig.turn(60)
    late = operator.clean(leaked.uuid, "C3")
    assert (late.result, late.reason, late.rule) == (Result.REFUSED, "one_plan", None)
    assert rig.store.calls["clean"] == 0


def test_a_clean_that_the_cloud_delays_is_refused_as_throttled_d6(make_rig: MakeRig) -> None:
    rig = make_rig(min_nodes=0, backlog="clean")
    leaked = rig.store.add_leaked(7, quiet_for=HOUR)
    rig.start()
    rig.turn(120)
    rig.cloud.on("list_nodes", fail(Throttled("slow down", retry_after=300.0)))
    until(rig, "list.failed", within=60)
    said = Operator(rig).clean(leaked.uuid, "C3")
    assert (said.result, said.reason, said.rule) == (Result.REFUSED, Reason.THROTTLED, "D6")


def test_a_clean_on_whose_plan_the_journal_fails_is_refused_as_read_only(
    make_rig: MakeRig, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The disk is full from right after the snapshot that the plan was made from."""
    rig = make_rig(min_nodes=0, backlog="clean")
    leaked = rig.store.add_leaked(7, quiet_for=HOUR)
    rig.start()
    rig.turn(120)
    after_decision = Context.after_decision

    def fills(context: Context, made: Plan, made_at: float) -> None:
        after_decision(context, made, made_at)
        monkeypatch.setattr(JournalWriter, "problem", "the disk is full")

    monkeypatch.setattr(Context, "after_decision", fills)
    said = Operator(rig).clean(leaked.uuid, "C3")
    assert (said.result, said.reason) == (Result.REFUSED, Reason.READ_ONLY)
    assert "the disk is full" in said.text
    assert rig.store.calls["clean"] == 0


def test_a_forced_clean_is_written_down_with_rule_who_and_why(make_rig: MakeRig) -> None:
    rig = make_rig(min_nodes=0, backlog="clean")
    leaked = rig.store.add_leaked(7, quiet_for=HOUR)
    rig.start()
    rig.turn(120)
    operator = Operator(rig)
    assert operator.clean(leaked.uuid).rule == "C3"
    said = operator.clean("compute7", "C3")
    assert said.result is Result.DONE
    assert "slot 7 is free" in said.text
    assert rig.store.rows[leaked.uuid].slot_number is None
    (written,) = list(memory(rig).concluded(id=leaked.uuid))
    hand = written.intent.details["order"]["hand"]
    assert (hand["by"], hand["reason"], hand["forced"]) == ("ann", "it burned", ["C3"])
    told = rig.lines("operator.clean", result="done")
    assert [(line["by"], line["cause"], line["forced"]) for line in told] == [
        ("ann", "it burned", "C3")
    ]
    assert rig.lines("invariant.broken") == []
    assert rig.summary()["breaker"] == "closed"
    assert operator.clean("compute7").result is Result.ALREADY
    assert operator.clean(leaked.uuid, "C3").result is Result.ALREADY


@pytest.mark.parametrize(("by", "reason"), [("", "it burned"), ("ann", "")])
def test_a_forced_clean_without_who_or_why_is_refused_at_the_door(
    make_rig: MakeRig, by: str, reason: str
) -> None:
    """O3, N9: it was written, and then called a broken invariant."""
    rig = make_rig(min_nodes=0, backlog="clean")
    leaked = rig.store.add_leaked(7, quiet_for=HOUR)
    rig.start()
    rig.turn(120)
    said: list[Reply] = []
    rig.system.daemon.tell(
        Ordered(Command(Verb.CLEAN, by, reason, leaked.uuid, forced=("C3",)), said.append)
    )
    rig.flush()
    rig.turn(60)
    assert [one.result for one in said] == [Result.REFUSED]
    assert rig.store.rows[leaked.uuid].slot_number == 7


def test_a_forced_clean_of_a_node_that_the_cloud_has_is_left_undone(make_rig: MakeRig) -> None:
    """C11: no listing shows it, and the last look finds it."""
    rig = make_rig(min_nodes=0, backlog="clean")
    machine, record = rig.fleet.add_node(age=10 * HOUR)
    machine.listed = False
    rig.fleet.silent.add(machine.node.id)
    rig.start()
    rig.turn(400)
    said = Operator(rig).clean(record.uuid, "C2", "C3", "C5")
    assert said.result is Result.REFUSED
    assert said.reason in ("node_alive", "listing_short")
    assert rig.store.calls["clean"] == 0
    assert rig.store.rows[record.uuid].slot_number is not None


def test_a_rule_that_nobody_may_break_refuses_before_anything_is_judged(leaking: Leaking) -> None:
    rig, record = leaking()
    rig.start()
    said = Operator(rig).clean(record.uuid, "C3", "C11")
    assert (said.reason, said.rule) == ("never_forced", "O3")


def test_what_is_cleaned_by_hand_on_the_first_day_ends_no_backlog(make_rig: MakeRig) -> None:
    """S5: the first plan of its own that would free too many still frees none."""
    rig = make_rig(min_nodes=0, max_cleans_per_cycle=2)
    leaked = [rig.store.add_leaked(slot, quiet_for=3 * HOUR) for slot in range(1, 7)]
    rig.start()
    operator = Operator(rig)
    assert operator.clean(leaked[0].uuid).rule in ("C5", "C6")
    early = operator.clean(leaked[0].uuid, "C5")
    rig.turn(300)
    assert rig.lines("backlog.found")
    freed = {line["record"] for line in rig.lines("record.cleaned")}
    assert freed <= {leaked[0].uuid}
    assert early.result in (Result.DONE, Result.REFUSED)
    held = operator.clean(leaked[1].uuid)
    assert (held.reason, held.rule) == ("backlog_held", "S5")
    assert operator.clean(leaked[1].uuid, "S5").result is Result.DONE
    assert operator.clean(leaked[2].uuid).rule == "S5"


# Pause, resume.


def test_a_paused_pool_stands_still_over_restarts_until_it_is_resumed(make_rig: MakeRig) -> None:
    """O4."""
    rig = make_rig(min_nodes=2, backlog="clean")
    leaked = rig.store.add_leaked(9, quiet_for=3 * HOUR)
    rig.start()
    operator = Operator(rig)
    assert operator.pause().result is Result.DONE
    rig.forget_calls()
    rig.turn(300)
    assert rig.summary()["paused"] == "ann"
    assert rig.reasons("record.keep", record=leaked.uuid)[-1] == "paused"
    operator = restart(rig)
    rig.turn(600)
    assert rig.summary()["paused"] == "ann"
    assert operator.kill("i-none").result is Result.UNKNOWN
    assert operator.clean(leaked.uuid).rule == "O4"
    assert operator.clean(leaked.uuid, "C3").rule == "O4"
    assert rig.cloud.calls["create"] == rig.store.calls["claim"] == rig.store.calls["clean"] == 0
    assert rig.cloud.calls["list_nodes"] > 0
    assert operator.resume().result is Result.DONE
    until(rig, "record.cleaned", within=300, record=leaked.uuid)
    rig.turn(120)
    assert len(rig.nodes) == 2
    assert "paused" not in rig.summary()
    restart(rig)
    rig.turn(60)
    assert rig.summary().get("paused") is None


def test_a_parked_pool_empties_over_restarts_and_boots_again_once_it_is_unparked(
    busy: Rig,
) -> None:
    """O7."""
    rig = busy
    assert Operator(rig)._now(Verb.PARK).result is Result.DONE
    rig.turn(120)
    assert rig.summary()["parked"] == "ann"
    assert rig.reasons("node.keep", node=node_of(rig))[-1] == "parking"
    operator = restart(rig)
    rig.fleet.state = WorkerState.IDLE
    gone = until(rig, "node.gone", within=300)
    assert gone["reason"] == "parked"
    rig.turn(300)
    assert rig.nodes == []
    assert rig.lines("node.created") == []
    assert operator._now(Verb.PARK).result is Result.ALREADY
    assert operator._now(Verb.UNPARK).result is Result.DONE
    assert operator._now(Verb.UNPARK).result is Result.ALREADY
    rig.turn(120)
    assert len(rig.nodes) == 2
    assert "parked" not in rig.summary()


def test_an_undrained_node_of_a_parked_pool_is_said_to_go_all_the_same(busy: Rig) -> None:
    operator = Operator(busy)
    operator.drain(node_of(busy))
    operator._now(Verb.PARK)
    assert operator.run(node_of(busy)).text.endswith(
        "may take work again; but the pool is parked: `nodemanager unpark` ends that"
    )


def test_a_pause_calls_off_what_nobody_has_begun(make_rig: MakeRig) -> None:
    """More boots than workers wait in a queue; none of those left there is sent."""
    rig = make_rig(min_nodes=6, max_nodes=8)
    operator = Operator(rig)
    paused: list[Reply] = []

    def pause_now() -> None:
        rig.system.daemon.tell(Ordered(Command(Verb.PAUSE, "ann", "stop"), paused.append))

    rig.store.on("create", first(pause_now))
    rig.start()
    rig.turn(600)
    assert paused[0].result is Result.DONE
    assert len(rig.nodes) < 6
    operator.resume()
    rig.turn(300)
    assert len(rig.nodes) == 6


def test_a_slot_whose_node_went_just_before_a_pause_is_freed_once_it_is_over(busy: Rig) -> None:
    """C20 is tried again, as long as action_timeout."""
    rig, operator = busy, Operator(busy)
    node_id = node_of(rig)
    record = next(one for one in rig.records if one.instance_id == node_id)
    rig.cloud.always("find_by_record", fail(CloudError("slow")))
    operator.kill(node_id)
    until(rig, "node.gone", within=300, node=node_id)
    operator.pause()
    rig.cloud.always("find_by_record", None)
    rig.turn(300)
    assert rig.store.rows[record.uuid].slot_number is not None
    operator.resume()
    until(rig, "record.cleaned", within=600, record=record.uuid, reason="after_shutdown")


# Names, and what can't be written.


def test_a_command_on_an_unknown_id_names_the_nearest_known_one(busy: Rig) -> None:
    operator = Operator(busy)
    node_id = node_of(busy)
    for give in (operator.hold, operator.drain, operator.kill, operator.clean, operator.release):
        said = give(f"{node_id}x")
        assert (said.result, said.nearest) == (Result.UNKNOWN, node_id)
    assert busy.lines("operator.kill", result="unknown", reason="unknown_id")


def test_what_no_listing_shows_can_be_held_when_that_is_meant(busy: Rig) -> None:
    operator = Operator(busy)
    assert operator.hold("i-elsewhere").result is Result.UNKNOWN
    assert operator.hold("i-elsewhere", unlisted=True).result is Result.DONE
    assert operator.release("i-elsewhere").result is Result.DONE


def test_a_release_names_the_hold_on_a_record_that_was_deleted(busy: Rig) -> None:
    """C9: its node is kept for it as long as it stands, and that node's name leads to it."""
    rig, operator = busy, Operator(busy)
    node_id = node_of(rig)
    (record,) = (one for one in rig.store.rows.values() if one.instance_id == node_id)
    assert operator.hold(record.uuid).result is Result.DONE
    del rig.store.rows[record.uuid]
    rig.turn(120)
    assert "held" in rig.reasons("node.keep", node=node_id)
    said = operator.release(node_id)
    assert said.result is Result.ALREADY
    assert f"`nodemanager release {record.uuid}`" in said.text
    assert operator.release(record.uuid).result is Result.DONE


def test_before_the_first_listing_an_id_is_held_only_where_that_is_meant(make_rig: MakeRig) -> None:
    """L1: nobody knows yet who is unknown, nor whether it is an id or a hostname."""
    rig = make_rig(min_nodes=0)
    rig.cloud.always("list_nodes", fail(CloudError("down")))
    rig.start()
    operator = Operator(rig)
    assert operator.hold("i-1").reason == "no_listing"
    held = operator.hold("i-1", unlisted=True)
    assert held.result is Result.DONE
    assert "no listing shows" in held.text
    assert operator.kill("i-2").reason == "no_listing"
    assert operator.drain("i-2").rule == "L1"


@pytest.mark.parametrize("missing", ["cloud", "records"])
def test_before_the_first_listings_a_name_is_refused_and_after_them_it_is_meant(
    make_rig: MakeRig, missing: str
) -> None:
    """L1, C9: what is answered "done" is held, and what is not held is not answered so."""
    rig = make_rig(min_nodes=2, max_nodes=4, backlog="clean")
    rig.fleet.state = WorkerState.BUSY
    (node_id, record), (other, _) = pairs(rig)
    assert record.hostname is not None
    rig.cloud.always("list_nodes", fail(CloudError("down")) if missing == "cloud" else None)
    rig.store.always("list_records", fail(StoreError("down")) if missing == "records" else None)
    rig.start()
    rig.turn(60)
    operator = Operator(rig)
    orders = (operator.hold, operator.release, operator.drain, operator.run, operator.kill)
    for give in (*orders, operator.clean):
        said = give(record.hostname)
        assert (said.result, said.reason) == (Result.REFUSED, "no_listing"), give
        assert "try again" in said.text
    assert operator.drain(node_id).reason == "no_listing"
    assert operator.clean(record.uuid).reason == "no_listing"
    assert "gone" not in operator.run(node_id).text
    rig.cloud.always("list_nodes", None)
    rig.store.always("list_records", None)
    rig.turn(120)
    assert operator.hold(record.hostname).result is Result.DONE
    rig.turn(120)
    assert "held" in rig.reasons("node.keep", node=node_id)
    assert "held" not in rig.reasons("node.keep", node=other)


def test_a_hostname_is_its_records_although_that_very_text_is_on_hold(busy: Rig) -> None:
    """C9: a hold that somebody put on a hostname as if it were an id keeps nothing."""
    operator = Operator(busy)
    record = next(one for one in busy.store.rows.values() if one.hostname is not None)
    assert record.hostname is not None
    left = Marks(holds={record.hostname: Mark("bob", 1.0, "by an older version")})
    busy.journal.keep(MARKS, left)
    operator = restart(busy)
    busy.turn(120)
    said = operator.hold(record.hostname)
    assert (said.result, said.record) == (Result.DONE, record.uuid)
    assert operator.release(record.hostname).text.startswith(f"{record.hostname} is on hold no")
    assert operator.release(record.hostname).record == record.uuid


def test_an_order_that_can_not_be_written_down_is_not_given(busy: Rig) -> None:
    rig, operator = busy, Operator(busy)
    node_id = node_of(rig)
    memory(rig).fail("the disk is full")
    orders = operator.hold, operator.drain, operator.kill
    for said in (*(give(node_id) for give in orders), operator.pause()):
        assert said.result is Result.FAILED
        assert "the disk is full" in said.text
    assert rig.lines("operator.hold", result="failed") == rig.lines("operator.hold")
    memory(rig).heal()
    rig.fleet.state = WorkerState.IDLE
    rig.turn(600)
    assert rig.lines("node.gone") == []
    assert "paused" not in rig.summary()


def test_a_resume_that_can_not_be_written_down_leaves_the_pool_paused(busy: Rig) -> None:
    rig, operator = busy, Operator(busy)
    operator.pause()
    memory(rig).fail("the disk is full")
    assert operator.resume().result is Result.FAILED
    memory(rig).heal()
    rig.turn(60)
    assert rig.summary()["paused"] == "ann"
    operator = restart(rig)
    assert operator.pause().result is Result.ALREADY


def test_a_reset_that_can_not_be_written_down_leaves_the_breaker_open(collapsed: Rig) -> None:
    """Also once the journal takes writes again: the operator was told that it failed."""
    rig, operator = collapsed, Operator(collapsed)
    memory(rig).fail("the disk is full")
    said = operator.reset()
    assert (said.result, "the disk is full" in said.text) == (Result.FAILED, True)
    memory(rig).heal()
    rig.turn(60)
    assert (rig.lines("breaker.closed"), rig.summary()["breaker"]) == ([], "cloud_collapsed")
    operator = restart(rig)
    rig.turn(60)
    assert rig.summary()["breaker"] == "cloud_collapsed"
    assert operator.reset().result is Result.DONE
    assert rig.lines("operator.breaker_reset", by="ann")
    restart(rig)
    rig.turn(300)
    assert (rig.lines("breaker.opened"), rig.summary()["breaker"]) == ([], "closed")


# The journal.


def test_a_recorded_story_of_commands_replays_to_the_same_verdicts(
    make_rig: MakeRig, clock: TickingClock, cloud: FakeCloud, store: FakeStore, tmp_path: Any
) -> None:
    """Drains, kills, cleans by hand and the pause are in the recorded snapshots."""
    path = tmp_path / "journal.db"
    journal = SqliteJournal(path, pool="pool", clock=clock)
    rig = make_rig(cloud=cloud, store=store, journal=journal, min_nodes=2, max_nodes=6)
    rig.fleet.state = WorkerState.BUSY
    leaked = store.add_leaked(30, quiet_for=HOUR)
    made = pairs(rig, 4)
    rig.start()
    operator = Operator(rig)
    rig.turn(120)
    operator.hold(made[3][0], "mine")
    operator.drain(made[0][0])
    operator.kill(made[1][0])
    rig.turn(120)
    assert operator.clean(leaked.uuid, "C3").result is Result.DONE
    assert operator.kill(made[3][0]).result is Result.REFUSED
    operator.pause()
    rig.turn(90)
    operator.resume()
    rig.fleet.state = WorkerState.IDLE
    rig.turn(300)
    assert rig.lines("node.gone", reason="drained")
    rig.kill()
    journal.close()

    entries = list(read(path))
    steps = list(replayed(entries))
    assert len(steps) > 10
    assert all(step.is_same for step in steps)
    seen = [one.snapshot for one in entries if isinstance(one, Decided)]
    assert any(made[0][0] in one.drains for one in seen)
    assert any(made[1][0] in one.kills for one in seen)
    assert any(one.by_hand[leaked.uuid].forced == ("C3",) for one in seen if one.by_hand)
    assert any(one.pool_marks.get("pause") is not None for one in seen)
    assert "pause" not in seen[-1].pool_marks
    commands = [one for one in entries if isinstance(one, CommandGiven)]
    assert [(one.command, one.result) for one in commands] == [
        ("hold", "done"),
        ("drain", "done"),
        ("kill", "done"),
        ("clean", "done"),
        ("kill", "refused"),
        ("pause", "done"),
        ("resume", "done"),
    ]
    assert commands[4].rule == "C9"
    assert commands[3].forced == ("C3",)


# The same name again.


def drained_and_replaced(rig: Rig) -> tuple[str, str]:
    """The node that was compute1, drained by that name, and the one that is it now."""
    old = next(one for one in rig.records if one.hostname == "compute1")
    assert Operator(rig).drain("compute1").result is Result.DONE
    rig.fleet.state = WorkerState.IDLE
    until(rig, "record.cleaned", within=600, record=old.uuid)
    rig.turn_until("node.paired", within=900, host="compute1")
    new = next(one for one in rig.records if one.hostname == "compute1")
    assert old.instance_id is not None
    assert new.instance_id not in (None, old.instance_id)
    return old.instance_id, str(new.instance_id)


@pytest.mark.parametrize("again", [False, True], ids=["same-run", "after-kill-9"])
def test_a_name_said_again_means_the_node_that_was_sent_away_and_not_its_successor(
    make_rig: MakeRig, clock: TickingClock, cloud: FakeCloud, tmp_path: Path, again: bool
) -> None:
    """O3: `drain compute1` twice drained the replacement."""
    store = FakeStore(clock, slots=(1, 2))
    journal = SqliteJournal(tmp_path / "journal.db", pool="pool", clock=store.clock)
    rig = make_rig(cloud=cloud, store=store, journal=journal, min_nodes=2, backlog="clean")
    pairs(rig)
    rig.start()
    rig.turn(120)
    old, new = drained_and_replaced(rig)
    operator = restart(rig) if again else Operator(rig)
    rig.turn(60)
    for said in (operator.drain("compute1"), operator.kill("compute1")):
        assert (said.result, said.node) == (Result.ALREADY, old)
        assert new in said.text
    undone = operator.run("compute1")
    assert (undone.result, undone.node) == (Result.REFUSED, old)
    assert "too late" in undone.text
    rig.turn(300)
    assert new in {node.id for node in rig.nodes}
    by_id = operator.drain(new)
    assert by_id.result is Result.DONE
    assert f"`nodemanager undrain {new}`" in by_id.text
    journal.close()


def test_the_name_is_its_new_bearers_again_after_an_hour(
    make_rig: MakeRig, clock: TickingClock, cloud: FakeCloud
) -> None:
    store = FakeStore(clock, slots=(1, 2))
    rig = make_rig(cloud=cloud, store=store, min_nodes=2, backlog="clean")
    pairs(rig)
    rig.start()
    rig.turn(120)
    _, new = drained_and_replaced(rig)
    rig.turn(commands.SENT_AWAY_S)
    said = Operator(rig).drain("compute1")
    assert (said.result, said.node) == (Result.DONE, new)


@pytest.mark.parametrize("verb", ["drain", "kill", "run"])
@pytest.mark.parametrize("lives", [True, False], ids=["it-lives", "it-vanished"])
def test_no_command_calls_a_node_gone_that_just_no_listing_shows(
    busy: Rig, lives: bool, verb: str
) -> None:
    """The listing may be short: we did not destroy the node, and its record is not freed."""
    node_id, operator = node_of(busy), Operator(busy)
    machine = busy.cloud.machines[node_id]
    if lives:
        machine.listed = False
    else:
        busy.cloud.vanish(node_id)
    busy.turn(30)
    said = getattr(operator, verb)(node_id)
    assert (said.result, said.reason) == (Result.REFUSED, "node_absent")
    assert "not listed" in said.text
    assert "it is gone" not in said.text
    machine.listed = True
    busy.turn(300)
    assert [node_id in {node.id for node in busy.nodes}, *busy.lines("node.gone")] == [lives]


@pytest.mark.parametrize("again", [False, True], ids=["same-run", "after-kill-9"])
def test_a_node_that_we_destroyed_is_gone_although_its_record_was_not_freed(
    busy: Rig, again: bool
) -> None:
    """The journal says so, long after listings lack it."""
    node_id, operator = node_of(busy), Operator(busy)
    busy.store.always("clean", fail(StoreError("down")))
    operator.kill(node_id)
    until(busy, "node.gone", within=600, node=node_id)
    busy.cloud.vanish(node_id)
    if again:
        operator = restart(busy)
    busy.turn(600)
    assert any(one.instance_id == node_id for one in busy.records)
    for said in (operator.drain(node_id), operator.kill(node_id)):
        assert (said.result, said.node) == (Result.ALREADY, node_id)
        assert "gone already" in said.text
    undrained = operator.run(node_id)
    assert (undrained.result, undrained.reason) == (Result.REFUSED, "node_absent")
    assert "too late" in undrained.text


# What the journal tells of it.


def test_the_boot_on_a_used_record_is_told_of_the_host_that_the_new_node_has(
    make_rig: MakeRig, store: FakeStore, cloud: FakeCloud, tmp_path: Path
) -> None:
    """O2: `log compute1` told of the boot of compute2, on the record that had been compute1's."""
    journal = SqliteJournal(tmp_path / "journal.db", pool="pool", clock=store.clock)
    rig = make_rig(cloud=cloud, store=store, journal=journal, min_nodes=0, backlog="clean")
    ((old, record),) = pairs(rig, 1)
    rig.start()
    rig.turn(120)
    assert Operator(rig).drain("compute1").result is Result.DONE
    rig.fleet.state = WorkerState.IDLE
    until(rig, "record.cleaned", within=600, record=record.uuid)
    rig.store.add(slot_number=1, hostname="compute1", pool="others")
    rig.turn(120)
    rig.apply(dataclasses.replace(rig.system.settings, min_nodes=1))
    created = until(rig, "node.created", within=600, record=record.uuid)
    rig.turn(300)
    new = str(created["node"])
    assert created["host"] == "compute2"
    told = {host: list(Story(journal.path, id=host).news()) for host in ("compute1", "compute2")}
    of_slot, everything = list(Story(journal.path, id="2").news()), list(Story(journal.path).news())
    journal.close()
    of_host: dict[str, set[str | None]] = {"compute1": set(), "compute2": set()}
    events: dict[str, list[str]] = {"compute1": [], "compute2": []}
    for host in of_host:
        mine = told[host]
        of_host[host] = {one.node for one in mine} - {None}
        events[host] = [one.event for one in mine]
        assert {one.host for one in mine} <= {host, None}
    assert of_host == {"compute1": {old}, "compute2": {new}}
    assert {"operator.drain", "node.gone", "record.cleaned"} <= {*events["compute1"]}
    assert {"node.setup_started", "node.created", "node.paired"} <= {*events["compute2"]}
    assert "node.setup_started" not in events["compute1"]
    assert "node.gone" not in events["compute2"]
    assert {one.slot for one in of_slot} <= {2, None}
    unlisted = [one for one in everything if one.event is Event.NODE_UNLISTED and one.node == old]
    assert all(one.host in ("compute1", None) for one in unlisted)
