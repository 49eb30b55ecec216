"""kill -9 at the worst moments of a shutdown, and what the next run makes of its journal (R1)."""

from __future__ import annotations

import signal
import stat
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from nodemanager.journal.api import IntentKind
from nodemanager.journal.reading import Decided, read
from nodemanager.journal.replay import replayed
from tests.contract.stores import Postgres
from tests.forked import run
from tests.live import dying
from tests.live.cluster import DirectedCluster
from tests.live.harness import environment
from tests.waiting import until

pytestmark = [pytest.mark.live, pytest.mark.server("curl")]


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[DirectedCluster]:
    """One idle node, paired and heard; no daemon runs. Nothing is stale for ten minutes."""
    made = DirectedCluster(
        tmp_path / "cluster",
        {
            "Daemon": {"min_nodes": 1, "max_nodes": 1, "node_stale_after": 600},
            "Registry": {"slots": 2},
        },
    )
    with closing(made):
        made.serve_registry()
        first = made.start()
        first.wait_for("node.paired")
        until("its ping", lambda: "idle" in made.registry.states().values(), told=first.told)
        assert first.terminate() == 0
        made.change({"Daemon": {"min_nodes": 0, "max_nodes": 0}})
        yield made


def dies_at(cluster: DirectedCluster, where: str) -> None:
    """Run the daemon until it kills itself there."""
    words = (where, "run", "--config", str(cluster.config))
    env = environment(STATE_DIRECTORY=str(cluster.state))
    ended = run(*words, module=dying.__name__, env=env)
    assert ended.returncode == -signal.SIGKILL, ended.stderr[-3000:]


@pytest.mark.parametrize(
    ("where", "left_open"),
    [
        pytest.param("cloud.destroy.after", IntentKind.DESTROY, id="destroyed-and-not-told"),
        pytest.param(
            "store.clean.before", IntentKind.CLEAN, id="gone-and-not-freed", marks=pytest.mark.proof
        ),
        pytest.param(
            "store.clean.after", IntentKind.CLEAN, id="freed-and-not-told", marks=pytest.mark.proof
        ),
    ],
)
def test_the_slot_is_free_after_the_restart_without_waiting_for_the_window(
    cluster: DirectedCluster, where: str, left_open: IntentKind
) -> None:
    (record,) = cluster.claimed()
    dies_at(cluster, where)

    daemon = cluster.start()
    told = daemon.wait_for("intent.open", record=record)
    assert told["action"] == left_open.value
    daemon.wait_for("intent.ended", record=record)
    until(
        "the slot to be free",
        lambda: cluster.registry.row(record)["slot_number"] is None,
        told=daemon.told,
    )
    assert cluster.claimed() == {}
    assert cluster.running() == {}
    for line in daemon.lines("record.cleaned"):
        assert line["reason"] == "after_shutdown"
    assert daemon.terminate() == 0

    third = cluster.start()
    third.wait_for("cycle.done", nodes=0)
    assert third.lines("intent.open") == []


def test_the_journal_of_a_daemon_replays_and_is_its_owners_alone(cluster: DirectedCluster) -> None:
    daemon = cluster.start()
    daemon.wait_for("record.cleaned", reason="after_shutdown")
    path = cluster.state / "journal.db"
    # Beside the running daemon, and after it.
    assert any(isinstance(entry, Decided) for entry in read(path))
    assert daemon.terminate() == 0
    steps = list(replayed(read(path)))
    assert len({step.plan.plan_id.split("-")[0] for step in steps}) == 2
    assert all(step.is_same for step in steps)
    for file in cluster.state.glob("journal.db*"):
        assert stat.S_IMODE(file.stat().st_mode) == 0o600


def test_a_journal_that_is_replaced_ends_the_daemon_and_the_next_start_begins_a_new_one_r1(
    cluster: DirectedCluster,
) -> None:
    daemon = cluster.start()
    daemon.wait_for("cycle.done")
    path = cluster.state / "journal.db"
    path.rename(cluster.state / "journal-moved.db")
    assert daemon.ended() == 1
    (told,) = daemon.lines("journal.failed")
    assert "moved, removed or replaced" in told["error"]
    assert daemon.lines("actor.died") == []
    assert not path.exists(), "only a start may make one"

    second = cluster.start()
    second.wait_for("record.cleaned")
    assert path.exists()
    assert cluster.claimed() == {}
    assert second.terminate() == 0


@pytest.mark.server("postgresql")
def test_a_manager_that_starts_without_the_file_goes_on_from_postgresql_r1(
    cluster: DirectedCluster,
) -> None:
    """As on another machine: its own file has nothing of what was under way."""
    server = Postgres()
    try:
        cluster.change({"Journal": {"database": server.new_database()}})
        dies_at(cluster, "store.clean.before")
        for file in cluster.state.glob("journal.db*"):
            file.unlink()
        (record,) = cluster.claimed()

        daemon = cluster.start()
        assert daemon.wait_for("intent.open", record=record)["action"] == "clean"
        daemon.wait_for("record.cleaned", record=record, reason="after_shutdown")
        until("the slot to be free", lambda: cluster.claimed() == {}, told=daemon.told)
        assert daemon.terminate() == 0
    finally:
        server.stop()
