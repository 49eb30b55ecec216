"""What a record says of the cloud's taking its node, as the node's pings said it (D18)."""

from __future__ import annotations

import pytest

from nodemanager.core.model.world import CloudNotice, Taking
from tests.contract.stores import Backend, cas_stores, claim, pinged, read

AT = 1474309787.0
SPOT = CloudNotice(Taking.SPOT, AT)


@cas_stores
@pytest.mark.parametrize(
    ("at", "expected"),
    [
        pytest.param("2016-09-19T18:29:47Z", AT, id="as-amazons-spot-notice"),
        pytest.param("Mon, 19 Sep 2016 18:29:47 GMT", AT, id="as-azures"),
        pytest.param("19 Sep 2016 18:29:47 GMT", AT, id="as-amazons-events"),
        pytest.param("", None, id="none-as-googles"),
        pytest.param("soon", None, id="no-time"),
        pytest.param("19 Sep 2016 18:29:47", None, id="of-no-zone"),
        pytest.param("Mon, 99 Sep 99999 18:29:47 GMT", None, id="no-day"),
        pytest.param("x" * 300, None, id="too-long"),
    ],
)
def test_a_ping_tells_why_and_when_the_node_will_be_taken(
    backend: Backend, at: str, expected: float | None
) -> None:
    record = pinged(backend, notice="spot", notice_at=at)
    assert record.notice == CloudNotice(Taking.SPOT, expected)
    assert not record.problems


@cas_stores
def test_it_stands_until_a_ping_says_otherwise(backend: Backend) -> None:
    """A node whose metadata service gave no answer says nothing, which takes nothing back."""
    record = pinged(backend, notice="spot", notice_at="2016-09-19T18:29:47Z")
    for odd in ({}, {"notice": "perhaps"}, {"notice": "x" * 300}):
        assert backend.ping(record, **odd).status_code == 200
        assert read(backend, record).notice == SPOT
    backend.ping(record, notice="maintenance")
    assert read(backend, record).notice == CloudNotice(Taking.MAINTENANCE)
    backend.ping(record, notice="none", notice_at="2016-09-19T18:29:47Z")
    assert read(backend, record).notice is None


@cas_stores
def test_the_next_life_of_a_record_has_no_notice(backend: Backend) -> None:
    record = pinged(backend, notice="spot")
    free = backend.store.clean(record, "stale_slot")
    claimed = backend.store.claim(free, claim())
    assert claimed.notice is None
    backend.ping(claimed)
    assert read(backend, claimed).notice is None


@cas_stores
def test_a_life_given_back_has_the_notice_that_it_had_u8(backend: Backend) -> None:
    record = pinged(backend, notice="spot", notice_at="2016-09-19T18:29:47Z")
    again = backend.store.restore(backend.store.clean(record, "after_shutdown"), record)
    assert again.notice == SPOT
