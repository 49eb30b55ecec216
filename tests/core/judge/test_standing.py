"""When a run that applies one plan alone may apply it."""

from __future__ import annotations

import pytest

from nodemanager.core.judge.preconditions import listed_for_long
from nodemanager.core.model.settings import Settings
from nodemanager.core.model.world import Listing
from nodemanager.core.observe.history import History

SETTINGS = Settings(pool="main", settle=60.0, absent_listings=2)


def history(cloud_at: float, records_at: float, *, base: bool = True) -> History:
    cloud = Listing((), cloud_at, cloud_at + 1.0)
    records = Listing((), records_at, records_at + 1.0)
    return History(cloud=cloud, records=records, base=records if base else None)


@pytest.mark.parametrize(
    ("begun", "seen", "expected"),
    [
        pytest.param({100.0, 160.0}, history(160.0, 161.0), True, id="settled"),
        pytest.param({100.0, 159.0}, history(159.0, 170.0), False, id="the-cloud-s-is-too-early"),
        pytest.param({100.0, 160.0}, history(160.0, 159.0), False, id="the-store-s-is-too-early"),
        pytest.param({100.0}, history(160.0, 161.0), False, id="one-listing-of-two"),
        pytest.param(set(), history(160.0, 161.0), False, id="no-listing"),
        pytest.param({1.0, 160.0}, history(160.0, 161.0, base=False), False, id="no-base"),
        pytest.param({1.0, 160.0}, History(), False, id="nothing-was-answered"),
    ],
)
def test_one_plan_is_applied_once_listings_settled_c5_c6(
    begun: set[float], seen: History, expected: bool
) -> None:
    assert listed_for_long(begun, seen, SETTINGS) is expected
