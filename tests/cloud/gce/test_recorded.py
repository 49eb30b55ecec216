"""Google's own answers, as libcloud recorded them, through the real adapter on a socket.

They are of 2013 and later, without labels and without state: what they lack is said in each test.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import libcloud
import pytest

from nodemanager.cloud.api import CloudDriver
from nodemanager.core.model.world import CloudState
from tests.cloud.gce import auth as gce_auth
from tests.cloud.gce.helpers import ZONE, cloud, order
from tests.cloud.gce.server import GceServer, plain, refusal

pytestmark = pytest.mark.socket
RECORDED = Path(libcloud.__file__).parent / "test/compute/fixtures/gce"
PROJECT = "project-name"
INSERTED = "16630486471904253898"


def text(name: str) -> str:
    """libcloud gave the project and the operations names that Google would not; here they are none
    of libcloud's."""
    recorded = (RECORDED / f"{name}.json").read_text(encoding="utf-8")
    return re.sub(r'"operation-[^"]+"', '"operation-1"', recorded.replace("project_name", PROJECT))


def replay(gce: GceServer, **answers: str) -> CloudDriver:
    """An adapter that is answered so; a method's dot is written as two underscores."""
    for method, name in answers.items():
        gce.fault(method.replace("__", "."), times=9, before=plain(200, text(name)))
    return cloud(
        gce,
        credentials={"key": gce_auth.key_file(PROJECT)},
        # Without a label of ours, all of them are listed by their zone alone.
        listing={"zone": ZONE},
        create={"image": "projects/debian-cloud/global/images/family/debian-12"},
    )


def instances() -> list[dict[str, Any]]:
    scopes = json.loads(text("aggregated_instances"))["items"].values()
    return [one for scope in scopes for one in scope.get("instances", ())]


def test_a_listing_has_the_instances_of_its_zone(gce: GceServer) -> None:
    ours = replay(gce, instances__aggregatedList="aggregated_instances")
    listing = ours.list_nodes()
    here = [one for one in instances() if one["zone"].endswith(f"/{ZONE}")]
    assert listing.complete
    assert listing.problems == ()
    assert [(node.id, node.name) for node in listing.items] == [
        (one["id"], one["name"]) for one in here
    ]
    for node in listing.items:
        assert (node.state, node.managed, node.tags.pool) == (CloudState.RUNNING, True, None)
        assert node.created_at is not None
        assert node.size == "n1-standard-1"
        assert len(node.addresses) == 2


def test_an_id_finds_its_instance_in_every_zone(gce: GceServer) -> None:
    assert len(instances()) > 5
    for one in instances():
        seen = replay(gce, instances__aggregatedList="aggregated_instances").ask(one["id"])
        assert seen is not None
        assert seen.name == one["name"]


def test_an_operation_that_tells_its_target_only_once_it_is_done_is_understood(
    gce: GceServer,
) -> None:
    ours = replay(
        gce,
        instances__insert="zones_us-central1-a_instances_post",
        zoneOperations__get="operations_operation_zones_us-central1-a_instances_post",
    )
    # No image is recorded that fits.
    gce.fault("images.getFromFamily", times=9, before=refusal("forbidden", 403))
    made = ours.create(order())
    assert (made.id, made.state, made.pending) == (INSERTED, CloudState.PENDING, "")
