"""What the journal tells of a job: when it was in the queue, and what it had at the end."""

from __future__ import annotations

import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from nodemanager.core.explain.explain import DecisionView
from nodemanager.core.explain.jobs import jobs
from nodemanager.core.model.world import Job
from nodemanager.core.observe.facts import DemandSeen
from nodemanager.core.operate.naming import AmbiguousIdError, UnknownIdError
from nodemanager.journal import reading, recording
from nodemanager.journal.event import LoggedEvent
from nodemanager.journal.explained import view_at
from nodemanager.journal.job import explain_any, explain_job
from nodemanager.journal.sqlite import SqliteJournal
from nodemanager.lib.logline import timestamp
from tests.journal import random_world
from tests.journal.random_world import RandomWorld, recorded

pytestmark = pytest.mark.slow

Opener = Callable[..., SqliteJournal]
ROUNDS = 40
MINE = "only-1"


class Queue(RandomWorld):
    """One job waits for a while, and always another one."""

    def shake_flags(self) -> None:
        super().shake_flags()
        waits = 9 <= len(self.plans) < 27
        mine = (Job(MINE, cores=1, count=2),) if waits else ()
        self.fold(DemandSeen((Job("other", cores=1), *mine), self.now, self.now + 0.25))

    def poll_demand(self) -> None:
        """At each decision is enough."""


@pytest.fixture
def world(opened: Opener, monkeypatch: pytest.MonkeyPatch) -> RandomWorld:
    monkeypatch.setattr(recording, "SEGMENT_DECISIONS", 5)
    monkeypatch.setattr(random_world, "RandomWorld", Queue)
    return recorded(opened(), 11, ROUNDS)


def waits_at(world: RandomWorld, id: str) -> list[float]:
    """The times of the decisions that had that job in their queues."""
    return [
        snapshot.wall
        for (snapshot, _, _), made in zip(world.snapshots, world.plans, strict=True)
        if made.aborted is None and id in {one.id for one in snapshot.demand or ()}
    ]


def test_a_job_that_left_the_queue_is_told_with_what_it_had_then(
    world: RandomWorld, path: Path
) -> None:
    decision = view_at(path)
    assert MINE not in {one.id for one in decision.snapshot.demand or ()}
    times = waits_at(world, MINE)
    assert len(times) > 5, "in more than one segment"
    told = explain_job(decision, MINE, source="test", journal=path)
    assert (told["asked_at"], told["left_at"]) == (timestamp(times[0]), timestamp(times[-1]))
    (then,) = (one for one in jobs(view_at(path, times[-1])) if one.job == MINE)
    assert (told["state"], told["nodes"]) == (then.state.value, list(then.nodes))
    assert explain_any(decision, MINE, source="test", journal=path) == told


def test_a_job_that_waits_is_told_as_it_is_and_since_when(world: RandomWorld, path: Path) -> None:
    decision = view_at(path)
    told = explain_job(decision, "other", source="test", journal=path)
    assert told["left_at"] is None
    assert told["asked_at"] == timestamp(waits_at(world, "other")[0])
    before = view_at(path, waits_at(world, MINE)[-1])
    assert explain_job(before, MINE, source="test", journal=path)["left_at"] is None


def test_a_queue_that_only_waits_is_written_once_in_a_segment(
    opened: Opener, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A hundred thousand jobs are 4 MB of JSON, and a day has a thousand polls."""
    monkeypatch.setattr(random_world, "RandomWorld", Queue)
    world = recorded(opened(), 11, ROUNDS)
    with reading.opened(path) as connection:
        rows = [body for (body,) in connection.execute("SELECT body FROM entries ORDER BY seq")]
    told = [zlib.decompress(body).count(b'"id":"other"') for body in rows]
    assert 2 <= sum(told) <= 4, "at the start, where the other job comes and where it goes"
    seen = [one.jobs for one in reading.read(path) if isinstance(one, DemandSeen)]
    assert [len(jobs) for jobs in seen].count(2) > 5
    demands = [snapshot.demand for snapshot, _, _ in world.snapshots]
    assert seen[-len(demands) :] == demands


def test_each_of_its_nodes_is_told_with_when_it_came(opened: Opener, path: Path) -> None:
    journal = opened()
    world = recorded(journal, 3, ROUNDS)
    pictures = [
        DecisionView(snapshot, made, settings)
        for (snapshot, settings, _), made in zip(world.snapshots, world.plans, strict=True)
    ]
    found = [(decision, one) for decision in pictures for one in jobs(decision) if one.nodes]
    decision, one = found[-1]
    wall = decision.snapshot.wall
    for at in (wall - 900.0, wall - 600.0, wall + 600.0):
        journal.tell(LoggedEvent(at, "node.paired", host=one.nodes[0]))
    assert journal.retry()
    told = explain_job(decision, one.job, source="test", journal=path)
    paired = {node["host"]: node["at"] for node in told["came"]}
    assert paired.keys() == set(one.nodes)
    assert timestamp(wall - 900.0) < paired[one.nodes[0]] <= timestamp(wall)


def test_no_decision_is_decoded_to_learn_that_a_node_that_is_gone_is_no_job(
    world: RandomWorld, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its id is in the listings of many segments."""
    decision = view_at(path)
    listings = [snapshot.history.cloud for snapshot, _, _ in world.snapshots]
    ever = {node.id for listing in listings if listing is not None for node in listing.items}
    gone = ever - decision.snapshot.history.present.keys()
    decoded: list[object] = []
    decode: Any = reading._decided

    def counted(*given: Any) -> Any:
        decoded.append(given)
        return decode(*given)

    monkeypatch.setattr(reading, "_decided", counted)
    for node_id in gone:
        with pytest.raises(UnknownIdError):
            explain_job(decision, node_id, source="test", journal=path)
    assert gone
    assert decoded == []
    explain_job(decision, MINE, source="test", journal=path)
    assert 0 < len(decoded) <= recording.SEGMENT_DECISIONS, "only those of its last decision"


def test_what_nothing_goes_by_is_no_job_either(world: RandomWorld, path: Path) -> None:
    decision = view_at(path)
    with pytest.raises(UnknownIdError, match="no waiting job has the id 'nix'; 1 wait, and the"):
        explain_job(decision, "nix", source="test", journal=path)
    with pytest.raises(UnknownIdError, match="nothing goes by 'nix'") as caught:
        explain_any(decision, "nix", source="test", journal=path)
    assert not isinstance(caught.value, AmbiguousIdError)
