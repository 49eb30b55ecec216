"""An operator's backlog plan, applied by the whole team of actors on fakes (S5)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from nodemanager.core.model.reasons import Reason
from nodemanager.core.model.world import Guarantee
from nodemanager.core.operate.backlog import (
    ApplyBacklog,
    BacklogView,
    Item,
    ItemAction,
    ItemState,
    Order,
    ShowBacklog,
    Statuses,
    StopBacklog,
    proposal,
)
from nodemanager.journal.reading import read
from nodemanager.journal.replay import replayed
from nodemanager.journal.sqlite import SqliteJournal
from tests.actors.rig import Rig, memory
from tests.cases import cases
from tests.fakes import FakeCloud, FakeStore, TickingClock
from tests.fakes.journal import MemoryJournal

pytestmark = pytest.mark.slow

DAY_S = 86_400.0


def asked(rig: Rig, message: Callable[[Callable[[Any], None]], Any]) -> Any:
    answers: list[Any] = []
    rig.system.daemon.tell(message(answers.append))
    rig.flush()
    return answers[0]


def shown(rig: Rig) -> BacklogView:
    found: BacklogView = asked(rig, ShowBacklog)
    return found


def order(rig: Rig, *, by: str = "eve") -> Order:
    """All that the plan proposes."""
    found = shown(rig)
    assert found.seen is not None
    items = tuple(one.item for one in proposal(found.seen).candidates if one.chosen)
    return Order(by, "pool", found.store or "", found.account or "", items)


def apply(rig: Rig, wanted: Order) -> Statuses | str:
    found: Statuses | str = asked(rig, lambda answered: ApplyBacklog(wanted, answered))
    return found


def marked(rig: Rig) -> int:
    return len(shown(rig).marks)


def cleaned(rig: Rig) -> set[str]:
    return {str(line["record"]) for line in rig.lines("record.cleaned")}


def skipped(rig: Rig) -> dict[str, str]:
    """Why each item was left alone, by its id."""
    lines = rig.lines("backlog.skipped")
    return {str(line.get("record", line.get("node"))): str(line["reason"]) for line in lines}


def finish(rig: Rig) -> None:
    if marked(rig):
        rig.turn_until("backlog.done", within=600)


@pytest.fixture
def leaked(make_rig: Any) -> Rig:
    return leaking(make_rig)


def leaking(make_rig: Any, **options: object) -> Rig:
    """A first start over 30 records that were leaked over the years, held back by now."""
    clock = TickingClock()
    store = FakeStore(clock)
    for slot in range(1, 31):
        store.add_leaked(slot, quiet_for=slot * 30 * DAY_S)
    rig: Rig = make_rig(cloud=FakeCloud(clock), store=store, **options).start()
    rig.turn_until("backlog.found", within=300)
    rig.turn(60)
    return rig


def test_the_plan_proposes_all_that_is_held_back_with_its_evidence_s5(leaked: Rig) -> None:
    found = shown(leaked)
    assert found.seen is not None
    made = proposal(found.seen).candidates
    assert len(made) == 30
    assert all(one.chosen for one in made)
    first = made[0]
    assert (first.slot, first.host, first.node) == (30, "compute30", "i-gone-30")
    assert first.status.measures["cause"] == Reason.STALE_SLOT
    assert first.status.measures["idle_s"] > 7200
    assert first.item.version == leaked.store.rows[first.item.id].version
    assert leaked.store.calls["clean"] == 0


def test_what_is_applied_is_freed_and_nothing_else_s5(leaked: Rig) -> None:
    whole = order(leaked)
    chosen = replace(whole, items=whole.items[:12])
    found = apply(leaked, chosen)
    assert not isinstance(found, str)
    assert {one.state for _, one in found} == {ItemState.HELD}

    finish(leaked)

    assert cleaned(leaked) == {item.id for item in chosen.items}
    assert skipped(leaked) == {}
    assert len(leaked.store.used_slots()) == 18
    assert len(leaked.lines("backlog.done")) == 1
    (told,) = leaked.lines("operator.backlog")
    assert (told["by"], told["action"], told["count"]) == ("eve", "apply", 12)
    leaked.turn(600)
    assert len(leaked.store.used_slots()) == 18


def test_a_record_that_changed_since_the_plan_is_left_alone_with_the_reason_s5(
    leaked: Rig,
) -> None:
    wanted = order(leaked)
    touched, gone = wanted.items[3].id, wanted.items[4].id
    leaked.store.write(touched, properties={"note": "mine"})
    del leaked.store.rows[gone]
    leaked.turn(35)

    apply(leaked, wanted)
    leaked.turn_until("backlog.done", within=600)

    assert skipped(leaked) == {touched: "changed_since_plan", gone: "record_gone"}
    assert leaked.store.rows[touched].slot_number is not None
    assert len(cleaned(leaked)) == 28


def test_a_change_between_plan_and_last_look_is_seen_there_c11(leaked: Rig) -> None:
    wanted = order(leaked)
    other = wanted.items[0]
    original = leaked.store.read

    def written_meanwhile(uuid: str) -> Any:
        if uuid == other.id:
            leaked.store.write(uuid, properties={"note": "mine"})
        return original(uuid)

    leaked.store.read = written_meanwhile  # type: ignore[method-assign]  # somebody else writes
    apply(leaked, replace(wanted, items=(other,)))
    finish(leaked)

    assert list(skipped(leaked)) == [other.id]
    assert leaked.store.rows[other.id].slot_number is not None


def test_a_node_that_is_there_after_all_keeps_its_record_and_is_not_tried_again_c11(
    make_rig: Any,
) -> None:
    clock = TickingClock()
    store, cloud = FakeStore(clock), FakeCloud(clock)
    node = cloud.add(age=30 * DAY_S)
    # No listing shows it, the question by id does.
    cloud.machines[node.id].listed = False
    kept = store.add_leaked(30, quiet_for=20 * DAY_S, instance_id=node.id)
    for slot in range(1, 30):
        store.add_leaked(slot, quiet_for=slot * DAY_S)
    rig: Rig = make_rig(cloud=cloud, store=store).start()
    rig.turn_until("backlog.found", within=300)

    apply(rig, order(rig))
    finish(rig)

    assert store.used_slots() == [30]
    assert skipped(rig) == {kept.uuid: "node_alive"}
    rig.turn(600)
    assert rig.reasons("record.clean_skipped") == ["node_alive"]
    # It is known from then on that the cloud has its node, without tags of ours (D13).
    assert rig.reasons("record.keep", record=kept.uuid)[-1] == "untagged"


def test_no_more_are_freed_from_one_poll_to_the_next_than_the_cap_says_s5_c10(
    make_rig: Any,
) -> None:
    rig = leaking(make_rig, max_cleans_per_cycle=5)
    apply(rig, order(rig))
    for polls in range(1, 5):
        assert len(rig.lines("record.cleaned")) <= 5 * polls
        rig.turn(30)
    assert len(rig.lines("record.cleaned")) >= 10


def test_a_thousand_let_go_by_an_operator_are_no_wave_that_opens_the_breaker_b1(
    make_rig: Any,
) -> None:
    clock = TickingClock()
    store = FakeStore(clock, slots=range(1, 401))
    for slot in range(1, 301):
        store.add_leaked(slot, quiet_for=slot * DAY_S)
    rig: Rig = make_rig(cloud=FakeCloud(clock), store=store, max_cleans_per_cycle=200).start()
    rig.turn_until("backlog.found", within=300)
    apply(rig, order(rig))
    rig.turn_until("backlog.done", within=900)
    assert not rig.lines("breaker.opened")
    assert len(store.used_slots()) == 0


def test_while_the_lease_is_lost_nothing_is_let_go_and_then_it_goes_on_c10(make_rig: Any) -> None:
    leaked = leaking(make_rig, max_cleans_per_cycle=3)
    wanted = order(leaked)
    apply(leaked, replace(wanted, items=wanted.items[:20]))
    leaked.turn(10)
    leaked.lease = False
    leaked.turn(35)
    before = len(leaked.lines("record.cleaned"))
    leaked.turn(300)
    assert len(leaked.lines("record.cleaned")) == before < 20
    assert marked(leaked) >= 20 - before
    leaked.lease = True
    leaked.turn_until("backlog.done", within=300)
    assert len(cleaned(leaked)) == 20


def test_the_same_plan_again_says_what_is_done_and_does_nothing_s5(leaked: Rig) -> None:
    wanted = order(leaked)
    apply(leaked, wanted)
    assert not isinstance(apply(leaked, wanted), str)
    leaked.turn_until("backlog.done", within=600)
    leaked.turn(40)
    leaked.forget_calls()

    again = apply(leaked, wanted)

    assert not isinstance(again, str)
    assert [one.state for _, one in again] == [ItemState.DONE] * 30
    assert marked(leaked) == 0
    leaked.turn(120)
    assert leaked.store.calls["clean"] == 0


def test_another_plan_is_added_and_what_is_stopped_is_held_back_again(make_rig: Any) -> None:
    leaked = leaking(make_rig, max_cleans_per_cycle=1)
    wanted = order(leaked)
    apply(leaked, replace(wanted, items=wanted.items[:10]))
    apply(leaked, replace(wanted, items=wanted.items[5:15]))
    assert 13 <= marked(leaked) <= 15

    ended = asked(leaked, lambda answered: StopBacklog("eve", answered))

    assert ended >= 13
    assert marked(leaked) == 0
    before = len(leaked.lines("record.cleaned"))
    leaked.turn(300)
    assert len(leaked.lines("record.cleaned")) <= before + 1
    assert asked(leaked, lambda answered: StopBacklog("eve", answered)) == 0
    assert not isinstance(apply(leaked, replace(wanted, items=wanted.items[5:15])), str)


@cases(
    ("changes", "said"),
    {
        "pool": ({"pool": "other"}, "pool other"),
        "store": ({"store": "another"}, "store another"),
        "account": ({"account": "another"}, "another"),
    },
)
def test_a_plan_of_another_pool_store_or_account_is_refused_l5(
    leaked: Rig, changes: dict[str, str], said: str
) -> None:
    refused = apply(leaked, replace(order(leaked), **changes))
    assert isinstance(refused, str)
    assert said in refused
    leaked.turn(120)
    assert not leaked.lines("record.cleaned")


def test_a_dry_run_shows_the_plan_and_refuses_to_apply_it_s3(make_rig: Any) -> None:
    clock = TickingClock()
    store = FakeStore(clock)
    for slot in range(1, 31):
        store.add_leaked(slot, quiet_for=slot * DAY_S)
    rig: Rig = make_rig(cloud=FakeCloud(clock), store=store).start(dry_run=True)
    rig.turn_until("backlog.found", within=300)
    wanted = order(rig)
    assert len(wanted.items) == 30
    refused = apply(rig, wanted)
    assert isinstance(refused, str)
    assert "--dry-run" in refused
    rig.turn(120)
    assert store.calls["clean"] == 0


def test_a_record_with_nothing_to_ask_by_is_shown_left_out_and_never_freed_c11(
    make_rig: Any,
) -> None:
    clock = TickingClock()
    store = FakeStore(clock)
    bare = store.add_leaked(1, quiet_for=DAY_S, instance_id=None)
    for slot in range(2, 31):
        store.add_leaked(slot, quiet_for=slot * DAY_S)
    rig: Rig = make_rig(cloud=FakeCloud(clock), store=store).start()
    rig.turn_until("backlog.found", within=300)
    found = shown(rig)
    assert found.seen is not None
    (left_out,) = [one for one in proposal(found.seen).candidates if not one.chosen]
    assert (left_out.item.id, left_out.status.reason) == (bare.uuid, Reason.UNVERIFIABLE)

    wanted = order(rig)
    apply(rig, replace(wanted, items=(left_out.item,)))

    assert list(skipped(rig)) == [bare.uuid]
    rig.turn(300)
    assert store.rows[bare.uuid].slot_number == 1


def test_a_kill_in_between_is_gone_on_from_where_it_was_r2(make_rig: Any) -> None:
    clock = TickingClock()
    store = FakeStore(clock)
    for slot in range(1, 31):
        store.add_leaked(slot, quiet_for=slot * DAY_S)
    journal = MemoryJournal(clock)
    options = {"store": store, "journal": journal, "max_cleans_per_cycle": 3}
    rig: Rig = make_rig(cloud=FakeCloud(clock), **options).start()
    rig.turn_until("backlog.found", within=300)
    rig.turn(60)
    wanted = order(rig)
    chosen = replace(wanted, items=wanted.items[:20])
    apply(rig, chosen)
    rig.turn(60)
    assert 0 < len(rig.lines("record.cleaned")) < 20

    rig.kill()
    rig.start()

    assert rig.lines("operator.backlog", action="continued")
    rig.turn_until("backlog.done", within=1200)
    assert len(cleaned(rig)) == 20
    assert len(store.used_slots()) == 10
    held = {item.id for item in wanted.items[20:]}
    assert {row.uuid for row in rig.records if row.holds_slot} == held


def test_what_was_let_go_replays_to_the_same_verdicts(make_rig: Any, tmp_path: Path) -> None:
    clock = TickingClock()
    store = FakeStore(clock)
    for slot in range(1, 31):
        store.add_leaked(slot, quiet_for=slot * DAY_S)
    journal = SqliteJournal(tmp_path / "journal.db", pool="pool", clock=clock)
    rig: Rig = make_rig(cloud=FakeCloud(clock), store=store, journal=journal).start()
    rig.turn_until("backlog.found", within=300)
    apply(rig, order(rig))
    rig.turn_until("backlog.done", within=600)
    steps = list(replayed(read(journal.path)))
    assert len(steps) > 5
    assert all(step.is_same for step in steps)
    assert any(step.snapshot.let_go for step in steps)


def test_an_unwritable_journal_refuses_a_plan_and_it_does_not_begin_later(leaked: Rig) -> None:
    wanted = order(leaked)
    memory(leaked).fail()
    refused = apply(leaked, wanted)
    assert isinstance(refused, str)
    memory(leaked).heal()
    leaked.turn(300)
    assert not leaked.lines("record.cleaned")


def test_an_item_at_a_version_that_never_was_is_left_alone_s5(leaked: Rig) -> None:
    wanted = order(leaked)
    item = Item(ItemAction.CLEAN, wanted.items[0].id, "v-of-somebody-else")
    apply(leaked, replace(wanted, items=(item,)))
    assert skipped(leaked) == {item.id: "changed_since_plan"}
    assert marked(leaked) == 0


def test_the_marks_are_written_down_once_and_not_for_each_outcome(leaked: Rig) -> None:
    wanted = order(leaked)
    calls: list[str] = []
    memory(leaked).fault = lambda call: calls.append(call)
    apply(leaked, wanted)
    finish(leaked)
    assert len(cleaned(leaked)) == 30
    # Begun, ended.
    assert calls.count("keep backlog_marks") == 2


def test_behind_a_fence_an_item_is_not_taken_for_changed_c12(make_rig: Any) -> None:
    clock = TickingClock()
    store = FakeStore(clock, guarantee=Guarantee.FENCED)
    for slot in range(1, 31):
        store.add_leaked(slot, quiet_for=slot * DAY_S)
    store.settle_wait = 70.0
    rig: Rig = make_rig(cloud=FakeCloud(clock), store=store).start()
    rig.turn_until("backlog.found", within=300)
    apply(rig, order(rig))
    rig.turn_until("backlog.done", within=900)
    assert len(cleaned(rig)) == 30
    assert not skipped(rig)
    assert store.used_slots() == []
