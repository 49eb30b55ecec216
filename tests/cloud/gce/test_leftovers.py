"""Disks that outlive an instance of Google's: named, found again and released in order (D4)."""

from __future__ import annotations

from typing import Any

import pytest

from nodemanager.core.model.world import Leftover, LeftoverKind, Outcome
from nodemanager.errors import IncompleteListing, LeftAlone, Throttled
from tests.cloud.gce.helpers import POOL, ZONE, add_disk, by_hand, cloud, order
from tests.cloud.gce.server import GceServer, changed, refusal

pytestmark = pytest.mark.socket

VOLUME = LeftoverKind.VOLUME


def labels_of(gce: GceServer, disk: str) -> dict[str, str]:
    found: dict[str, str] = gce.project.disks[ZONE, disk.rpartition("/")[2]]["labels"]
    return found


def test_a_boot_disk_that_goes_with_its_node_is_no_leftover(gce: GceServer) -> None:
    ours = cloud(gce)
    assert ours.pins(ours.create(order()).id) == ()


def test_a_boot_disk_that_somebody_made_stay_is_one(gce: GceServer) -> None:
    ours = cloud(gce)
    made = ours.create(order())
    gce.project.instance(ZONE, made.id)["disks"][0]["autoDelete"] = False
    (pinned,) = ours.pins(made.id)
    ours.destroy(made.id)
    gce.project.settle()
    assert ours.find_leftovers() == (Leftover(VOLUME, pinned.id, ""),)
    assert ours.release(pinned) is Outcome.ACCEPTED
    assert ours.release(pinned) is Outcome.GONE
    assert ours.find_leftovers() == ()


@pytest.mark.parametrize(
    "labels",
    [
        pytest.param({}, id="no-label"),
        pytest.param({"nodemanager-pool": POOL}, id="the-pools-alone"),
        pytest.param({"nodemanager-incarnation": "f" * 32}, id="incarnation-alone"),
        pytest.param(
            {"nodemanager-pool": "other", "nodemanager-incarnation": "f" * 32}, id="another-pools"
        ),
    ],
)
def test_an_operators_own_disk_is_never_named_or_released(
    gce: GceServer, labels: dict[str, str]
) -> None:
    ours = cloud(gce)
    made = ours.create(order())
    disk = add_disk(gce, made, labels)
    assert ours.pins(made.id) == ()
    ours.destroy(made.id)
    gce.project.settle()
    assert ours.find_leftovers() == ()
    with pytest.raises(LeftAlone):
        ours.release(Leftover(VOLUME, disk, made.id))
    assert (ZONE, disk.rpartition("/")[2]) in gce.project.disks


def test_a_disk_on_hold_is_left_alone(gce: GceServer) -> None:
    ours = cloud(gce)
    made = ours.create(order())
    disk = add_disk(gce, made)
    (pinned,) = ours.pins(made.id)
    labels_of(gce, disk)["nodemanager-hold"] = "yes"
    assert ours.pins(made.id) == ()
    ours.destroy(made.id)
    gce.project.settle()
    assert ours.find_leftovers() == ()
    with pytest.raises(LeftAlone, match="held"):
        ours.release(pinned)


def test_the_disk_of_a_node_that_lives_is_left_alone(gce: GceServer) -> None:
    ours = cloud(gce)
    made = ours.create(order())
    disk = add_disk(gce, made)
    gce.project.disks[ZONE, disk.rpartition("/")[2]]["users"] = []
    assert ours.find_leftovers() == ()
    for node_id in (made.id, ""):
        with pytest.raises(LeftAlone, match="RUNNING"):
            ours.release(Leftover(VOLUME, disk, node_id))
    gce.project.put(made.id, "TERMINATED")
    with pytest.raises(LeftAlone, match="TERMINATED"):
        ours.release(Leftover(VOLUME, disk, made.id))


def test_while_its_node_is_being_deleted_a_disk_waits(gce: GceServer) -> None:
    ours = cloud(gce)
    made = ours.create(order())
    add_disk(gce, made)
    (pinned,) = ours.pins(made.id)
    gce.project.takes = 1000.0
    ours.destroy(made.id)
    assert ours.release(pinned) is Outcome.ACCEPTED
    assert gce.called("disks.delete") == []


def test_a_disk_that_another_instance_uses_now_is_left_alone(gce: GceServer) -> None:
    ours = cloud(gce)
    made = ours.create(order())
    disk = add_disk(gce, made)
    (pinned,) = ours.pins(made.id)
    ours.destroy(made.id)
    gce.project.settle()
    other = by_hand(gce, name="another")
    gce.project.attach(ZONE, other, {"source": gce.project.link(disk)})
    gce.project.settle()
    assert ours.find_leftovers() == ()
    with pytest.raises(LeftAlone, match="another"):
        ours.release(pinned)


def test_a_disk_that_comes_into_use_as_it_is_deleted_stays(gce: GceServer) -> None:
    ours = cloud(gce)
    made = ours.create(order())
    add_disk(gce, made)
    (pinned,) = ours.pins(made.id)
    ours.destroy(made.id)
    gce.project.settle()
    gce.fault("disks.delete", before=refusal("resourceInUseByAnotherResource", 400))
    assert ours.release(pinned) is Outcome.ACCEPTED
    gce.fault("disks.delete", before=refusal("rateLimitExceeded", 403))
    with pytest.raises(Throttled):
        ours.release(pinned)


def test_an_answer_that_may_lack_disks_or_nodes_finds_no_leftover(gce: GceServer) -> None:
    ours = cloud(gce)
    made = ours.create(order())
    add_disk(gce, made)
    ours.destroy(made.id)
    gce.project.settle()
    assert len(ours.find_leftovers()) == 1
    gce.project.unreachable = {"europe-west4-a"}
    with pytest.raises(IncompleteListing):
        ours.find_leftovers()


def test_a_node_whose_labels_cant_be_read_might_own_any_disk(gce: GceServer) -> None:
    ours = cloud(gce)
    ended = ours.create(order())
    ours.create(order())
    add_disk(gce, ended)
    ours.destroy(ended.id)
    gce.project.settle()
    assert len(ours.find_leftovers()) == 1

    def spoil(told: Any) -> None:
        for zone in told["items"].values():
            for one in zone.get("instances", ()):
                one["labels"] = ["x"]

    gce.fault("instances.aggregatedList", after=changed(spoil))
    with pytest.raises(IncompleteListing):
        ours.find_leftovers()


def test_a_disk_whose_node_is_unknown_is_left_alone(gce: GceServer) -> None:
    """Neither the ledger nor a label says which node it was made for."""
    ours = cloud(gce)
    made = ours.create(order())
    disk = add_disk(gce, made)
    ours.destroy(made.id)
    gce.project.settle()
    labels_of(gce, disk).clear()
    with pytest.raises(LeftAlone, match="is unknown"):
        ours.release(Leftover(VOLUME, disk, "", tagged=False))
    assert gce.called("disks.delete") == []


@pytest.mark.parametrize("odd", ["", "../x", "zones/a/instances/b", "123", "zones/z/disks/A.b"])
def test_what_can_be_no_disk_is_gone_and_asked_for_by_nobody(gce: GceServer, odd: str) -> None:
    ours = cloud(gce)
    ours.account()
    before = len(gce.calls)
    assert ours.release(Leftover(VOLUME, odd, "")) is Outcome.GONE
    assert len(gce.calls) == before
