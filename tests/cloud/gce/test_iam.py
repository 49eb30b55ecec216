"""etc/iam/gce.yaml allows what the adapter calls, and nothing more."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from nodemanager.core.model.world import Tags
from tests.cloud.gce.helpers import add_disk, by_hand, cloud, order
from tests.cloud.gce.server import GceServer

pytestmark = pytest.mark.socket

ROLE = Path(__file__).parents[3] / "etc/iam/gce.yaml"

NEEDS: dict[str, set[str]] = {
    "disks.aggregatedList": {"disks.list"},
    "disks.delete": {"disks.delete"},
    "disks.get": {"disks.get"},
    "images.get": {"images.get"},
    "images.getFromFamily": {"images.getFromFamily"},
    "instances.aggregatedList": {"instances.list"},
    "instances.delete": {"instances.delete"},
    "instances.get": {"instances.get"},
    "instances.insert": {
        *("instances.create", "instances.setLabels", "instances.setMetadata", "instances.setTags"),
        *("instances.setServiceAccount", "disks.create", "disks.setLabels", "images.useReadOnly"),
        *("subnetworks.use", "subnetworks.useExternalIp"),
    },
    "instances.setLabels": {"instances.setLabels"},
    "projects.get": {"projects.get"},
    "zoneOperations.wait": {"zoneOperations.get"},
    "zones.get": {"zones.get"},
}
"""The permissions that Google's reference names for a method, without `compute.`; for an insert
those of the fields that are sent."""


def called_by_everything(gce: GceServer) -> set[str]:
    ours = cloud(gce, listing={"tags": "compute"}, create={"service_account_name": "a@b"})
    ours.account()
    ours.list_sizes()
    ours.check_image()
    made = ours.create(order(record="zzzzz-7ekkf-000000000000001"))
    ours.list_nodes()
    ours.find_by_record("zzzzz-7ekkf-000000000000001")
    ours.adopt(by_hand(gce), Tags("blue"))
    add_disk(gce, made)
    (pinned,) = ours.pins(made.id)
    ours.destroy(made.id)
    ours.ask(made.id)
    ours.find_leftovers()
    ours.release(pinned)
    return {call.method for call in gce.calls}


def test_the_role_allows_every_call_and_nothing_more(gce: GceServer) -> None:
    called = called_by_everything(gce)
    assert called == set(NEEDS)
    allowed = re.findall(r"^- compute\.(\S+)$", ROLE.read_text(encoding="utf-8"), re.MULTILINE)
    assert len(allowed) == len(set(allowed))
    assert set(allowed) == {one for method in called for one in NEEDS[method]}
