"""Surplus records are deleted by the whole team of actors on fakes (C8-C12)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from nodemanager.core.model.world import Guarantee, LatePing, Tags
from nodemanager.journal.api import IntentKind
from nodemanager.journal.reading import read
from nodemanager.journal.replay import replayed
from nodemanager.journal.sqlite import SqliteJournal
from tests.actors.rig import Rig
from tests.cases import cases
from tests.fakes import FakeCloud, FakeStore, TickingClock
from tests.fakes.journal import MemoryJournal

pytestmark = pytest.mark.slow

DAY_S = 86_400.0


def stocked(count: int, guarantee: Guarantee = Guarantee.CAS) -> tuple[FakeCloud, FakeStore]:
    """A store with that many records that have been clean for a month."""
    clock = TickingClock()
    store = FakeStore(clock, guarantee=guarantee)
    for _ in range(count):
        store.add_cleaned(quiet_for=30 * DAY_S)
    return FakeCloud(clock), store


def start(make_rig: Any, count: int = 12, **options: Any) -> Rig:
    cloud, store = stocked(count)
    rig: Rig = make_rig(
        **{"cloud": cloud, "store": store, "max_nodes": 8, "prune_after": "7d", **options}
    )
    return rig.start()


def comes(rig: Rig, event: str) -> dict[str, Any]:
    """The first line of that event, which the first polls may have led to already."""
    return (rig.lines(event) or [None])[0] or rig.turn_until(event, within=120)


def test_records_beyond_max_nodes_are_deleted_and_the_log_and_journal_say_so(
    make_rig: Any,
) -> None:
    rig = start(make_rig)
    rig.turn(300)
    assert len(rig.records) == 8
    orders = rig.lines("record.prune")
    assert len(orders) == len(rig.lines("record.pruned")) == 4
    line = orders[0]
    assert (line["reason"], line["count"], line["limit"]) == ("surplus", 12, 8)
    assert line["idle_s"] > line["window_s"] == 7 * DAY_S
    (ended,) = rig.journal.concluded(id=line["record"])
    assert (ended.intent.kind, ended.outcome) == (IntentKind.PRUNE, "pruned")
    (image,) = rig.journal.pre_images(record=line["record"])
    assert image.outcome == "pruned"
    assert not rig.journal.open_intents()


def test_nothing_is_deleted_by_default_nor_in_a_dry_run_s3(make_rig: Any) -> None:
    rig = start(make_rig, prune_after="off")
    rig.turn(300)
    assert len(rig.records) == 12
    rig.kill()
    other = start(make_rig)
    other.kill()
    deleted = other.store.calls["delete"]
    other.start(dry_run=True)
    other.turn(300)
    assert other.store.calls["delete"] == deleted


def test_deleting_a_great_part_is_no_collapse_of_the_listing_l3(make_rig: Any) -> None:
    rig = start(make_rig, 40, max_nodes=2)
    rig.turn(900)
    assert len(rig.records) == 2
    assert not rig.lines("breaker.opened")
    assert not rig.lines("list.suspect")


def test_a_record_that_a_node_bears_unlisted_is_found_at_the_last_look_c11(make_rig: Any) -> None:
    cloud, store = stocked(9)
    uuid = min(store.rows)
    store.put(uuid, modified_at=store.now() - 90 * DAY_S)
    node = cloud.add(tags=Tags("pool", uuid, "an-older-life"), age=100.0)
    cloud.machines[node.id].listed = False
    rig: Rig = make_rig(cloud=cloud, store=store, max_nodes=8, prune_after="7d").start()
    comes(rig, "record.prune_skipped")
    assert uuid in store.rows
    assert rig.reasons("record.prune_skipped", record=uuid)[0] == "node_alive"


def test_a_claim_between_look_and_delete_wins_c12(make_rig: Any) -> None:
    cloud, store = stocked(9)
    original = store.delete

    def claimed_first(record: Any) -> None:
        store.write(record.uuid, properties={"claimed": "elsewhere"})
        original(record)

    store.delete = claimed_first  # type: ignore[method-assign]  # somebody else is quicker
    rig: Rig = make_rig(cloud=cloud, store=store, max_nodes=8, prune_after="7d").start()
    comes(rig, "record.prune_failed")
    assert len(rig.records) == 9
    assert not rig.lines("record.pruned")


@cases("took_effect", {"gone": True, "not": False})
def test_a_delete_that_a_kill_cut_off_is_concluded_by_the_next_listing_r1(
    make_rig: Any, took_effect: bool
) -> None:
    cloud, store = stocked(9)
    journal = MemoryJournal(cloud.clock)
    rig: Rig = make_rig(cloud=cloud, store=store, journal=journal, max_nodes=8, prune_after="7d")
    original, conclude = store.delete, journal.conclude
    # Killed between the delete and its conclusion; or before the delete, which was lost.
    journal.conclude = lambda *given, **more: None  # type: ignore[method-assign]
    store.delete = original if took_effect else lambda record: None  # type: ignore[method-assign]
    rig.start()
    comes(rig, "record.pruned")
    rig.kill()
    journal.conclude = conclude  # type: ignore[method-assign]  # the next process
    store.delete = original  # type: ignore[method-assign]  # the next process
    (left,) = journal.open_intents()
    assert left.intent.kind is IntentKind.PRUNE
    assert left.intent.record is not None

    rig.start()
    rig.turn(30)

    outcomes = [one.outcome for one in journal.concluded(id=left.intent.record)]
    assert outcomes[0] == ("pruned" if took_effect else "failed")
    rig.turn(300)
    assert len(rig.records) == 8


def test_a_late_ping_of_a_deleted_record_is_told_as_a_false_clean_u8(make_rig: Any) -> None:
    rig = start(make_rig, 9)
    line = comes(rig, "record.pruned")
    now = rig.store.now()
    life = LatePing(line["record"], None, "pool", freed_at=now - 8 * DAY_S, at=now)
    rig.store.late[line["record"], "hush"] = life
    rig.turn(120)
    assert rig.lines("record.false_clean", record=line["record"])
    assert rig.reasons("record.not_restored") == ["record_deleted"]


def test_what_was_deleted_replays_to_the_same_verdicts(make_rig: Any, tmp_path: Path) -> None:
    cloud, store = stocked(40)
    journal = SqliteJournal(tmp_path / "journal.db", pool="pool", clock=cloud.clock)
    rig: Rig = make_rig(
        cloud=cloud, store=store, journal=journal, max_nodes=2, prune_after="7d"
    ).start()
    rig.turn(600)
    assert len(rig.records) == 2
    steps = list(replayed(read(journal.path)))
    assert all(step.is_same for step in steps)
    assert sum(len(step.plan.prunes) for step in steps) == 38


def test_another_pool_s_pruning_opens_no_breaker_l3a(make_rig: Any, tmp_path: Path) -> None:
    """L3a, N8: pool b prunes ten of the eighteen records in the store that pool a shares."""
    clock = TickingClock()
    store = FakeStore(clock)
    ours: Rig = make_rig(cloud=FakeCloud(clock), store=store, max_nodes=8)
    for _ in range(6):
        ours.fleet.add_node(age=DAY_S)
    for _ in range(12):
        store.add(quiet_for=30 * DAY_S, pool="b", ping_secret=None)
    ours.start().turn(120)
    theirs: Rig = make_rig(
        cloud=FakeCloud(clock, pool="b"), store=store, max_nodes=2, prune_after="7d"
    )
    theirs.directory = tmp_path / "b"
    theirs.directory.mkdir()
    theirs.start().turn(120)
    assert len(store.rows) == 8
    ours.fleet.beat()
    ours.turn(600)
    assert not ours.lines("breaker.opened")
    assert ours.summary()["breaker"] == "closed"
