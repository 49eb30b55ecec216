"""kill -9 of the daemon at random points: `make proof NAME=chaos KILLS=200` plays more of them."""

from __future__ import annotations

import os
import shutil
import socket
import tempfile
import time
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from tests.cases import cases
from tests.live import ledger
from tests.live.chaos import Run
from tests.live.chaos_two import TwoManagers
from tests.live.ledger import Live, Windows
from tests.live.line import Line

pytestmark = [pytest.mark.live, pytest.mark.server("curl")]

SEED = int(os.environ.get("SEED", "1"))
KILLS = int(os.environ.get("KILLS", "10"))


@pytest.mark.timeout(90 + 10 * KILLS)
def test_after_each_kill_9_the_slots_held_are_live_nodes_and_records_within_their_window(
    tmp_path: Path,
):
    run = Run(tmp_path / "cluster", SEED)

    run.play(KILLS)

    assert run.kills == KILLS
    assert run.readings > KILLS
    for deed in ("record.claimed", "node.created", "node.paired"):
        assert run.counts[f"seen {deed}"], f"no kill came near {deed}: it proves nothing"


ROUNDS = max(3, KILLS // 3)


@pytest.mark.server("postgresql")
@pytest.mark.timeout(120 + 20 * ROUNDS)
def test_whatever_befalls_two_managers_the_slots_held_are_live_nodes_and_records_in_their_window(
    tmp_path: Path,
):
    run = TwoManagers(tmp_path / "cluster", SEED)

    run.play(ROUNDS)

    assert run.kills == ROUNDS
    assert run.readings > ROUNDS
    assert run.counts["times settled"] >= 2


@pytest.mark.parametrize("does", ["cut", "silence"])
def test_a_line_that_is_cut_or_silent_is_so_for_its_client_alone(
    does: str,
):
    home = Path(tempfile.mkdtemp(prefix="line-"))
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(home / "server"))
        server.listen()
        lines = [Line(home / "server", home / name) for name in ("one", "two")]
        try:
            ends = []
            for line in lines:
                client = socket.socket(socket.AF_UNIX)
                client.connect(str(line.folder / "server"))
                ends.append((client, server.accept()[0]))
            getattr(lines[0], does)()
            for client, ours in ends:
                client.settimeout(0.3)
                with suppress(BrokenPipeError):
                    client.sendall(b"asked")
                if client is ends[1][0]:
                    assert ours.recv(5) == b"asked"
            (hurt, at_server), _ = ends
            if does == "cut":
                assert at_server.recv(5) == b""
                with pytest.raises(OSError), socket.socket(socket.AF_UNIX) as again:
                    again.connect(str(lines[0].folder / "server"))
            else:
                with pytest.raises(TimeoutError):
                    hurt.recv(1)
                lines[0].mend()
                assert at_server.recv(5) == b"asked"
        finally:
            for line in lines:
                line.close()
            for pair in ends:
                for end in pair:
                    end.close()
            shutil.rmtree(home)


ONE, TWO = Live(11, "r1", "a" * 32), Live(12, "r2", "b" * 32)


def row(slot: int | None, incarnation: str | None) -> dict[str, Any]:
    claim = {"incarnation": incarnation, "at": time.time()}
    return {
        "slot_number": slot,
        "properties": {"nodemanager_claim": claim if incarnation else None},
    }


HEALTHY = {"r1": row(1, ONE.incarnation), "r2": row(2, TWO.incarnation)}


def test_the_ledger_finds_nothing_wrong_with_two_nodes_of_two_records():
    assert ledger.broken({"n1": ONE, "n2": TWO}, HEALTHY, most=2) == []


@cases(
    ("nodes", "rows", "told"),
    {
        "shared": ({"n1": ONE, "n2": ONE}, HEALTHY, "2 live nodes for record r1"),
        "too-many": ({"n1": ONE, "n2": TWO, "n3": TWO}, HEALTHY, "3 live nodes"),
        "freed": ({"n1": ONE}, {"r1": row(None, None)}, "it was freed"),
        "reused": ({"n1": ONE}, {"r1": row(1, "c" * 32)}, "lost its claim"),
        "deleted": ({"n1": ONE}, {}, "is no more"),
        "slot-twice": ({}, {**HEALTHY, "r2": row(1, TWO.incarnation)}, "held by 2 records"),
    },
)
def test_the_ledger_tells_what_breaks_the_promise(
    nodes: dict[str, Live], rows: dict[str, dict[str, Any]], told: str
):
    assert any(told in one for one in ledger.broken(nodes, rows, most=2))


@cases(
    ("pinged_s_ago", "claimed_s_ago", "left_s"),
    {
        "window-from-the-last-ping": (2, 60, 4),
        "claim-that-never-pinged": (None, 2, 9),
        "overdue": (20, 60, -14),
    },
)
def test_a_record_nobody_uses_holds_its_slot_until_its_window_ends(
    pinged_s_ago: float | None, claimed_s_ago: float, left_s: float
):
    now = time.time()

    def ago(seconds: float | None) -> str | None:
        return None if seconds is None else datetime.fromtimestamp(now - seconds, UTC).isoformat()

    record = {
        "slot_number": 1,
        "modified_at": ago(60),
        "first_ping_at": ago(pinged_s_ago),
        "last_ping_at": ago(pinged_s_ago),
        "properties": {
            "nodemanager_claim": {"incarnation": "a" * 32, "at": now - claimed_s_ago},
        },
    }

    ends = ledger.expiry(record, Windows(stale_s=6, claim_s=11))

    assert ends == pytest.approx(now + left_s, abs=0.01)
