"""When a run that applies one plan alone may apply it, and why no order is carried out."""

from __future__ import annotations

import pytest

from nodemanager.core.judge.preconditions import listed_for_long, plan_block
from nodemanager.core.model.reasons import Reason
from nodemanager.core.model.settings import Settings
from nodemanager.core.model.verdict import Objection
from nodemanager.core.model.world import Listing
from nodemanager.core.observe.history import History
from nodemanager.core.observe.snapshot import Limits

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


NOW = 1000.0
NO_LISTING = Objection(Reason.NO_LISTING)


@pytest.mark.parametrize(
    ("aborted", "stopping", "read_only", "throttled_until", "reason"),
    [
        pytest.param(None, False, "", NOW, None, id="nothing-is-in-the-way"),
        pytest.param(None, False, "", NOW + 1.0, Reason.THROTTLED, id="the-cloud-asked-to-wait"),
        pytest.param(None, False, "disk full", NOW + 1.0, Reason.READ_ONLY, id="nothing-is-kept"),
        pytest.param(NO_LISTING, False, "disk full", 0.0, Reason.NO_LISTING, id="no-plan"),
        pytest.param(NO_LISTING, True, "disk full", 0.0, Reason.STOPPING, id="it-stops"),
    ],
)
def test_the_first_of_what_forbids_all_orders_is_told(
    aborted: Objection | None,
    stopping: bool,
    read_only: str,
    throttled_until: float,
    reason: Reason | None,
) -> None:
    limits = Limits(throttled_until=throttled_until)
    why = plan_block(aborted, limits, NOW, stopping=stopping, read_only=read_only)
    assert (None if why is None else why.reason) is reason
    if why is not None and why.reason is Reason.READ_ONLY:
        assert why.measures == {"detail": "disk full"}
