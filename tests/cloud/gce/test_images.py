"""Which image an instance was booted from, and which one new ones get (D15)."""

from __future__ import annotations

import pytest

from nodemanager.core.model.world import Tags
from nodemanager.errors import Unauthorized
from tests.cloud.gce.helpers import POOL, by_hand, cloud, newer_image, order
from tests.cloud.gce.server import GceServer, refusal

pytestmark = pytest.mark.socket
DISKS = "disks.aggregatedList"


def test_one_listing_of_disks_tells_all_images_and_none_is_sent_once_they_are_known(
    gce: GceServer,
) -> None:
    ours = cloud(gce)
    for _ in range(3):
        ours.create(order())
    ours.list_nodes()
    wanted = ours.image()
    assert {node.image for node in ours.list_nodes().items} == {wanted}
    ours.image()
    assert len(gce.called(DISKS)) == 1
    newest = ours.create(order())
    ours.list_nodes()
    ours.image()
    assert len(gce.called(DISKS)) == 2
    images = {node.id: node.image for node in ours.list_nodes().items}
    assert images[newest.id] == wanted


def test_without_nodes_no_disks_are_listed(gce: GceServer) -> None:
    ours = cloud(gce)
    ours.list_nodes()
    assert ours.image() == "7000"
    assert gce.called(DISKS) == []


def test_an_adopted_instance_whose_disk_has_no_label_has_no_known_image(gce: GceServer) -> None:
    ours = cloud(gce)
    node_id = by_hand(gce, disks=[{"boot": True, "initializeParams": {"diskSizeGb": "10"}}])
    ours.adopt(node_id, Tags(POOL))
    ours.list_nodes()
    ours.image()
    (node,) = ours.list_nodes().items
    assert (node.id, node.image, node.problems) == (node_id, None, ())


def test_an_instance_without_a_boot_disk_has_no_known_image(gce: GceServer) -> None:
    by_hand(gce, labels={"nodemanager-pool": POOL})
    ours = cloud(gce)
    ours.list_nodes()
    ours.image()
    (node,) = ours.list_nodes().items
    assert (node.image, node.problems) == (None, ())
    assert gce.called(DISKS) == []


@pytest.mark.parametrize("method", [DISKS, "images.getFromFamily"])
def test_without_the_right_to_ask_no_image_is_told(gce: GceServer, method: str) -> None:
    ours = cloud(gce)
    ours.check_image()
    ours.create(order())
    ours.list_nodes()
    gce.fault(method, times=9, before=refusal("forbidden", 403))
    with pytest.raises(Unauthorized):
        ours.image()


def test_an_image_given_by_name_stays_where_its_family_goes_on(gce: GceServer) -> None:
    path = "projects/debian-cloud/global/images/debian-12-bookworm-v20260901"
    ours = cloud(gce, create={"image": path})
    newer_image(gce)
    assert (ours.image(), cloud(gce).image()) == ("7000", "7001")
