"""kill -9 of the daemon at random points: `make chaos KILLS=200` plays more of them."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.live.chaos import Run

pytestmark = [pytest.mark.live, pytest.mark.server("curl")]

SEED = int(os.environ.get("SEED", "1"))
KILLS = int(os.environ.get("KILLS", "20"))


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
