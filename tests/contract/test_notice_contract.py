"""What a record says of the cloud's taking its node, as the node's pings said it (D18)."""

from __future__ import annotations

from nodemanager.core.model.world import CloudNotice, Taking
from tests.contract.stores import Backend, cas_stores, claim, pinged, read

AT = 1474309787.0
SPOT = CloudNotice(Taking.SPOT, AT)


TOLD = {
    "2016-09-19T18:29:47Z": AT,
    "Mon, 19 Sep 2016 18:29:47 GMT": AT,
    "19 Sep 2016 18:29:47 GMT": AT,
    "": None,
    "soon": None,
    "19 Sep 2016 18:29:47": None,
    "Mon, 99 Sep 99999 18:29:47 GMT": None,
    "x" * 300: None,
}
"""As Amazon's spot notice has it, Azure's, Amazon's events, and Google's, which tells no time; then
what is no time of a zone."""


@cas_stores
def test_a_ping_tells_why_and_when_the_node_will_be_taken(backend: Backend) -> None:
    record = backend.store.create(claim())
    for at, expected in TOLD.items():
        # One that takes it back parts each from the one before.
        for notice in ("none", "spot"):
            assert backend.ping(record, notice=notice, notice_at=at).status_code == 200
        found = read(backend, record)
        assert found.notice == CloudNotice(Taking.SPOT, expected), at
        assert not found.problems


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
