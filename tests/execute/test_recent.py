"""What ended of ours counts until both listings began after it (C8, C10, D9)."""

from __future__ import annotations

import pytest

from nodemanager.core.execute.books import NodeGone
from nodemanager.core.execute.recent import Recent, after_gone, still_recent
from nodemanager.core.reasons import Reason
from nodemanager.core.snapshot import Flight
from tests.core.build import world


@pytest.mark.parametrize(
    ("reason", "counts"),
    [
        pytest.param(Reason.IDLE_BEYOND_DEMAND, 0, id="idle"),
        pytest.param(Reason.UNPAIRED, 1, id="unpaired"),
        pytest.param(Reason.BOOT_FAILED, 1, id="never-pinged"),
    ],
)
def test_a_destroyed_node_counts_against_the_cycle_but_for_an_idle_one_d9(
    reason: Reason, counts: int
) -> None:
    recent = after_gone(Recent(), NodeGone("i-1", reason, None), 5.0)
    assert recent.gone == {"i-1": 5.0}
    assert len(recent.destroyed_at) == counts


def test_what_ended_counts_until_both_listings_began_after_it_c8() -> None:
    at_work = world(max_nodes=0)
    at_work.round()
    history = at_work.snapshot().history
    assert history.cloud is not None
    assert history.records is not None
    shown = min(history.cloud.started_at, history.records.started_at)
    recent = Recent(
        landed={"old": (Flight("setup", 0.0), shown - 1.0), "new": (Flight("setup", 0.0), shown)},
        cleaned_at=(shown - 1.0, shown),
        touched={"old": shown - 1.0, "new": shown},
    )
    kept = still_recent(recent, history)
    assert kept.by_record(None).keys() == {"new"}
    assert kept.by_record("new") == {}
    assert kept.cleaned_at == (shown,)
    assert kept.touched == {"new": shown}
