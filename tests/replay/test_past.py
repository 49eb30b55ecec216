"""What a recorded time cost, and what it shows of each window, against worlds whose truth is known.

The fake cloud knows from when to when each machine ran, and the test itself knows what each did.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from nodemanager.core.judge.node_view import OUTSIDE
from nodemanager.core.model.reasons import Means, having
from nodemanager.core.model.world import Job, Size, WorkerState
from nodemanager.core.replay.spending import CAUSE_OF, CostCause, cause_of, size_of, spent, total_of
from nodemanager.errors import CloudError
from nodemanager.journal.replay import Past, past
from nodemanager.journal.sqlite import SqliteJournal
from tests.actors.rig import Rig, rigs
from tests.fakes import FakeCloud, FakeStore, TickingClock
from tests.fakes.cloud import LARGE, SMALL
from tests.fakes.script import fail
from tests.replay.conftest import NAP_S, WINDOW_S, Incident

POLL_S = 30.0
TREE = Path(__file__).parents[2]
BUSY_S, IDLE_S = 3600.0, 900.0


class Played:
    """A rig that records, and since when the machines run, by the cloud's own account."""

    def __init__(self, rig: Rig, path: Path) -> None:
        self.rig = rig
        self.path = path
        self.vanished: dict[str, tuple[Any, float]] = {}

    def vanish(self, node_id: str) -> None:
        machine = self.rig.cloud.vanish(node_id)
        self.vanished[node_id] = machine, self.rig.clock.wall()

    def running(self) -> Iterator[tuple[str, float, float]]:
        """The size, the launch and the end of each machine that ever was."""
        now = self.rig.clock.wall()
        for machine in self.rig.cloud.machines.values():
            end = now if machine.ends_at is None else machine.ends_at
            yield machine.node.tags.size or "", machine.node.created_at or 0.0, end
        for machine, at in self.vanished.values():
            yield machine.node.tags.size or "", machine.node.created_at or 0.0, at

    def truth(self, found: Past, prices: dict[str, float]) -> float:
        """The world's own sum, for the time that was recorded."""
        return sum(
            prices[size] * max(0.0, min(end, found.last) - max(begin, found.first)) / 3600
            for size, begin, end in self.running()
        )


@pytest.fixture
def played(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    made = rigs(tmp_path, monkeypatch)
    make = next(made)

    def play(sizes: tuple[Size, ...] = (SMALL, LARGE), **options: object) -> Played:
        clock = TickingClock()
        path = tmp_path / "journal.db"
        rig: Rig = make(
            cloud=FakeCloud(clock),
            store=FakeStore(clock, slots=range(1, 21)),
            journal=SqliteJournal(path, pool="pool", clock=clock),
            wishlist_command="never-run",
            backlog="clean",
            **options,
        )
        rig.polls_seldom = False
        rig.sizes = sizes
        rig.jobs = ()
        return Played(rig, path)

    yield play
    assert list(made) == []


def by_cause(found: Past) -> dict[str, float]:
    made = spent(found.account.stretches, cause_of, (found.first, found.last))[0]
    return {name: one.money for name, one in made.items()}


def busy_then_idle(world: Played) -> None:
    """Six small jobs and two large ones run, one node is lost, and all the others end as idle."""
    rig = world.rig
    rig.start()
    rig.jobs = (Job("small", count=6), Job("large", cores=8, count=2))
    rig.turn_until("node.paired", within=600)
    rig.jobs = ()
    rig.turn(BUSY_S)
    assert len(rig.nodes) == 8
    world.vanish(next(node.id for node in rig.nodes if node.size == "small"))
    rig.turn(600)
    rig.fleet.state = WorkerState.IDLE
    rig.turn(IDLE_S)
    assert rig.nodes == []
    rig.journal.close()  # type: ignore[attr-defined]  # the journal that writes a file


def test_every_reason_of_a_node_says_what_its_money_is_for() -> None:
    of_nodes = having(Means.NODE) - having(Means.PASSES) - OUTSIDE
    assert of_nodes - CAUSE_OF.keys() == set()


def test_the_manual_has_every_cause_in_its_words() -> None:
    page = " ".join((TREE / "doc/cost.rst").read_text(encoding="utf-8").split())
    told = [f"* - ``{one}`` - {one.doc.replace('`', '``')}" for one in CostCause]
    assert [one for one in told if one not in page] == []


def test_the_cost_is_the_clouds_own_sum_within_a_poll_of_each_node(played: Any) -> None:
    world: Played = played(max_nodes=12, node_stale_after=1800)
    busy_then_idle(world)
    found = past(world.path)
    prices = {"small": SMALL.price or 0.0, "large": LARGE.price or 0.0}
    truth = world.truth(found, prices)
    costs = by_cause(found)
    machines = list(world.running())
    a_poll = sum(prices[size] for size, _, _ in machines) * POLL_S / 3600
    assert sum(costs.values()) == pytest.approx(truth, abs=a_poll)
    assert truth > 2.0
    # Eight nodes worked for an hour, seven for ten minutes more.
    all_of_them = 6 * prices["small"] + 2 * prices["large"]
    worked = all_of_them * BUSY_S + (all_of_them - prices["small"]) * 600
    booting_at_most = all_of_them * 3 * POLL_S
    assert costs["busy"] * 3600 == pytest.approx(worked, abs=booting_at_most + a_poll * 3600)
    assert set(costs) <= {"busy", "booting", "late", "idle", "ending"}


def test_a_node_that_never_came_back_was_lost_from_its_last_ping_on(played: Any) -> None:
    world: Played = played(max_nodes=4, node_stale_after=1800, boot_fail_after=600)
    rig = world.rig
    rig.start()
    rig.jobs = (Job("small", count=2),)
    rig.turn_until("node.paired", within=600)
    rig.jobs = ()
    rig.turn(1200)
    silent, _ = rig.nodes
    rig.fleet.silent.add(silent.id)
    silent_at = rig.clock.wall()
    gone = rig.turn_until("node.gone", within=7200, node=silent.id)
    assert gone["node"] == silent.id
    lost_s = rig.clock.wall() - silent_at
    rig.turn(120)
    rig.journal.close()  # type: ignore[attr-defined]
    found = past(world.path)
    costs = by_cause(found)
    price = SMALL.price or 0.0
    assert lost_s > 1800
    assert costs["lost"] * 3600 == pytest.approx(price * lost_s, abs=price * 3 * POLL_S)
    assert found.evidence.pings.unusual.count == 0, "this silence never ended"


def test_a_boot_that_never_worked_is_told_apart_from_boots(played: Any) -> None:
    world: Played = played(max_nodes=1, boot_fail_after=600)
    rig = world.rig
    rig.fleet.mute = True
    rig.start()
    rig.jobs = (Job("small", count=1),)
    rig.turn_until("node.created", within=300)
    rig.jobs = ()
    rig.turn_until("node.gone", within=3600)
    rig.turn(120)
    rig.journal.close()  # type: ignore[attr-defined]
    found = past(world.path)
    costs = by_cause(found)
    assert "booting" not in costs
    assert costs["failed_boot"] * 3600 == pytest.approx(600 * (SMALL.price or 0), rel=0.2)
    assert len(found.evidence.failed) == 1
    assert found.evidence.boots.above().count == 0


def test_a_node_without_a_price_is_counted_in_hours_and_never_as_free(played: Any) -> None:
    world: Played = played(min_nodes=1, max_nodes=2)
    world.rig.cloud.sizes = (Size("odd", "odd", cores=1, ram_mb=2000, price=None),)
    world.rig.sizes = ()
    world.rig.start()
    world.rig.turn(3600)
    world.rig.journal.close()  # type: ignore[attr-defined]
    found = past(world.path)
    made = spent(found.account.stretches, size_of, (found.first, found.last))[0]
    total = total_of(made)
    assert total.money == 0
    assert total.unpriced_hours == pytest.approx(1.0, abs=0.05)
    assert made["odd"].hours == total.unpriced_hours


@pytest.mark.parametrize("at_once", [True, False], ids=["lists-at-once", "lists-later"])
def test_time_that_no_daemon_watched_is_told_as_that(played: Any, at_once: bool) -> None:
    world: Played = played(min_nodes=2, max_nodes=2)
    rig = world.rig
    rig.start()
    rig.turn(1200)
    rig.kill()
    rig.turn(3600)
    if not at_once:
        rig.cloud.on("list_nodes", fail(CloudError("timeout")))
    rig.start()
    rig.turn(600)
    rig.journal.close()  # type: ignore[attr-defined]
    found = past(world.path)
    costs, price = by_cause(found), SMALL.price or 0.0
    assert costs["unwatched"] == pytest.approx(2 * price, abs=2 * price * 3 * POLL_S / 3600)
    prices = {"small": price, "large": LARGE.price or 0.0}
    assert sum(costs.values()) == pytest.approx(world.truth(found, prices), abs=0.01)
    assert found.evidence.pings.unusual.count == 0, "nobody looked meanwhile: that is no silence"


def test_sums_by_time_are_cut_at_the_edges(played: Any) -> None:
    world: Played = played(min_nodes=1, max_nodes=1)
    world.rig.start()
    world.rig.turn(3600)
    world.rig.journal.close()  # type: ignore[attr-defined]
    found = past(world.path)
    middle = (found.first + found.last) / 2
    edges = (found.first, middle, found.last)
    halves = [one["small"].hours for one in spent(found.account.stretches, size_of, edges)]
    assert halves == pytest.approx([0.5, 0.5], abs=0.02)


# Windows.


def test_the_longest_silence_that_ended_is_found(incident: Incident) -> None:
    found = past(incident.path)
    seen = found.evidence.pings.unusual
    assert seen.count == 1, "those that died, and the one that hung, never came back"
    assert seen.whose == incident.napped.hostname
    assert NAP_S <= seen.longest_s <= NAP_S + 2 * 60
    absent = found.evidence.absences.above()
    assert (absent.count, absent.whose) == (1, incident.napped.hostname)
    assert absent.longest_s == pytest.approx(NAP_S, abs=60)
    assert found.evidence.absent.longest_s == pytest.approx(NAP_S / 60, abs=1)
    assert seen.longest_s < WINDOW_S


def test_boots_are_measured_from_the_claim_to_the_first_ping(played: Any) -> None:
    world: Played = played(min_nodes=3, max_nodes=3)
    world.rig.start()
    world.rig.turn(1200)
    world.rig.journal.close()  # type: ignore[attr-defined]
    boots = past(world.path).evidence.boots.above()
    assert boots.count == 3
    assert 0 < boots.longest_s <= 60
    assert boots.whose.startswith("compute")
