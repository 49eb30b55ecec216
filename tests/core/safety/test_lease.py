"""Who may act for a pool, and from when on (L6, T2)."""

from __future__ import annotations

from nodemanager.core.safety.lease import (
    LeaseRow,
    Sighting,
    acts_from,
    ends_at,
    may_take,
    sighted,
)
from tests.cases import cases

DURATION_S = 30.0


def row(
    holder: str | None = "a", token: int = 1, renewals: int = 4, left_s: float = 0.0
) -> LeaseRow:
    return LeaseRow(holder, token, renewals, DURATION_S, left_s)


@cases(
    ("left_s", "watched_s", "may"),
    {
        "watched": (0.0, DURATION_S, True),
        "the-database's-clock-was-set-back": (3600.0, DURATION_S, True),
        "the-database's-clock-was-set-on": (-3600.0, DURATION_S - 0.001, False),
        "just-seen": (-3600.0, 0.0, False),
    },
)
def test_a_lease_is_taken_only_after_it_was_watched_for_its_whole_time(
    left_s: float, watched_s: float, may: bool
) -> None:
    """Whatever the database's clock says (L6, T2)."""
    assert may_take(Sighting(row(left_s=left_s), 100.0), 100.0 + watched_s) is may


def test_what_was_given_back_is_free_at_once() -> None:
    assert may_take(Sighting(row(holder=None, left_s=20.0), 100.0), 100.0)


@cases(
    ("newer", "since"),
    {
        "unchanged": (row(), 100.0),
        "only-the-clock-went-on": (row(left_s=9.0), 100.0),
        "renewed": (row(renewals=5), 170.0),
        "another-holder": (row(token=2, renewals=4), 170.0),
        "a-failover-lost-a-renewal": (row(renewals=3), 170.0),
    },
)
def test_each_new_version_is_watched_anew(newer: LeaseRow, since: float) -> None:
    assert sighted(Sighting(row(), 100.0), newer, 170.0) == Sighting(newer, since)
    assert sighted(None, newer, 170.0).since == 170.0


def test_the_holder_ends_before_anybody_can_take_its_lease() -> None:
    """It counts from before it sent the renewal; another one from after it saw it."""
    sent_at, seen_at = 100.0, 100.2
    end = ends_at(sent_at, DURATION_S)
    assert end < sent_at + DURATION_S <= seen_at + DURATION_S
    assert not may_take(Sighting(row(), seen_at), end)


def test_a_new_holder_waits_for_the_calls_of_one_that_did_not_give_back() -> None:
    assert acts_from(500.0, 60.0, was_given_back=False) == 560.0
    assert acts_from(500.0, 60.0, was_given_back=True) == 500.0
