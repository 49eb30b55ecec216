"""Azure's own SDK and our adapter at one server: each creates, lists and deletes what the other
sees. So the server can't drift from the API without one of them failing."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest
import requests
from azure.core.exceptions import HttpResponseError, ResourceNotFoundError
from azure.core.pipeline.policies import SansIOHTTPPolicy

from nodemanager.core.model.world import CloudState, Outcome
from nodemanager.errors import CapacityUnavailable
from tests.cloud.azure import schema as azure_schema
from tests.cloud.azure.auth import SUBSCRIPTION
from tests.cloud.azure.helpers import IMAGE, POOL, attach, cloud, order
from tests.cloud.azure.server import AzureServer, refusal
from tests.cloud.azure.world import GROUP, HOME, IPS, REGION, SUBNET
from tests.cloud.orders import finished

if TYPE_CHECKING:
    # Its import takes a second: not where tests are only collected.
    from azure.mgmt.compute import models as compute

pytestmark = pytest.mark.socket


class Signed(SansIOHTTPPolicy[Any, Any]):
    """Sends the server's token; the SDK's own policy sends none over plain http."""

    def __init__(self, token: str) -> None:
        self._token = token

    def on_request(self, request: Any) -> None:
        request.http_request.headers["Authorization"] = f"Bearer {self._token}"


def client(kind: Any, azure: AzureServer) -> Any:
    return kind(
        credential=object(),
        subscription_id=SUBSCRIPTION,
        base_url=azure.url,
        authentication_policy=Signed(azure.tokens.new()),
        polling_interval=0.01,
        retry_total=0,
    )


@pytest.fixture
def sdk(azure: AzureServer) -> Iterator[Any]:
    from azure.mgmt.compute import ComputeManagementClient

    with client(ComputeManagementClient, azure) as made:
        yield made


@pytest.fixture
def network(azure: AzureServer) -> Iterator[Any]:
    from azure.mgmt.network import NetworkManagementClient

    with client(NetworkManagementClient, azure) as made:
        yield made


def new_machine(**fields: Any) -> compute.VirtualMachine:
    from azure.mgmt.compute import models as compute

    publisher, offer, sku, version = IMAGE.split(":")
    address = compute.VirtualMachineNetworkInterfaceIPConfiguration(
        name="ip", subnet=compute.SubResource(id=SUBNET)
    )
    nic = compute.VirtualMachineNetworkInterfaceConfiguration(
        name="by-sdk-nic", delete_option="Delete", ip_configurations=[address]
    )
    key = compute.SshPublicKey(path="/home/me/.ssh/authorized_keys", key_data="ssh-ed25519 AAAA")
    return compute.VirtualMachine(
        location=REGION,
        tags={"owner": "alice"},
        hardware_profile=compute.HardwareProfile(vm_size="Standard_A1_v2"),
        storage_profile=compute.StorageProfile(
            image_reference=compute.ImageReference(
                publisher=publisher, offer=offer, sku=sku, version=version
            ),
            os_disk=compute.OSDisk(create_option="FromImage", delete_option="Delete"),
            data_disks=[],
        ),
        os_profile=compute.OSProfile(
            computer_name="by-sdk",
            admin_username="me",
            linux_configuration=compute.LinuxConfiguration(
                ssh=compute.SshConfiguration(public_keys=[key])
            ),
        ),
        network_profile=compute.NetworkProfile(
            network_api_version="2022-11-01", network_interface_configurations=[nic]
        ),
        **fields,
    )


def test_what_the_adapter_creates_the_sdk_lists_and_deletes(azure: AzureServer, sdk: Any) -> None:
    ours, asked = cloud(azure), order("compute-7")
    made = ours.create(asked)
    (seen,) = sdk.virtual_machines.list(GROUP)
    assert (seen.vm_id, seen.provisioning_state) == (made.id, "Succeeded")
    assert seen.name.startswith("compute-7-")
    assert seen.tags["nodemanager-pool"] == POOL
    assert seen.tags["nodemanager-record"] == asked.tags.record
    assert seen.os_profile.custom_data is None
    assert seen.time_created.timestamp() == made.created_at
    one = sdk.virtual_machines.get(GROUP, seen.name, expand="instanceView")
    assert [status.code for status in one.instance_view.statuses][-1] == "PowerState/running"
    (power,) = sdk.virtual_machines.list_all(status_only="true")
    assert power.id == seen.id
    sdk.virtual_machines.begin_delete(GROUP, seen.name).result()
    assert ours.ask(made.id) is None
    assert ours.list_nodes().items == ()
    assert azure.world.things == {}


def test_what_the_sdk_creates_the_adapter_adopts_and_destroys(azure: AzureServer, sdk: Any) -> None:
    azure.world.takes = 0.1
    ours = cloud(azure, listing={"tag_owner": "alice"})
    theirs = sdk.virtual_machines.begin_create_or_update(GROUP, "by-sdk", new_machine()).result()
    (seen,) = ours.list_nodes().items
    assert (seen.id, seen.name, seen.size) == (theirs.vm_id, "by-sdk", "Standard_A1_v2")
    assert (seen.managed, seen.state, seen.problems) == (True, CloudState.RUNNING, ())
    tags = order().tags
    ours.adopt(theirs.vm_id, tags)
    known = sdk.virtual_machines.get(GROUP, "by-sdk")
    assert known.tags["owner"] == "alice"
    assert known.tags["nodemanager-incarnation"] == tags.incarnation
    assert ours.destroy(theirs.vm_id) is Outcome.ACCEPTED
    sdk.virtual_machines.begin_delete(GROUP, "by-sdk").result()
    with pytest.raises(ResourceNotFoundError):
        sdk.virtual_machines.get(GROUP, "by-sdk")
    assert ours.destroy(theirs.vm_id) is Outcome.UNKNOWN


@pytest.mark.parametrize(
    ("deed", "state"),
    [
        ("begin_deallocate", CloudState.STOPPED),
        ("begin_power_off", CloudState.STOPPED),
        ("begin_start", CloudState.RUNNING),
    ],
)
def test_what_the_sdk_does_to_a_node_the_adapter_sees(
    azure: AzureServer, sdk: Any, deed: str, state: CloudState
) -> None:
    ours = cloud(azure)
    made = ours.create(order())
    (seen,) = sdk.virtual_machines.list(GROUP)
    getattr(sdk.virtual_machines, deed)(GROUP, seen.name).result()
    node = ours.ask(made.id)
    assert node is not None
    assert node.state is state


def test_an_operation_that_fails_later_fails_for_both(azure: AzureServer, sdk: Any) -> None:
    azure.world.create_fails = [("AllocationFailed", "no room")] * 2
    with pytest.raises(HttpResponseError, match="AllocationFailed"):
        sdk.virtual_machines.begin_create_or_update(GROUP, "by-sdk", new_machine()).result()
    assert sdk.virtual_machines.get(GROUP, "by-sdk").provisioning_state == "Failed"
    with pytest.raises(CapacityUnavailable, match="AllocationFailed"):
        finished(cloud(azure), order())


def test_both_follow_every_page(azure: AzureServer, sdk: Any) -> None:
    ours = cloud(azure)
    made = {ours.create(order()).id for _ in range(5)}
    azure.page_limit = 2
    assert {one.vm_id for one in sdk.virtual_machines.list(GROUP)} == made
    assert {node.id for node in ours.list_nodes().items} == made


def test_both_see_the_same_leftovers_and_the_sdk_sees_them_gone(
    azure: AzureServer, sdk: Any, network: Any
) -> None:
    ours = cloud(azure)
    made = ours.create(order())
    attach(azure, made)
    pinned = ours.pins(made.id)
    (seen,) = sdk.virtual_machines.list(GROUP)
    sdk.virtual_machines.begin_delete(GROUP, seen.name).result()
    free = {
        *(one.id.lower() for one in sdk.disks.list_by_resource_group(GROUP)),
        *(one.id.lower() for one in network.network_interfaces.list(GROUP)),
        *(one.id.lower() for one in network.public_ip_addresses.list(GROUP)),
    }
    assert free == {one.id for one in pinned}
    for one in pinned:
        assert ours.release(one) is Outcome.ACCEPTED
    assert list(sdk.disks.list_by_resource_group(GROUP)) == []
    assert list(network.network_interfaces.list(GROUP)) == []
    assert list(network.public_ip_addresses.list(GROUP)) == []


def test_a_thing_that_the_sdk_makes_is_ours_by_its_tags_alone(azure: AzureServer, sdk: Any) -> None:
    from azure.mgmt.compute import models as compute

    ours = cloud(azure)
    ours.list_nodes()
    tags = {"nodemanager-pool": POOL, "nodemanager-incarnation": "d" * 32}
    for name, given in (("ours", tags), ("theirs", {})):
        disk = compute.Disk(
            location=REGION, tags=given, creation_data=compute.CreationData(create_option="Empty")
        )
        sdk.disks.begin_create_or_update(GROUP, name, disk).result()
    assert [one.id.rpartition("/")[2] for one in ours.find_leftovers()] == ["ours"]


def test_the_sdk_reads_sizes(azure: AzureServer, sdk: Any) -> None:
    azure.world.restricted = {"Standard_D3"}
    found = {one.name: one for one in sdk.resource_skus.list(filter="location eq 'eastus'")}
    assert found["Standard_D3"].restrictions[0].reason_code == "NotAvailableForSubscription"


# The server itself.


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        (lambda body: body["properties"].update(priorty="Spot"), "priorty"),
        (lambda body: body["properties"].update(priority="Sport"), "'Sport'"),
        (lambda body: body["properties"].update(vmId="x"), "only an answer"),
        (lambda body: body.update(zones="1"), "no list"),
        (lambda body: body.update(tags={"a": 1}), "no str"),
        (lambda body: body["properties"].update(storageProfile=[]), "no object"),
    ],
)
def test_a_body_that_contradicts_azures_description_is_refused_and_told(
    azure: AzureServer, change: Any, problem: str
) -> None:
    body: dict[str, Any] = {"location": REGION, "properties": {}}
    assert azure_schema.wrong_in("virtualMachines", body, sent=True) == []
    change(body)
    url = f"{azure.url}{HOME}/providers/Microsoft.Compute/virtualMachines/x"
    headers = {"Authorization": f"Bearer {azure.tokens.new()}"}
    answer = requests.put(url, params={"api-version": "2024-11-01"}, json=body, headers=headers)
    assert answer.status_code == 400
    assert problem in azure.wrong[0]
    azure.wrong.clear()


def test_a_request_that_azure_has_no_method_for_is_told(azure: AzureServer) -> None:
    headers = {"Authorization": f"Bearer {azure.tokens.new()}"}
    assert requests.get(f"{azure.url}{HOME}/nothing", headers=headers).status_code == 400
    assert requests.get(f"{azure.url}{HOME}/providers/{IPS}", headers=headers).status_code == 400
    assert [line.partition(": ")[2] for line in azure.wrong] == ["no such method", "no api-version"]
    azure.wrong.clear()


def test_an_answer_of_the_server_that_contradicts_the_description_is_told(
    azure: AzureServer,
) -> None:
    ours = cloud(azure)
    made = ours.create(order())
    azure.world.machine(made.id)["properties"]["surprise"] = "x"
    with pytest.raises(Exception, match="surprise"):
        ours.list_nodes()
    assert azure.wrong
    azure.wrong.clear()


def test_without_a_token_nothing_is_told(azure: AzureServer) -> None:
    url = f"{azure.url}{HOME}/providers/{IPS}"
    answer = requests.get(url, params={"api-version": "2024-05-01"})
    assert (answer.status_code, answer.json()["error"]["code"]) == (
        401,
        "InvalidAuthenticationToken",
    )


def test_a_scripted_refusal_reaches_the_sdk_as_azures_own(azure: AzureServer, sdk: Any) -> None:
    azure.fault("virtualMachines.list", before=refusal("AuthorizationFailed", 403))
    with pytest.raises(HttpResponseError) as caught:
        list(sdk.virtual_machines.list(GROUP))
    assert caught.value.error is not None
    assert caught.value.error.code == "AuthorizationFailed"
