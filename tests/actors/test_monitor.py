"""Every clean is proven from the journal once it is done, and stays free (SAFETY.md C0-C12, U8)."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from nodemanager.actors.messages import ApplySettings, Beat, Ordered
from nodemanager.core.model.world import Guarantee, Record, WorkerState
from nodemanager.core.operate.replies import Command
from nodemanager.core.operate.verbs import Verb
from nodemanager.journal.api import Intent, IntentKind
from nodemanager.journal.sqlite import SqliteJournal
from tests.actors.conftest import Leaking, MakeRig
from tests.actors.rig import Rig
from tests.cases import cases
from tests.fakes import FakeCloud, FakeStore, TickingClock, first
from tests.fakes.journal import MemoryJournal

pytestmark = pytest.mark.slow

HOUR = 3600.0


class Forged(MemoryJournal):
    """Tells of each clean what `forge` makes of it."""

    def forge(self, intent: Intent) -> Intent | None:
        return intent

    def newest(self, key: str) -> Intent | None:
        intent = super().newest(key)
        return None if intent is None else self.forge(intent)


def forged(leaking: Leaking, clock: TickingClock, forge: Any) -> tuple[Rig, Record]:
    journal = Forged(clock)
    journal.forge = forge  # type: ignore[method-assign]
    cloud = FakeCloud(clock)
    rig, record = leaking(journal=journal, cloud=cloud, store=FakeStore(clock))
    rig.may_violate = True
    return rig, record


def in_look(intent: Intent, **changes: Any) -> Intent:
    look: Mapping[str, Any] = {**intent.details["look"], **changes}
    return replace(intent, details={**intent.details, "look": look})


@pytest.mark.parametrize("guarantee", list(Guarantee))
@pytest.mark.parametrize("durable", [False, True])
def test_a_clean_has_its_proof_in_the_journal_and_nothing_is_told(
    make_rig: MakeRig, clock: TickingClock, tmp_path: Path, guarantee: Guarantee, durable: bool
) -> None:
    journal: Any = MemoryJournal(clock)
    if durable:
        journal = SqliteJournal(tmp_path / "journal.sqlite", pool="test", clock=clock)
    cloud, store = FakeCloud(clock), FakeStore(clock, guarantee=guarantee)
    rig = make_rig(cloud=cloud, store=store, journal=journal, backlog="clean")
    _, record = rig.fleet.add_node(age=10 * HOUR, pinged_ago=3 * HOUR)
    assert record.instance_id is not None
    cloud.vanish(record.instance_id)
    rig.start()
    rig.turn_until("record.cleaned", within=600, record=record.uuid)
    entry = journal.newest(f"clean:{record.uuid}")
    assert entry is not None
    assert entry.kind is IntentKind.CLEAN
    assert {"order", "look"} <= entry.details.keys()
    assert not rig.lines("invariant.broken")
    assert not rig.lines("breaker.opened")
    journal.close()


def test_evidence_against_a_clean_is_told_and_opens_the_breaker_until_a_reset(
    leaking: Leaking, clock: TickingClock
) -> None:
    rig, record = forged(leaking, clock, lambda one: in_look(one, lease=False))
    rig.start()
    told = rig.turn_until("invariant.broken", within=600)
    assert (told["rule"], told["record"], told["level"]) == ("C10", record.uuid, "error")
    (opened,) = rig.lines("breaker.opened")
    assert (opened["cause"], opened["count"]) == ("invariant", 1)
    assert "breaker reset" in opened["clear"]

    other = rig.fleet.add_node(age=10 * HOUR, pinged_ago=3 * HOUR)[1]
    assert other.instance_id is not None
    rig.cloud.vanish(other.instance_id)
    rig.turn(600)
    assert rig.store.rows[other.uuid].holds_anything
    assert len(rig.lines("invariant.broken")) == 1

    rig.kill()
    rig.start()
    rig.turn(600)
    assert rig.store.rows[other.uuid].holds_anything, "the breaker outlives the process"

    rig.journal.forge = lambda one: one  # type: ignore[attr-defined]
    rig.system.daemon.tell(Ordered(Command(Verb.BREAKER_RESET, "ann"), lambda problem: None))
    rig.turn_until("record.cleaned", within=600, record=other.uuid)
    assert not rig.lines("invariant.broken", record=other.uuid)


@cases(
    "forge",
    {
        "no-entry": lambda one: None,
        "no-pre-image": lambda one: replace(one, pre_image=None),
        "no-last-look": lambda one: replace(one, details={"order": one.details["order"]}),
        "unreadable": lambda one: replace(one, details={"look": "?", "order": 7}),
    },
)
def test_a_journal_that_can_not_prove_a_clean_is_a_violation(
    leaking: Leaking, clock: TickingClock, forge: Any
) -> None:
    rig, record = forged(leaking, clock, forge)
    rig.start()
    told = rig.turn_until("invariant.broken", within=600)
    assert (told["rule"], told["record"]) == ("proof", record.uuid)
    assert rig.lines("breaker.opened", cause="invariant")


def test_what_is_freed_after_a_shutdown_has_a_destroy_of_ours_c20(
    make_rig: MakeRig, clock: TickingClock
) -> None:
    journal = Forged(clock)
    journal.forge = lambda one: None if one.kind is IntentKind.DESTROY else one  # type: ignore[method-assign]
    rig = make_rig(journal=journal, cloud=FakeCloud(clock), min_nodes=0)
    rig.may_violate = True
    rig.fleet.state = WorkerState.IDLE
    machine, record = rig.fleet.add_node(age=10 * HOUR)
    rig.start()
    told = rig.turn_until("invariant.broken", within=600)
    assert (told["rule"], told["record"], told["node"]) == ("C20", record.uuid, machine.node.id)


def test_a_proof_that_can_not_be_read_now_is_read_once_that_is_possible(
    leaking: Leaking, clock: TickingClock
) -> None:
    rig, record = forged(leaking, clock, lambda one: in_look(one, lease=False))
    assert isinstance(rig.journal, Forged)
    journal = rig.journal
    journal.fault = lambda call: "locked" if call == "newest" else None
    rig.start()
    rig.turn_until("record.cleaned", within=600)
    assert not rig.lines("invariant.broken")
    rig.turn(120)
    journal.heal()
    told = rig.turn_until("invariant.broken", within=120)
    assert (told["rule"], told["record"]) == ("C10", record.uuid)
    value = rig.metrics.registry.get_sample_value("nodemanager_violations_total", {"rule": "C10"})
    assert value == len(rig.lines("invariant.broken", rule="C10"))


def test_a_freed_life_that_is_back_on_its_record_is_told_once(
    leaking: Leaking, clock: TickingClock
) -> None:
    """Nobody asked for that: no restore of ours, and no new claim (A5)."""
    rig, record = leaking()
    rig.start()
    rig.turn_until("record.cleaned", within=600)
    rig.turn(300)
    assert not rig.lines("invariant.broken")
    rig.store.write(record.uuid, claim=record.claim, slot_number=record.slot_number)
    told = rig.turn_until("invariant.broken", within=300)
    assert (told["rule"], told["record"]) == ("U8", record.uuid)
    assert told["incarnation"] == record.incarnation
    assert rig.lines("breaker.opened", cause="invariant")
    rig.turn(600)
    assert len(rig.lines("invariant.broken")) == 1


@cases("changed", {"absent_listings": {"absent_listings": 4}, "settle": {"settle": 600.0}})
def test_a_reload_amid_a_clean_breaks_no_rule_s6(leaking: Leaking, changed: dict[str, Any]) -> None:
    """What is in flight is held against the settings that it was decided under."""
    rig, record = leaking()
    rig.may_violate = True

    def reload() -> None:
        rig.system.daemon.tell(ApplySettings(replace(rig.system.settings, **changed)))
        rig.system.daemon.ask(Beat(lambda: None), timeout=30.0)

    rig.cloud.on("find_by_record", first(reload))
    rig.start()
    rig.turn(300)
    assert rig.lines("record.cleaned", record=record.uuid)
    assert rig.violations() == []


def test_what_confirms_a_clean_is_what_proves_it_l4(
    leaking: Leaking, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One decision, one snapshot; here the lease is lost between two of them."""
    looked, asked = threading.Event(), []

    def lease(_: Rig) -> bool:
        if looked.is_set():
            asked.append(len(asked))
        return len(asked) != 2

    rig, record = leaking()
    rig.may_violate = True
    monkeypatch.setattr(Rig, "lease", property(lease), raising=False)
    rig.cloud.on("find_by_record", first(looked.set))
    rig.start()
    rig.turn(120)
    assert rig.lines("record.cleaned", record=record.uuid)
    assert rig.violations() == []
