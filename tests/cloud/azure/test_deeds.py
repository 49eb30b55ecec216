"""Creates, destroys and adoptions on Azure Resource Manager."""

from __future__ import annotations

import base64
import logging
import subprocess
import traceback
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from nodemanager import errors
from nodemanager.core.model.world import CloudState, Outcome, Tags
from tests.cases import cases
from tests.cloud.azure.helpers import SMALL, by_hand, cloud, custom_data, machine, order
from tests.cloud.azure.server import AzureServer, changed, plain, refusal
from tests.cloud.azure.world import DISKS, HOME, IPS, NICS, OWN_IMAGE, SUBNET
from tests.cloud.orders import finished

pytestmark = pytest.mark.socket

PUT = "virtualMachines.put"
NO_ROOM = ("AllocationFailed", "We do not have sufficient capacity for the requested size")


def put_body(azure: AzureServer) -> dict[str, Any]:
    """The body of the one create."""
    (call,) = azure.called(PUT)
    return dict(call.body)


def test_the_create_call_itself_tags_all_that_it_makes_and_ends_it_with_the_node(
    azure: AzureServer,
) -> None:
    asked = order("compute3", size=replace(SMALL, name="Small.Spot_1"))
    ours = cloud(azure, create={"assign_public_ip": "yes", "tag_cluster": "x"})
    made = ours.create(asked)
    tags = asked.tags
    expected = {
        "cluster": "x",
        "nodemanager-pool": "blue",
        "nodemanager-record": tags.record,
        "nodemanager-incarnation": tags.incarnation,
        "nodemanager-size": "Small.Spot_1",
        "nodemanager-name": "compute3",
    }
    assert put_body(azure)["tags"] == expected
    for kind in (DISKS, NICS, IPS):
        (thing,) = azure.world.of(kind)
        assert thing["tags"] == expected
    assert (made.name, made.tags, made.size) == ("compute3", tags, "Standard_D2s_v5")
    assert made.id == machine(azure, made.id)["properties"]["vmId"]
    assert [(call.action, call.headers["if-none-match"]) for call in azure.calls] == [(PUT, "*")]
    assert ours.destroy(made.id) is Outcome.ACCEPTED
    assert ours.ask(made.id) is None
    assert azure.world.things == {}


def test_a_bare_ping_url_is_put_where_ping_scripts_look_for_it(azure: AzureServer) -> None:
    url = "https://example.org/ping?ping_secret=it's"
    made = cloud(azure).create(order(user_data=url))
    script = custom_data(azure, made.id)
    assert script.startswith("#!/bin/sh\n")
    assert "/var/tmp/arv-node-data/arv-ping-url" in script
    assert "/etc/nodemanager/ping-url" in script
    assert subprocess.run(["sh", "-n"], input=script, text=True, check=False).returncode == 0
    assert """'https://example.org/ping?ping_secret=it'"'"'s'""" in script


@pytest.mark.parametrize("user_data", ["#!/bin/sh\necho x\n", "#cloud-config\nhostname: ä\n"])
def test_other_user_data_reaches_cloud_init_as_it_is(azure: AzureServer, user_data: str) -> None:
    made = cloud(azure).create(order(user_data=user_data))
    assert custom_data(azure, made.id) == user_data


def test_user_data_that_is_too_long_is_refused_before_anything_is_sent(azure: AzureServer) -> None:
    with pytest.raises(errors.BadRequest, match="65535"):
        cloud(azure).create(order(user_data="ä" * 40_000))
    assert azure.called(PUT) == []


def test_the_settings_of_cloud_create_reach_the_machine(azure: AzureServer, tmp_path: Path) -> None:
    key = tmp_path / "id.pub"
    key.write_text("ssh-ed25519 BBBB me\n")
    create = {
        "image": OWN_IMAGE,
        "network": SUBNET.partition("/subnets/")[0],
        "subnet": "default",
        "ssh_key": str(key),
        "user_name": "someone",
        "network_security_group": "inner",
        "accelerated_networking": "yes",
        "boot_disk_type": "Premium_LRS",
        "boot_disk_gb": "64",
        "scratch_disk_type": "StandardSSD_LRS",
        "zone": "2",
    }
    cloud(azure, create=create).create(order(size=replace(SMALL, scratch_mb=100_001)))
    body = put_body(azure)
    about = body["properties"]
    assert body["zones"] == ["2"]
    assert about["storageProfile"]["imageReference"] == {"id": OWN_IMAGE}
    disk = about["storageProfile"]["osDisk"]
    assert (disk["diskSizeGB"], disk["managedDisk"]) == (64, {"storageAccountType": "Premium_LRS"})
    (scratch,) = about["storageProfile"]["dataDisks"]
    assert (scratch["diskSizeGB"], scratch["deleteOption"]) == (101, "Delete")
    system = about["osProfile"]
    assert system["adminUsername"] == "someone"
    assert system["linuxConfiguration"]["ssh"]["publicKeys"] == [
        {"path": "/home/someone/.ssh/authorized_keys", "keyData": "ssh-ed25519 BBBB me"}
    ]
    (nic,) = about["networkProfile"]["networkInterfaceConfigurations"]
    assert nic["properties"]["networkSecurityGroup"]["id"].endswith("networkSecurityGroups/inner")
    assert nic["properties"]["enableAcceleratedNetworking"]
    address = nic["properties"]["ipConfigurations"][0]["properties"]
    assert address["subnet"]["id"] == SUBNET
    assert "publicIPAddressConfiguration" not in address


@pytest.mark.parametrize(
    ("size", "create", "price"),
    [
        (replace(SMALL, preemptible=True), {}, -1),
        (SMALL, {"preemptible": "yes"}, -1),
        (SMALL, {"preemptible": "yes", "spot_max_price": "0.05"}, 0.05),
    ],
)
def test_a_spot_machine_is_deleted_when_it_is_taken_away(
    azure: AzureServer, size: Any, create: dict[str, str], price: float
) -> None:
    ours = cloud(azure, create=create)
    made = ours.create(order(size=size))
    about = put_body(azure)["properties"]
    assert (about["priority"], about["evictionPolicy"]) == ("Spot", "Delete")
    assert about["billingProfile"] == {"maxPrice": price}
    azure.world.takes = 1000.0
    azure.world.evict(made.id)
    node = ours.ask(made.id)
    assert node is not None
    assert node.state is CloudState.STOPPING
    for one in azure.world.operations.values():
        one.due = 0
    assert ours.ask(made.id) is None
    assert ours.list_nodes().items == ()
    assert azure.world.things == {}


IDS = "/subscriptions/s/resourceGroups/g/providers/Microsoft.Compute"
IDENTITY = "/subscriptions/s/resourceGroups/g/providers/Microsoft.ManagedIdentity/ids/one"


@cases(
    ("create", "expected"),
    {
        "trusted-launch": (
            {"security_type": "TrustedLaunch", "secure_boot": "true", "vtpm": "false"},
            {
                "properties.securityProfile": {
                    "securityType": "TrustedLaunch",
                    "uefiSettings": {"secureBootEnabled": True, "vTpmEnabled": False},
                }
            },
        ),
        "encryption": (
            {"encryption_at_host": "true"},
            {"properties.securityProfile": {"encryptionAtHost": True}},
        ),
        "groups": (
            {
                "proximity_group": f"{IDS}/proximityPlacementGroups/p",
                "host_group": f"{IDS}/hostGroups/h",
                "capacity_reservation_group": f"{IDS}/capacityReservationGroups/c",
            },
            {
                "properties.proximityPlacementGroup": {"id": f"{IDS}/proximityPlacementGroups/p"},
                "properties.hostGroup": {"id": f"{IDS}/hostGroups/h"},
                "properties.capacityReservation": {
                    "capacityReservationGroup": {"id": f"{IDS}/capacityReservationGroups/c"}
                },
            },
        ),
        "identity": (
            {"identity": f"system, {IDENTITY}"},
            {
                "identity": {
                    "type": "SystemAssigned, UserAssigned",
                    "userAssignedIdentities": {IDENTITY: {}},
                }
            },
        ),
        "plan": (
            {"image_plan": "them:product:plan"},
            {"plan": {"publisher": "them", "product": "product", "name": "plan"}},
        ),
        "eviction": (
            {"preemptible": "yes", "eviction_policy": "Deallocate"},
            {"properties.evictionPolicy": "Deallocate"},
        ),
    },
)
def test_an_option_goes_into_the_body_as_azure_describes_it(
    azure: AzureServer, create: dict[str, str], expected: dict[str, Any]
) -> None:
    """The server holds each body against Microsoft's own models (`azure.wrong`)."""
    cloud(azure, create=create).create(order())
    body = put_body(azure)
    for path, value in expected.items():
        found: Any = body
        for key in path.split("."):
            found = found[key]
        assert found == value


def test_a_boot_disk_on_the_host_is_no_managed_disk(azure: AzureServer) -> None:
    cloud(azure, create={"ephemeral_os_disk": "NvmeDisk"}).create(order())
    disk = put_body(azure)["properties"]["storageProfile"]["osDisk"]
    assert disk["diffDiskSettings"] == {"option": "Local", "placement": "NvmeDisk"}
    assert disk["caching"] == "ReadOnly"
    assert "managedDisk" not in disk


# The image.


@pytest.mark.parametrize(
    "image",
    [
        "Canonical:ubuntu-24_04-lts:server:latest",
        "Canonical:ubuntu-24_04-lts:server:24.04.202609010",
        OWN_IMAGE,
    ],
)
def test_an_image_that_is_there_is_asked_for_once(azure: AzureServer, image: str) -> None:
    ours = cloud(azure, create={"image": image})
    ours.check_image()
    ours.check_image()
    assert len(azure.calls) == 1


@pytest.mark.parametrize(
    "image",
    [
        "Canonical:ubuntu-24_04-lts:desktop:latest",
        "Canonical:ubuntu-24_04-lts:server:1.2.3",
        f"{OWN_IMAGE}x",
    ],
)
def test_an_image_that_is_nowhere_is_told(azure: AzureServer, image: str) -> None:
    with pytest.raises(errors.BadRequest, match=r"\[Cloud Create\] image = "):
        cloud(azure, create={"image": image}).check_image()


# What Azure refuses.


@pytest.mark.parametrize(
    ("code", "status", "message", "expected"),
    [
        ("QuotaExceeded", 409, "", errors.QuotaExceeded),
        (
            "OperationNotAllowed",
            409,
            "exceeding approved Regional Cores quota.",
            errors.QuotaExceeded,
        ),
        ("PublicIPCountLimitReached", 400, "", errors.QuotaExceeded),
        ("SubnetIsFull", 400, "", errors.QuotaExceeded),
        ("SkuNotAvailable", 409, "", errors.CapacityUnavailable),
        ("AllocationFailed", 409, "", errors.CapacityUnavailable),
        ("ZonalAllocationFailed", 409, "", errors.CapacityUnavailable),
        ("OverconstrainedAllocationRequest", 409, "", errors.CapacityUnavailable),
        ("OverconstrainedZonalAllocationRequest", 409, "", errors.CapacityUnavailable),
        ("TooManyRequests", 429, "", errors.Throttled),
        ("OperationNotAllowed", 429, "too many requests", errors.Throttled),
        ("SubscriptionRequestsThrottled", 429, "", errors.Throttled),
        ("AuthorizationFailed", 403, "", errors.Unauthorized),
        ("LinkedAuthorizationFailed", 403, "", errors.Unauthorized),
        ("ExpiredAuthenticationToken", 401, "", errors.Unauthorized),
        ("SubscriptionNotFound", 404, "", errors.Unauthorized),
        ("RequestDisallowedByPolicy", 403, "", errors.BadRequest),
        ("ScopeLocked", 409, "", errors.BadRequest),
        ("OperationNotAllowed", 409, "not now", errors.BadRequest),
        ("InvalidParameter", 400, "", errors.BadRequest),
        ("PlatformImageNotFound", 404, "", errors.BadRequest),
        ("ResourceGroupNotFound", 404, "", errors.BadRequest),
        ("ResourceGroupBeingDeleted", 409, "", errors.CloudError),
        ("Conflict", 409, "", errors.CloudError),
        ("AnotherOperationInProgress", 409, "", errors.CloudError),
        ("RequestTimeout", 408, "", errors.CloudError),
        ("InternalServerError", 500, "", errors.CloudError),
        ("ServerTimeout", 504, "", errors.CloudError),
    ],
)
def test_each_of_azures_codes_has_its_meaning_d6_u6(
    azure: AzureServer, code: str, status: int, message: str, expected: type[errors.CloudError]
) -> None:
    azure.fault(PUT, before=refusal(code, status, message or "x", "9"))
    with pytest.raises(errors.CloudError) as caught:
        cloud(azure).create(order())
    assert type(caught.value) is expected
    assert caught.value.definite is (expected is not errors.CloudError)
    assert caught.value.retry_after == 9
    assert code in str(caught.value)
    assert azure.world.things == {}


def test_a_tag_that_azure_cant_hold_is_refused_before_anything_is_sent(azure: AzureServer) -> None:
    with pytest.raises(errors.BadRequest, match="nodemanager-size"):
        cloud(azure).create(order(size=replace(SMALL, name="S" * 257)))
    assert azure.called(PUT) == []


# What becomes of the operation.


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        ("AllocationFailed", errors.CapacityUnavailable),
        ("ZonalAllocationFailed", errors.CapacityUnavailable),
        ("QuotaExceeded", errors.QuotaExceeded),
    ],
)
def test_a_create_that_azure_refuses_once_it_has_begun_leaves_nothing(
    azure: AzureServer, code: str, expected: type[errors.CloudError]
) -> None:
    """Azure keeps such a machine, which never ran, in the group."""
    azure.world.create_fails = [(code, "no room")]
    ours = cloud(azure, create={"assign_public_ip": "yes"})
    with pytest.raises(expected, match=f"{code}: no room") as caught:
        finished(ours, order())
    assert caught.value.definite
    assert ours.list_nodes().items == ()
    assert azure.world.things == {}


def test_a_machine_whose_taking_back_fails_is_taken_back_again(azure: AzureServer) -> None:
    azure.world.create_fails = [NO_ROOM]
    azure.world.delete_fails = [("InternalExecutionError", "x")] * 2
    with pytest.raises(errors.CapacityUnavailable):
        finished(cloud(azure), order())
    assert len(azure.called("virtualMachines.delete")) == 3
    assert azure.world.things == {}


def test_a_create_that_failed_for_another_reason_is_told_and_its_node_left_to_the_listings(
    azure: AzureServer,
) -> None:
    azure.world.create_fails = [("VMAgentStatusCommunicationError", "who knows")]
    ours, asked = cloud(azure), order()
    with pytest.raises(
        errors.CloudError, match="VMAgentStatusCommunicationError: who knows"
    ) as caught:
        finished(ours, asked)
    assert not caught.value.definite
    # The create is repeated, and answered with what the first one left.
    made = finished(ours, asked)
    assert (made.state, made.raw_state) == (CloudState.STOPPED, "Failed")
    assert azure.called("virtualMachines.delete") == []


def test_a_machine_that_runs_is_not_taken_back_whatever_its_operation_says(
    azure: AzureServer,
) -> None:
    azure.world.create_fails = [NO_ROOM]
    ours = cloud(azure)

    def runs(told: Any) -> None:
        told["properties"]["instanceView"] = {"statuses": [{"code": "PowerState/running"}]}

    azure.fault("virtualMachines.get", after=changed(runs))
    finished(ours, order())
    assert azure.called("virtualMachines.delete") == []


@cases(
    "how",
    {
        "500": {"before": refusal("InternalServerError", 500)},
        "locked": {"before": refusal("ScopeLocked", 409)},
        "cut": {"before": lambda: None},
    },
)
def test_what_cant_be_taken_back_is_no_refused_create_yet_u6(
    azure: AzureServer, how: dict[str, Any]
) -> None:
    azure.world.create_fails = [NO_ROOM]
    azure.fault("virtualMachines.delete", **how)
    ours = cloud(azure)
    made = ours.create(order())
    with pytest.raises(errors.CloudError):
        ours.finish(made.pending, None)
    node = ours.ask(made.id)
    assert node is not None
    assert node.state is CloudState.STOPPED
    # It is asked again.
    pending = ours.finish(made.pending, None)
    assert isinstance(ours.finish(str(pending), None), errors.CapacityUnavailable)


def test_a_name_that_is_taken_by_another_order_is_a_refusal(azure: AzureServer) -> None:
    asked = order()
    assert asked.tags.incarnation is not None
    by_hand(azure, name=f"compute1-{asked.tags.incarnation[:8]}")
    with pytest.raises(errors.BadRequest, match="PreconditionFailed"):
        cloud(azure).create(asked)


def test_whatever_its_code_a_failed_precondition_is_a_name_in_use(azure: AzureServer) -> None:
    ours, asked = cloud(azure), order()
    made = ours.create(asked)
    azure.fault(PUT, before=refusal("ConditionNotMet", 412))
    assert ours.create(asked).id == made.id


def test_no_secret_is_in_an_error_that_repeats_what_was_sent(
    azure: AzureServer, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    url = "https://example.org/ping?ping_secret=verysecret"
    ours = cloud(azure)
    for data in (url, f"#!/bin/sh\necho {url}\n"):
        coded = base64.b64encode(data.encode()).decode()
        said = f"customData {coded} for {data} is not valid"
        azure.fault(PUT, before=refusal("InvalidParameter", 400, said))
        with pytest.raises(errors.BadRequest) as caught:
            ours.create(order(user_data=data))
        azure.world.create_fails = [("AllocationFailed", said)]
        made = ours.create(order(user_data=data))
        pending = ours.finish(made.pending, None)
        failed = ours.finish(str(pending), None)
        assert isinstance(failed, errors.CapacityUnavailable)
        told = "".join(traceback.format_exception(failed))
        for text in (str(caught.value), str(pending), told, caplog.text):
            assert "verysecret" not in text
            assert coded not in text


# Destroys.


def test_a_destroy_that_fails_later_shows_the_node_again(azure: AzureServer) -> None:
    ours = cloud(azure)
    made = ours.create(order())
    azure.world.delete_fails = [("InternalExecutionError", "try later")]
    assert ours.destroy(made.id) is Outcome.ACCEPTED
    node = ours.ask(made.id)
    assert node is not None
    assert not node.is_absent
    assert ours.destroy(made.id) is Outcome.ACCEPTED
    assert ours.ask(made.id) is None


def test_a_destroy_that_comes_second_is_unknown_not_gone(azure: AzureServer) -> None:
    ours = cloud(azure)
    made = ours.create(order())
    azure.fault("virtualMachines.delete", before=lambda: plain(204, "")())
    assert ours.destroy(made.id) is Outcome.UNKNOWN


# Adoptions.


def test_an_adoption_keeps_the_machines_own_tags(azure: AzureServer) -> None:
    ours = cloud(azure)
    node_id = by_hand(azure, tags={"owner": "alice", "arvados-class": "x"})
    ours.adopt(node_id, Tags("blue", "zzzzz-7ekkf-000000000000001", "f" * 32))
    assert machine(azure, node_id)["tags"] == {
        "owner": "alice",
        "arvados-class": "x",
        "nodemanager-pool": "blue",
        "nodemanager-record": "zzzzz-7ekkf-000000000000001",
        "nodemanager-incarnation": "f" * 32,
    }


@cases(
    "how",
    {
        "foreign": {"after": changed(lambda told: told.pop("properties"))},
        "later": {"after": lambda reply: plain(202, "")()},
    },
)
def test_an_adoption_that_is_not_confirmed_is_an_error(
    azure: AzureServer, how: dict[str, Any]
) -> None:
    node_id = by_hand(azure)
    azure.fault("tags.update", **how)
    with pytest.raises(errors.CloudError) as caught:
        cloud(azure).adopt(node_id, Tags("blue"))
    assert not caught.value.definite


def test_adopting_from_another_group_finds_nothing(azure: AzureServer) -> None:
    node_id = by_hand(azure, HOME.replace("/Nodes", "/Others"))
    with pytest.raises(errors.BadRequest):
        cloud(azure).adopt(node_id, Tags("blue"))
