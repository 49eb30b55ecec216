"""etc/iam allows what the adapter calls, and nothing more; what only the checks read is apart."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest

from nodemanager.cloud.checks import Wanted
from nodemanager.core.model.world import Tags
from tests.cloud.asking import asked
from tests.cloud.gce.helpers import SMALL, add_disk, by_hand, cloud, order
from tests.cloud.gce.server import GceServer

pytestmark = pytest.mark.socket

IAM = Path(__file__).parents[3] / "etc/iam"

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
    ours.image()
    ours.find_by_record("zzzzz-7ekkf-000000000000001")
    ours.adopt(by_hand(gce), Tags("blue"))
    add_disk(gce, made)
    (pinned,) = ours.pins(made.id)
    ours.destroy(made.id)
    ours.ask(made.id)
    ours.find_leftovers()
    ours.release(pinned)
    return {call.action for call in gce.calls}


def allowed_by(name: str) -> set[str]:
    allowed = re.findall(r"^- compute\.(\S+)$", (IAM / name).read_text("utf-8"), re.MULTILINE)
    assert len(allowed) == len(set(allowed))
    return set(allowed)


def test_the_role_allows_every_call_and_nothing_more(gce: GceServer) -> None:
    called = called_by_everything(gce)
    assert called == set(NEEDS)
    assert allowed_by("gce.yaml") == {one for method in called for one in NEEDS[method]}


def test_the_checks_ask_for_every_permission_of_the_role_by_name(gce: GceServer) -> None:
    asked(cloud(gce, create={"service_account_name": "a@b"}), Wanted("blue", (SMALL,)))
    asked_for = {
        name
        for call in gce.calls
        if call.action.endswith("testIamPermissions")
        for name in call.body["permissions"]
    }
    # The image is looked for by those two themselves; image and subnet may be of another project.
    looked = {"images.get", "images.getFromFamily", "images.useReadOnly"}
    looked |= {"subnetworks.use", "subnetworks.useExternalIp"}
    assert asked_for == {f"compute.{name}" for name in allowed_by("gce.yaml") - looked}


def test_what_only_the_checks_read_is_in_a_role_of_its_own(gce: GceServer) -> None:
    size = replace(SMALL, places=("us-central1-x",))
    asked(cloud(gce), Wanted("blue", (size,)))
    # Google wants no permission for a question about permissions.
    called = {call.action for call in gce.calls if not call.action.endswith("testIamPermissions")}
    assert allowed_by("gce-check.yaml") == called - NEEDS.keys()
