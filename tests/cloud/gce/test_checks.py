"""What `check-cloud` asks Google: each missing permission by name, and what boots would fail of."""

from __future__ import annotations

from typing import Any

import pytest

from nodemanager.cloud.checks import CheckStatus, Found, Wanted
from nodemanager.cloud.declared import Endpoint
from nodemanager.cloud.gce.checks import Rights
from nodemanager.cloud.transport import TokenSource
from nodemanager.core.model.world import Size
from tests.cloud.asking import asked
from tests.cloud.gce.auth import key_file
from tests.cloud.gce.helpers import POOL, SMALL, cloud, order
from tests.cloud.gce.server import GceServer, changed, refusal

pytestmark = pytest.mark.socket

RUNS_AS = "node@example.iam.gserviceaccount.com"


def answers(gce: GceServer, *sizes: Size, **create: str) -> dict[str, Found]:
    return asked(cloud(gce, create=create), Wanted(POOL, sizes or (SMALL,)))


def test_where_all_is_well_every_check_says_so_and_nothing_is_changed(gce: GceServer) -> None:
    found = answers(gce, service_account_name=RUNS_AS, boot_disk_type="pd-ssd")
    assert {name: one for name, one in found.items() if one.mark is not CheckStatus.FINE} == {}
    sent = {call.action for call in gce.calls}
    assert all(one.endswith((".get", ".testIamPermissions")) for one in sent)


@pytest.mark.parametrize(
    ("permission", "check"),
    [
        ("compute.instances.list", "permissions to see what exists"),
        ("compute.instances.create", "permissions to boot nodes"),
        ("compute.instances.setServiceAccount", "permissions to boot nodes"),
        ("compute.disks.delete", "permissions to end nodes"),
        ("compute.instances.delete", "permissions to end nodes"),
    ],
)
def test_a_missing_permission_is_named(gce: GceServer, permission: str, check: str) -> None:
    gce.denied = {permission}
    found = answers(gce, service_account_name=RUNS_AS)
    assert [name for name, one in found.items() if one.mark is CheckStatus.FAILED] == [check]
    assert permission in found[check].text
    assert found[check].to_do


def test_a_role_for_the_pool_s_nodes_alone_is_asked_about_on_a_node(gce: GceServer) -> None:
    ours = cloud(gce)
    node = ours.create(order())
    found = asked(ours, Wanted(POOL, (SMALL,), (node.id,)))
    assert "compute.instances.delete" in found["permissions on a node"].text
    assert "compute.instances.delete" not in found["permissions to end nodes"].text
    (call,) = gce.called("instances.testIamPermissions")
    assert call.path["resource"] == node.id

    gce.denied = {"compute.instances.delete"}
    found = asked(ours, Wanted(POOL, (SMALL,), (node.id,)))
    assert found["permissions on a node"].mark is CheckStatus.FAILED


def test_an_api_that_is_not_enabled_is_no_failure(gce: GceServer) -> None:
    message = "Cloud Resource Manager API has not been used in project 1 before or it is disabled."
    gce.fault(
        "cloudresourcemanager.projects.testIamPermissions",
        before=refusal("accessNotConfigured", 403, message),
        times=9,
    )
    found = answers(gce)["permissions to boot nodes"]
    assert found.mark is CheckStatus.NOT_ASKED
    assert "it is disabled" in found.text


def test_a_question_that_the_resource_manager_does_not_take_is_no_failure(gce: GceServer) -> None:
    message = "Permission compute.zones.get is not valid for this resource."
    gce.fault(
        "cloudresourcemanager.projects.testIamPermissions",
        before=refusal("badRequest", 400, message),
    )
    found = answers(gce)
    assert found["permissions to see what exists"].mark is CheckStatus.NOT_ASKED
    assert "compute.zones.get" in found["permissions to see what exists"].text
    assert found["permissions to boot nodes"].mark is CheckStatus.FINE


def test_what_only_these_checks_read_is_no_failure_where_it_is_not_allowed(gce: GceServer) -> None:
    message = "Required 'compute.machineTypes.get' permission for 'projects/some-project'"
    gce.fault("machineTypes.get", before=refusal("forbidden", 403, message), times=9)
    found = answers(gce)
    machine = found["offer of n1-standard-1"]
    assert machine.mark is CheckStatus.NOT_ASKED
    assert "compute.machineTypes.get" in machine.text
    assert "etc/iam/gce-check.yaml" in machine.to_do
    assert CheckStatus.FAILED not in {one.mark for one in found.values()}


@pytest.mark.parametrize(
    ("compute", "other"),
    [
        ("https://compute.googleapis.com", "https://cloudresourcemanager.googleapis.com:443"),
        (
            "https://compute-inside.p.googleapis.com",
            "https://cloudresourcemanager-inside.p.googleapis.com:443",
        ),
        ("https://gateway.example.org/api", "https://gateway.example.org:443/api"),
    ],
)
def test_the_resource_manager_is_asked_beside_the_compute_api(compute: str, other: str) -> None:
    asked_at: list[str] = []

    def connect(endpoint: Endpoint, tokens: TokenSource) -> Any:
        asked_at.append(str(endpoint))
        raise ConnectionError

    ours: Any = cloud(compute, credentials={"endpoint": compute, "key": key_file()})
    with pytest.raises(ConnectionError):
        Rights(ours._provider.access, connect).on_project(("compute.zones.get",))
    assert asked_at == [other]


# What nodes are made of.


def test_a_zone_that_is_down_and_one_that_is_not_there_are_told(gce: GceServer) -> None:
    gce.fault("zones.get", after=changed(lambda told: told.update(status="DOWN")))
    assert answers(gce)["place us-central1-a"].mark is CheckStatus.WARNING
    found = answers(gce, zone="us-central1-z")["place us-central1-z"]
    assert found.mark is CheckStatus.FAILED
