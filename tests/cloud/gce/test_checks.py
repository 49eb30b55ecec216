"""What `check-cloud` asks Google: each missing permission by name, and what boots would fail of."""

from __future__ import annotations

from typing import Any

import pytest

from nodemanager.cloud.checks import CheckStatus, Found, Wanted
from nodemanager.cloud.endpoint import Endpoint
from nodemanager.cloud.gce.rights import Rights
from nodemanager.cloud.token import TokenSource
from nodemanager.core.model.world import Size
from tests.cloud.asking import asked
from tests.cloud.gce.account import CUSTOM
from tests.cloud.gce.auth import ACCOUNT, COMPUTE, key_file
from tests.cloud.gce.helpers import IMAGE, POOL, SMALL, cloud, order, role_at
from tests.cloud.gce.project import IMAGES, NAME
from tests.cloud.gce.server import GceServer, changed, plain, refusal

pytestmark = pytest.mark.socket

RUNS_AS = "node@example.iam.gserviceaccount.com"
SPOT = Size("spot", "n1-standard-1", 1, 3840, preemptible=True)
N2 = Size("n2-standard-4", "n2-standard-4", 4, 16384)


def answers(
    gce: GceServer, *sizes: Size, max_nodes: int = 2, nodes: tuple[str, ...] = (), **create: str
) -> dict[str, Found]:
    wanted = Wanted(POOL, sizes or (SMALL,), max_nodes, nodes)
    found = asked(cloud(gce, create=create), wanted)
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
        ("compute.images.useReadOnly", "permission to use the image"),
        ("compute.subnetworks.useExternalIp", "permission to use the subnet"),
        ("iam.serviceAccounts.actAs", f"permission to act as {RUNS_AS}"),
    ],
)
def test_a_missing_permission_is_named(gce: GceServer, permission: str, check: str) -> None:
    gce.account.denied = {permission}
    found = answers(gce, service_account_name=RUNS_AS)
    assert [name for name, one in found.items() if one.mark is CheckStatus.FAILED] == [check]
    assert permission in found[check].text
    assert found[check].to_do


def test_a_role_for_the_pool_s_nodes_alone_is_asked_about_on_a_node(gce: GceServer) -> None:
    ours = cloud(gce)
    node = ours.create(order())
    found = asked(ours, Wanted(POOL, (SMALL,), 2, (node.id,)))
    assert "compute.instances.delete" in found["permissions on a node"].text
    assert "compute.instances.delete" not in found["permissions to end nodes"].text
    (call,) = gce.called("instances.testIamPermissions")
    assert call.path["resource"] == node.id

    gce.account.denied = {"compute.instances.delete"}
    found = asked(ours, Wanted(POOL, (SMALL,), 2, (node.id,)))
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
    assert found["permission to use the subnet"].mark is CheckStatus.FINE


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
    names = {
        "machineTypes.get": "machine type n1-standard-1",
        "networks.get": "subnet",
        "regions.get": "quota CPUS",
    }
    for method in names:
        message = f"Required 'compute.{method}' permission for 'projects/some-project'"
        gce.fault(method, before=refusal("forbidden", 403, message), times=9)
    found = answers(gce)
    for method, name in names.items():
        assert found[name].mark is CheckStatus.NOT_ASKED
        assert found[name].text == f"needs compute.{method}"
        assert "etc/iam/gce-check.yaml" in found[name].to_do
    assert CheckStatus.FAILED not in {one.mark for one in found.values()}


def test_an_error_of_one_check_stops_no_other(gce: GceServer) -> None:
    gce.fault("regions.get", before=plain(503, "<html>no</html>"), times=1)
    gce.fault("images.getFromFamily", before=lambda: None, times=1)
    found = answers(gce)
    failed = {name for name, one in found.items() if one.mark is CheckStatus.FAILED}
    assert failed == {"image id", "quota INSTANCES"}
    assert found["quota CPUS"].mark is CheckStatus.FINE


@pytest.mark.parametrize(
    ("compute", "iam"),
    [
        ("https://compute.googleapis.com", "https://iam.googleapis.com:443"),
        ("https://compute-inside.p.googleapis.com", "https://iam-inside.p.googleapis.com:443"),
        ("https://gateway.example.org/api", "https://gateway.example.org:443/api"),
    ],
)
def test_google_s_other_apis_are_asked_beside_the_compute_api(compute: str, iam: str) -> None:
    asked_at: list[str] = []

    def connect(endpoint: Endpoint, tokens: TokenSource) -> Any:
        asked_at.append(str(endpoint))
        raise ConnectionError

    ours: Any = cloud(compute, credentials={"endpoint": compute, "key": key_file()})
    with pytest.raises(ConnectionError):
        Rights(ours._provider.access, connect).on_account(RUNS_AS)
    assert asked_at == [iam]


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
    assert found["permission to use the image"].mark is CheckStatus.NOT_ASKED


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


def test_a_type_of_disk_that_is_not_there_is_told(gce: GceServer) -> None:
    scratch = Size("scratch", "n1-standard-1", 1, 3840, scratch_mb=400_000)
    found = answers(gce, scratch, boot_disk_type="pd-fast")
    assert found["disk type pd-fast"].mark is CheckStatus.FAILED
    assert found["disk type local-ssd"].mark is CheckStatus.FINE
    # Two whole local SSDs for each node.
    assert "room for 8 more scratch" in found["quota LOCAL_SSD_TOTAL_GB"].text


@pytest.mark.parametrize(
    ("create", "mark", "said"),
    [
        pytest.param({"network": CUSTOM}, CheckStatus.FAILED, "none is named", id="none-named"),
        pytest.param({"network": "nowhere"}, CheckStatus.FAILED, "was not found", id="no-network"),
        pytest.param({"subnet": "nowhere"}, CheckStatus.FAILED, "was not found", id="no-subnet"),
        pytest.param(
            {"subnet": "regions/europe-west4/subnetworks/default"},
            CheckStatus.FAILED,
            "the zone is of us-central1",
            id="another-region",
        ),
        pytest.param(
            {"subnet": "default", "network": CUSTOM},
            CheckStatus.FAILED,
            "network = own",
            id="network",
        ),
        pytest.param(
            {"subnet": CUSTOM, "network": CUSTOM},
            CheckStatus.WARNING,
            "fewer addresses",
            id="too-small",
        ),
        pytest.param({"subnet": "default"}, CheckStatus.FINE, "network default", id="fine"),
    ],
)
def test_the_subnet_is_looked_up(
    gce: GceServer, create: dict[str, str], mark: CheckStatus, said: str
) -> None:
    found = answers(gce, max_nodes=5, **create)["subnet"]
    assert found.mark is mark
    assert said in found.text
    assert bool(found.to_do) is (mark is not CheckStatus.FINE)


def test_a_network_without_a_subnet_in_the_region_is_told(gce: GceServer) -> None:
    gce.fault("networks.get", after=changed(lambda told: told["subnetworks"].pop(0)))
    assert "no subnet in us-central1" in answers(gce)["subnet"].text


# Quotas.


@pytest.mark.parametrize(
    ("used", "max_nodes", "nodes", "mark"),
    [
        pytest.param(20, 4, 0, CheckStatus.FINE, id="just-enough"),
        pytest.param(20, 5, 0, CheckStatus.WARNING, id="one-too-few"),
        pytest.param(20, 5, 1, CheckStatus.FINE, id="with-those-that-run"),
        pytest.param(24, 1, 0, CheckStatus.FAILED, id="not-even-one"),
        pytest.param(24, 2, 1, CheckStatus.WARNING, id="no-more-than-the-one-that-runs"),
        pytest.param(24, 1, 1, CheckStatus.FINE, id="no-more-is-wanted"),
        pytest.param(24, 0, 0, CheckStatus.FINE, id="a-drained-pool"),
    ],
)
def test_a_quota_is_held_against_the_nodes_that_the_pool_may_still_get(
    gce: GceServer, used: int, max_nodes: int, nodes: int, mark: CheckStatus
) -> None:
    gce.account.region_quotas["CPUS"] = (24, used)
    ids = tuple(str(number) for number in range(1, nodes + 1))
    found = answers(gce, max_nodes=max_nodes, nodes=ids)["quota CPUS"]
    assert found.mark is mark
    assert f"{used} of 24 used" in found.text
    assert bool(found.to_do) is (mark is not CheckStatus.FINE)


def test_each_family_has_its_own_quota_and_the_project_one_for_all(gce: GceServer) -> None:
    gce.account.project_quotas["CPUS_ALL_REGIONS"] = (3, 0)
    found = answers(gce, SMALL, N2)
    assert "room for 24 more n1-standard-1;" in found["quota CPUS"].text
    assert "room for 2 more n2-standard-4;" in found["quota N2_CPUS"].text
    assert "3 more n1-standard-1, 0 more n2-standard-4" in found["quota CPUS_ALL_REGIONS"].text
    assert found["quota CPUS_ALL_REGIONS"].mark is CheckStatus.FAILED


def test_spot_nodes_count_against_their_own_quota_only_where_there_is_one(gce: GceServer) -> None:
    found = answers(gce, SPOT)
    assert "room for 24 more spot" in found["quota CPUS"].text
    assert found["quota PREEMPTIBLE_CPUS"].text == "0 of 0 used"
    gce.account.region_quotas["PREEMPTIBLE_CPUS"] = (3, 2)
    found = answers(gce, SPOT)
    assert found["quota CPUS"].text == "0 of 24 used"
    assert "room for 1 more spot" in found["quota PREEMPTIBLE_CPUS"].text
    assert found["quota PREEMPTIBLE_CPUS"].mark is CheckStatus.WARNING


def test_a_quota_that_the_api_does_not_tell_is_said_to_be_unknown(gce: GceServer) -> None:
    found = answers(gce, Size("n4", "n4-standard-2", 2, 8192))["quota N4_CPUS"]
    assert found.mark is CheckStatus.NOT_ASKED


def test_disks_and_addresses_count_only_where_nodes_have_them(gce: GceServer) -> None:
    gce.account.region_quotas["SSD_TOTAL_GB"] = (500, 450)
    found = answers(gce, boot_disk_type="pd-ssd", boot_disk_gb="20", assign_public_ip="no")
    assert "room for 2 more" in found["quota SSD_TOTAL_GB"].text
    assert "quota IN_USE_ADDRESSES" not in found
    assert found["permission to use the subnet"].text.endswith("compute.subnetworks.use")


def test_the_image_s_size_counts_where_the_file_gives_none(gce: GceServer) -> None:
    assert "room for 409 more" in answers(gce, image=IMAGE)["quota DISKS_TOTAL_GB"].text
