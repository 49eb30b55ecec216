"""When a run that applies one plan alone may apply it, and why no order is carried out."""

from __future__ import annotations

from nodemanager.core.judge.preconditions import listed_for_long, plan_block
from nodemanager.core.model.reasons import Reason
from nodemanager.core.model.settings import Settings
from nodemanager.core.model.verdict import Objection
from nodemanager.core.model.world import Listing
from nodemanager.core.observe.history import History
from nodemanager.core.observe.snapshot import Limits
from tests.cases import cases

SETTINGS = Settings(pool="main", settle=60.0, absent_listings=2)


def history(cloud_at: float, records_at: float, *, base: bool = True) -> History:
    cloud = Listing((), cloud_at, cloud_at + 1.0)
    records = Listing((), records_at, records_at + 1.0)
    return History(cloud=cloud, records=records, base=records if base else None)


@cases(
    ("begun", "seen", "expected"),
    {
        "settled": ({100.0, 160.0}, history(160.0, 161.0), True),
        "the-cloud-s-is-too-early": ({100.0, 159.0}, history(159.0, 170.0), False),
        "the-store-s-is-too-early": ({100.0, 160.0}, history(160.0, 159.0), False),
        "one-listing-of-two": ({100.0}, history(160.0, 161.0), False),
        "no-listing": (set(), history(160.0, 161.0), False),
        "no-base": ({1.0, 160.0}, history(160.0, 161.0, base=False), False),
        "nothing-was-answered": ({1.0, 160.0}, History(), False),
    },
)
def test_one_plan_is_applied_once_listings_settled_c5_c6(
    begun: set[float], seen: History, expected: bool
) -> None:
    assert listed_for_long(begun, seen, SETTINGS) is expected


NOW = 1000.0
NO_LISTING = Objection(Reason.NO_LISTING)


@cases(
    ("aborted", "stopping", "read_only", "throttled_until", "reason"),
    {
        "nothing-is-in-the-way": (None, False, "", NOW, None),
        "the-cloud-asked-to-wait": (None, False, "", NOW + 1.0, Reason.THROTTLED),
        "nothing-is-kept": (None, False, "disk full", NOW + 1.0, Reason.READ_ONLY),
        "no-plan": (NO_LISTING, False, "disk full", 0.0, Reason.NO_LISTING),
        "it-stops": (NO_LISTING, True, "disk full", 0.0, Reason.STOPPING),
    },
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
