"""Disks that outlive an instance of Google's: named, found again and released in order (D4)."""

from __future__ import annotations

import pytest

from nodemanager.core.model.world import Leftover, LeftoverKind, Outcome
from tests.cloud.gce.helpers import ZONE, cloud, order
from tests.cloud.gce.server import GceServer

pytestmark = pytest.mark.socket

VOLUME = LeftoverKind.VOLUME


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


@pytest.mark.parametrize("odd", ["", "../x", "zones/a/instances/b", "123", "zones/z/disks/A.b"])
def test_what_can_be_no_disk_is_gone_and_asked_for_by_nobody(gce: GceServer, odd: str) -> None:
    ours = cloud(gce)
    ours.account()
    before = len(gce.calls)
    assert ours.release(Leftover(VOLUME, odd, "")) is Outcome.GONE
    assert len(gce.calls) == before
