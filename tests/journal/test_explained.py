"""An explanation from a journal: of the same decision, the same as the daemon gives."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from nodemanager.core.explain.explain import DRY_RUN, DecisionView
from nodemanager.core.operate.naming import UnknownIdError
from nodemanager.errors import JournalError
from nodemanager.journal import recording
from nodemanager.journal.event import LoggedEvent
from nodemanager.journal.explained import Part, explanation, view_at
from nodemanager.journal.sqlite import SqliteJournal
from nodemanager.lib.logline import Json
from tests.core.build import EPOCH
from tests.journal.random_world import RandomWorld, bare_history, recorded

pytestmark = pytest.mark.slow

Opener = Callable[..., SqliteJournal]
ROUNDS = 40


@pytest.fixture
def world(opened: Opener, monkeypatch: pytest.MonkeyPatch) -> RandomWorld:
    """Forty decisions about a world that changes at random, in segments of seven."""
    monkeypatch.setattr(recording, "SEGMENT_DECISIONS", 7)
    return recorded(opened(), 11, ROUNDS)


def in_memory(world: RandomWorld, number: int) -> DecisionView:
    snapshot, settings, _ = world.snapshots[number]
    bare = replace(snapshot, history=bare_history(snapshot.history))
    return DecisionView(bare, world.plans[number], settings)


def ids(decision: DecisionView) -> list[str]:
    history = decision.snapshot.history
    assert history.cloud is not None
    assert history.records is not None
    listed = [one.uuid for one in history.records.items] + [one.id for one in history.cloud.items]
    return sorted(set(listed) - history.twice)


def all_told(decision: DecisionView) -> list[Json]:
    return [explanation(decision, one, source="test", journal=None) for one in ids(decision)]


@pytest.mark.parametrize("number", [5, 17, 18, 39])
def test_a_decision_of_the_journal_is_explained_as_it_was_in_memory(
    number: int, world: RandomWorld, path: Path
) -> None:
    at = world.snapshots[number][0].wall
    decision = view_at(path, at + 0.001)
    assert decision.snapshot.plan_id == world.snapshots[number][0].plan_id
    assert all_told(decision) == all_told(in_memory(world, number))


def test_without_a_time_it_is_the_newest_decision(world: RandomWorld, path: Path) -> None:
    steps: list[int] = []
    decision = view_at(path, step=steps.append)
    assert decision.snapshot.plan_id == world.snapshots[-1][0].plan_id
    assert steps == list(range(1, len(steps) + 1))
    assert len(steps) < ROUNDS / 2, "only its own segment is replayed"


def test_before_the_first_decision_nothing_is_known(world: RandomWorld, path: Path) -> None:
    with pytest.raises(JournalError, match="begins at"):
        view_at(path, EPOCH)


def test_a_dry_runs_journal_says_so_s3(world: RandomWorld, path: Path) -> None:
    copy = path.with_name("pool-dry-run.db")
    copy.write_bytes(path.read_bytes())
    path.with_name("journal.db-wal").rename(copy.with_name(f"{copy.name}-wal"))
    assert view_at(copy).mode == DRY_RUN


def test_its_history_is_its_own_and_ends_with_the_decision(world: RandomWorld, path: Path) -> None:
    at = world.snapshots[30][0].wall
    decision = view_at(path, at)
    id = ids(decision)[0]
    shown = explanation(decision, id, source="test", journal=path, part=Part(since=0.0))
    assert shown["history"], "the first verdict at least"
    assert all(id in (one["record"], one["node"]) for one in shown["history"])
    assert all(one["at"] <= shown["at"] for one in shown["history"])
    assert shown["history_problem"] is None


def test_what_is_listed_no_more_is_refused_with_its_last_mention(
    world: RandomWorld, path: Path
) -> None:
    last = view_at(path)
    judged = {verdict.id for made in world.plans for verdict in made.records}
    gone = sorted(judged - set(ids(last)))
    with pytest.raises(UnknownIdError, match="the journal last mentions it at"):
        explanation(last, gone[0], source="test", journal=path)


def test_a_journal_that_can_not_be_read_costs_the_history_alone(
    world: RandomWorld, path: Path
) -> None:
    decision = in_memory(world, 30)
    shown = explanation(
        decision, ids(decision)[0], source="test", journal=path.with_name("none.db")
    )
    assert shown["history"] == []
    assert "none.db" in shown["history_problem"]


def test_a_history_folds_what_only_turns_busy_and_idle_and_says_what_it_leaves_out(
    opened: Opener, path: Path
) -> None:
    journal = opened()
    world = recorded(journal, 11, ROUNDS)
    decision = in_memory(world, ROUNDS - 1)
    node, wall = decision.snapshot.history.cloud.items[0].id, decision.snapshot.wall  # type: ignore[union-attr]
    for number in range(300):
        reason = "busy" if number % 2 else "not_idle_long"
        journal.tell(LoggedEvent(wall - 500 + number, "node.keep", reason, node=node))

    def shown() -> Json:
        assert journal.retry()
        return explanation(decision, node, source="test", journal=path, part=Part(since=wall - 501))

    folded = [one for one in shown()["history"] if one["count"] > 1]
    assert [(one["event"], one["count"]) for one in folded] == [("node.keep", 300)]
    assert shown()["history_left_out"] == 0
    early = Part(since=wall - 501, until=wall - 401)
    (flips,) = explanation(decision, node, source="test", journal=path, part=early)["history"]
    assert flips["count"] == 100
    for number in range(120):
        journal.tell(LoggedEvent(wall - 200 + number, "node.drain", node=node))
    newest = shown()["history"]
    assert len(newest) == 100
    assert shown()["history_left_out"] > 20
    whole = explanation(decision, node, source="test", journal=path, part=Part(most=math.inf))
    assert whole["history_left_out"] == 0
    older = explanation(
        decision, node, source="test", journal=path, part=Part(before=newest[0]["number"])
    )
    assert older["history"] + newest == whole["history"][-len(older["history"]) - 100 :]
