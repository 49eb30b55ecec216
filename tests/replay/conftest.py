"""An incident, recorded by the real daemon on fakes, once for all tests of it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from nodemanager import cli
from nodemanager.core.model.world import Job, Record
from nodemanager.core.replay.worth import Balance, weigh
from nodemanager.journal.reading import Outline, outline
from nodemanager.journal.sqlite import SqliteJournal
from nodemanager.journal.sweep import Replayed, replay
from tests.actors.rig import Rig, rigs
from tests.fakes import FakeCloud, FakeStore, TickingClock

WINDOW_S, POLL_S = 1800.0, 60.0
NODES = 12
NAP_S = 1200.0


@dataclass(frozen=True)
class Incident:
    """What happened, by record: two nodes died, one hung, one was neither heard nor listed for
    NAP_S. Every slot was taken, and the queue wanted one node more than there were."""

    path: Path
    outline: Outline
    died: tuple[Record, Record]
    hung: Record
    napped: Record

    def under(self, *values: dict[str, Any], jobs: int = 1) -> Replayed:
        return replay(self.path, self.outline, values, jobs=jobs)

    def weighed(self, *windows: float) -> list[Balance]:
        """What each stale window gives beside the recorded one."""
        made = self.under(*(window(one) for one in windows))
        return [weigh(made.recorded, one, made.walls) for one in made.others]


Run = Callable[..., tuple[int, str, str]]
"""Runs `nodemanager ...` in a pipe; exit code, output and errors."""


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Run:
    def run_it(*words: object) -> tuple[int, str, str]:
        code: Any = 0
        try:
            cli.main(list(map(str, words)))
        except SystemExit as ended:
            code = ended.code
        said = capsys.readouterr()
        return int(code or 0), said.out, said.err

    return run_it


@pytest.fixture(scope="session")
def said_once() -> dict[tuple[object, ...], tuple[int, str, str]]:
    return {}


@pytest.fixture
def said(run: Run, said_once: dict[tuple[object, ...], tuple[int, str, str]]) -> Run:
    """Like `run`, once for all tests that ask the same: a replay takes seconds."""

    def say(*words: object) -> tuple[int, str, str]:
        if words not in said_once:
            said_once[words] = run(*words)
        return said_once[words]

    return say


def window(seconds: float) -> dict[str, float]:
    """The settings of a stale window; polls are fresh for half of a short one (S1)."""
    return {"node_stale_after": seconds, "poll_stale_after": min(600.0, seconds / 2)}


@pytest.fixture(scope="session")
def incident(tmp_path_factory: pytest.TempPathFactory) -> Incident:
    home = tmp_path_factory.mktemp("incident")
    with pytest.MonkeyPatch.context() as patches:
        made = rigs(home, patches)
        recorded = _recorded(next(made), home / "journal.db")
        # Ends the rig, and holds it against the promise; other tests' log lines are not its own.
        assert list(made) == []
    return recorded


def _recorded(make_rig: Any, path: Path) -> Incident:
    clock = TickingClock()
    journal = SqliteJournal(path, pool="pool", clock=clock)
    rig: Rig = make_rig(
        cloud=FakeCloud(clock),
        store=FakeStore(clock, slots=range(1, NODES + 1)),
        journal=journal,
        node_stale_after=WINDOW_S,
        poll_time=POLL_S,
        boot_fail_after=600,
        max_nodes=NODES,
        min_nodes=0,
        backlog="clean",
        wishlist_command="never-run",
    )
    rig.polls_seldom = False
    rig.jobs = (Job("more", count=1),)
    pairs = [rig.fleet.add_node(age=36_000.0) for _ in range(NODES)]
    rig.start()
    rig.turn(300)
    rig.cloud.vanish(pairs[0][0].node.id)
    rig.turn(300)
    rig.cloud.vanish(pairs[1][0].node.id)
    hung, napping = pairs[2][0], pairs[3][0]
    rig.fleet.silent |= {hung.node.id, napping.node.id}
    napping.listed = False
    rig.turn(NAP_S)
    napping.listed = True
    rig.fleet.silent.discard(napping.node.id)
    rig.turn(1980)
    journal.close()
    records = [record for _, record in pairs]
    return Incident(
        path, outline(path), (records[0], records[1]), hung=records[2], napped=records[3]
    )


def by_record(balance: Balance, *records: Record) -> Sequence[float]:
    """How much sooner each of these is free, in seconds."""
    gains = {move.life.record: move.gain_s for move in balance.moves}
    return [gains[record.uuid] for record in records]
