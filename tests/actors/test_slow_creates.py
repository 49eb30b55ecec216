"""Creates that the cloud goes on with after its answer, and that may be refused in the end (D6)."""

from __future__ import annotations

import pytest

from nodemanager.core.model.world import CloudState
from nodemanager.errors import CapacityUnavailable, PlaceFull, QuotaExceeded
from tests.actors.conftest import MakeRig
from tests.actors.rig import Rig, restart, until
from tests.actors.test_places import where
from tests.fakes import fail

pytestmark = pytest.mark.slow

POLL_S = 30.0
WORDS = "ZONE_RESOURCE_POOL_EXHAUSTED: no room"


def slow(make_rig: MakeRig, takes: float, **options: object) -> Rig:
    rig = make_rig(**{"min_nodes": 1, "max_nodes": 3, "poll_time": POLL_S, **options})
    rig.cloud.takes = takes
    return rig


@pytest.mark.parametrize("takes", [20.0, 100.0])
def test_a_place_that_is_full_in_the_end_is_left_within_two_polls_in_the_clouds_own_words(
    make_rig: MakeRig, takes: float
) -> None:
    rig = slow(make_rig, takes, max_poll_time=300)
    rig.places = ("zone-a", "zone-b")
    rig.cloud.refused_in_the_end["zone-a"] = PlaceFull(WORDS, place="zone-a")
    rig.start()
    rig.turn(takes + 2 * POLL_S)
    assert where(rig) == [("zone-b",)]
    (failed,) = rig.lines("node.setup_failed")
    assert (failed["place"], failed["definite"]) == ("zone-a", True)
    assert WORDS in str(failed["error"])
    assert [line["place"] for line in rig.lines("place.rests")] == ["zone-a"]
    rig.turn(takes + 2 * POLL_S)
    (created,) = rig.lines("node.created")
    assert created["place"] == "zone-b"
    # One claim for both creates, and no record was given back.
    assert len(rig.lines("record.claimed")) == 1
    assert not rig.lines("record.cleaned")


@pytest.mark.parametrize("takes", [20.0, 100.0])
def test_a_quota_that_is_told_in_the_end_releases_the_claim_and_counts_no_node_as_coming(
    make_rig: MakeRig, takes: float
) -> None:
    rig = slow(make_rig, takes)
    rig.cloud.refused_in_the_end[None] = QuotaExceeded(WORDS)
    rig.start()
    # A listing has shown the node meanwhile.
    rig.turn(takes + 2 * POLL_S)
    (failed,) = rig.lines("node.setup_failed")
    assert (failed["definite"], WORDS in str(failed["error"])) == (True, True)
    (freed,) = rig.lines("record.cleaned")
    assert freed["reason"] == "create_refused"
    assert not rig.lines("node.created")
    assert [record.claim for record in rig.records] == [None]
    assert rig.cloud.calls["create"] == 1


@pytest.mark.parametrize("takes", [20.0, 100.0])
def test_a_size_without_room_in_the_end_is_followed_by_another_within_two_polls(
    make_rig: MakeRig, takes: float
) -> None:
    rig = slow(make_rig, takes)
    rig.cloud.refused_in_the_end[None] = CapacityUnavailable(WORDS)
    rig.start()
    rig.turn(takes + 2 * POLL_S)
    assert [line["size"] for line in rig.lines("node.setup_started")] == ["small", "large"]
    assert rig.lines("node.setup_failed")[0]["size"] == "small"


def test_a_restart_asks_on_by_what_the_journal_has(make_rig: MakeRig) -> None:
    rig = slow(make_rig, 100.0)
    rig.cloud.refused_in_the_end[None] = QuotaExceeded(WORDS)
    rig.start()
    rig.turn(POLL_S)
    restart(rig)
    until(rig, "node.setup_failed", within=90)
    (failed,) = rig.lines("node.setup_failed")
    assert WORDS in str(failed["error"])
    assert rig.cloud.calls["create"] == 0
    until(rig, "record.cleaned", within=2 * POLL_S, reason="create_refused")


def test_a_question_that_fails_is_no_refusal_and_is_asked_again(make_rig: MakeRig) -> None:
    rig = slow(make_rig, 20.0)
    rig.cloud.always("finish", fail(QuotaExceeded("too many questions")))
    rig.start()
    rig.turn(60)
    assert not rig.lines("node.setup_failed")
    assert rig.cloud.calls["create"] == 1
    rig.cloud.always("finish", None)
    rig.turn(POLL_S)
    assert [node.state for node in rig.nodes] == [CloudState.RUNNING]
    assert len(rig.lines("node.created")) == 1


def test_no_worker_waits_for_a_slow_create(make_rig: MakeRig) -> None:
    """U13."""
    rig = slow(make_rig, 600.0, min_nodes=8, max_nodes=8, max_creates=1)
    rig.start()
    rig.turn(POLL_S)
    assert rig.cloud.calls["create"] == 8
    assert not rig.lines("node.created")


def test_a_cloud_that_never_tells_leaves_the_node_to_the_listings(make_rig: MakeRig) -> None:
    """C8: after action_timeout it counts as created."""
    rig = slow(make_rig, 1e6, action_timeout=200)
    rig.start()
    rig.turn(300)
    (expired,) = rig.lines("flight.expired")
    assert expired["action"] == "setup"
    assert len(rig.lines("node.created")) == 1
