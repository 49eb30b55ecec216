"""What `check-cloud` asks Google: each missing permission by name, and what boots would fail of."""

from __future__ import annotations

from typing import Any

import pytest

from nodemanager.cloud.checks import CheckStatus, Found, Wanted
from nodemanager.cloud.endpoint import Endpoint
from nodemanager.cloud.gce.checks import Rights
from nodemanager.cloud.token import TokenSource
from nodemanager.core.model.world import Size
from tests.cloud.asking import asked
from tests.cloud.gce.auth import ACCOUNT, COMPUTE, key_file
from tests.cloud.gce.helpers import POOL, SMALL, cloud, order, role_at
from tests.cloud.gce.project import IMAGES, NAME
from tests.cloud.gce.server import GceServer, changed, plain, refusal

pytestmark = pytest.mark.socket

RUNS_AS = "node@example.iam.gserviceaccount.com"


def answers(gce: GceServer, *sizes: Size, **create: str) -> dict[str, Found]:
    found = asked(cloud(gce, create=create), Wanted(POOL, sizes or (SMALL,)))
    assert gce.wrong == []
    return found


def by_role(gce: GceServer, monkeypatch: pytest.MonkeyPatch) -> dict[str, Found]:
    """The answers on an instance of Google's, whose own account is used."""
    role_at(f"127.0.0.1:{gce.port}", monkeypatch)
    credentials = {"auth_type": "GCE", "project": NAME, "key": ""}
    return asked(cloud(gce, credentials=credentials), Wanted(POOL, (SMALL,)))


def test_where_all_is_well_every_check_says_so_and_nothing_is_changed(gce: GceServer) -> None:
    found = answers(gce, service_account_name=RUNS_AS, boot_disk_type="pd-ssd")
    assert {name: one for name, one in found.items() if one.mark is not CheckStatus.FINE} == {}
    assert ACCOUNT in found["service account"].text
    assert "id 7000, READY" in found["image id"].text
    sent = {call.method for call in gce.calls}
    assert {one for one in sent if not one.endswith((".get", ".testIamPermissions"))} == {
        "images.getFromFamily"
    }


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


def test_an_instance_s_own_account_is_named_with_its_scopes(
    gce: GceServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = by_role(gce, monkeypatch)
    assert ACCOUNT in found["service account"].text
    assert COMPUTE in found["service account"].text
    # This scope lets nobody ask the Resource Manager.
    assert found["permissions to boot nodes"].mark is CheckStatus.NOT_ASKED
    assert "scope cloud-platform" in found["permissions to boot nodes"].to_do


def test_a_scope_that_boots_nothing_fails_whatever_the_role(
    gce: GceServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    gce.tokens.scopes = (f"{COMPUTE}.readonly",)
    found = by_role(gce, monkeypatch)
    assert found["service account"].mark is CheckStatus.FAILED
    assert "compute-rw" in found["service account"].to_do


def test_an_api_that_is_not_enabled_is_no_failure(gce: GceServer) -> None:
    message = "Cloud Resource Manager API has not been used in project 1 before or it is disabled."
    gce.fault(
        "cloudresourcemanager.projects.testIamPermissions",
        before=refusal("accessNotConfigured", 403, message),
        times=9,
    )
    found = answers(gce)["permissions to boot nodes"]
    assert found.mark is CheckStatus.NOT_ASKED
    assert "gcloud services enable" in found.to_do


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
    machine = found["machine type n1-standard-1"]
    assert machine.mark is CheckStatus.NOT_ASKED
    assert machine.text == "needs compute.machineTypes.get"
    assert "etc/iam/gce-check.yaml" in machine.to_do
    assert CheckStatus.FAILED not in {one.mark for one in found.values()}


def test_an_error_of_one_check_stops_no_other(gce: GceServer) -> None:
    gce.fault("zones.get", before=plain(503, "<html>no</html>"), times=1)
    gce.fault("images.getFromFamily", before=lambda: None, times=1)
    found = answers(gce)
    failed = {name for name, one in found.items() if one.mark is CheckStatus.FAILED}
    assert failed == {"image id", "zone"}
    assert found["machine type n1-standard-1"].mark is CheckStatus.FINE


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


@pytest.mark.parametrize(
    ("field", "value", "mark", "said"),
    [
        pytest.param("status", "PENDING", CheckStatus.FAILED, "PENDING", id="not-ready"),
        pytest.param(
            "deprecated",
            {"state": "DEPRECATED"},
            CheckStatus.WARNING,
            "DEPRECATED",
            id="deprecated",
        ),
        pytest.param(
            "deprecated", {"state": "OBSOLETE"}, CheckStatus.FAILED, "OBSOLETE", id="obsolete"
        ),
        pytest.param("diskSizeGb", "30", CheckStatus.FAILED, "boot_disk_gb = 20", id="too-large"),
    ],
)
def test_an_image_that_nodes_can_t_boot_from_is_told(
    gce: GceServer, field: str, value: object, mark: CheckStatus, said: str
) -> None:
    (name,) = IMAGES[NAME]
    # Once to find it, once to read it.
    gce.fault("images.get", after=changed(lambda told: told.update({field: value})), times=2)
    found = answers(gce, image=name, boot_disk_gb="20")["image id"]
    assert found.mark is mark
    assert said in found.text
    assert found.to_do


def test_an_image_that_is_not_there_is_told(gce: GceServer) -> None:
    found = answers(gce, image="debian-99")
    assert found["image id"].mark is CheckStatus.FAILED


def test_an_own_image_is_found_by_its_name(gce: GceServer) -> None:
    (name,) = IMAGES[NAME]
    assert f"{NAME}/{name}, id" in answers(gce, image=name)["image id"].text


@pytest.mark.parametrize(
    ("size", "mark", "said"),
    [
        pytest.param(
            Size("new", "n9-standard-1", 1, 1024),
            CheckStatus.FAILED,
            "us-central1-a has no n9-standard-1",
            id="unknown",
        ),
        pytest.param(
            Size("big", "n1-standard-1", 8, 1024),
            CheckStatus.WARNING,
            "[Size big]",
            id="fewer-cores",
        ),
        pytest.param(
            Size("big", "n1-standard-1", 1, 9999),
            CheckStatus.WARNING,
            "[Size big]",
            id="less-memory",
        ),
    ],
)
def test_a_size_that_the_zone_lacks_or_that_has_less_is_told(
    gce: GceServer, size: Size, mark: CheckStatus, said: str
) -> None:
    found = answers(gce, size)[f"machine type {size.instance_type}"]
    assert found.mark is mark
    assert said in found.text


def test_a_machine_of_another_processor_than_the_image_is_told(gce: GceServer) -> None:
    gce.fault("machineTypes.get", after=changed(lambda told: told.update(architecture="ARM64")))
    found = answers(gce)["machine type n1-standard-1"]
    assert found.mark is CheckStatus.FAILED
    assert "ARM64" in found.text


def test_a_zone_that_is_down_and_one_that_is_not_there_are_told(gce: GceServer) -> None:
    gce.fault("zones.get", after=changed(lambda told: told.update(status="DOWN")))
    assert answers(gce)["zone"].mark is CheckStatus.WARNING
    assert answers(gce, zone="us-central1-z")["zone"].mark is CheckStatus.FAILED
