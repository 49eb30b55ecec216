"""Which pool a record belongs to (T3), and what a pre-flight's pool changes: nothing."""

from __future__ import annotations

import pytest

from nodemanager.core.observe.pools import adopts_unclaimed, not_ours, other_pools, preflight_of
from tests.core.build import POOL, world


def named(*pools: str | None) -> bool:
    """Whether this pool's manager handles records without a pool beside those."""
    made = world()
    records = [made.add_record(f"r{number}", pool=pool) for number, pool in enumerate(pools)]
    return adopts_unclaimed(other_pools(records, made.settings), made.settings)


def test_the_record_of_a_pre_flight_does_not_end_that_records_of_no_pool_are_ours_t3() -> None:
    assert named(None, POOL)
    assert named(None, POOL, preflight_of(POOL))
    assert not named(None, POOL, "other")
    assert not named(None, POOL, preflight_of("other"))


def test_the_record_of_a_pre_flight_is_never_its_pool_s_t3() -> None:
    made = world()
    record = made.add_record("r1", pool=preflight_of(POOL))
    for adopts in (True, False, None):
        assert not_ours(record, POOL, adopts) == "other_pool"


@pytest.mark.parametrize("pool", ["p", "p" * 53, "p" * 63])
def test_its_name_is_a_pool_s_name(pool: str) -> None:
    assert len(preflight_of(pool)) <= 63
    assert preflight_of(pool) != pool
    assert preflight_of(pool).endswith("-preflight")
