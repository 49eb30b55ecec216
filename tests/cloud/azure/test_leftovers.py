"""What nodes on Azure leave behind, and whose it is (D4)."""

from __future__ import annotations

from typing import Any

import pytest

from nodemanager.core.model.world import CloudNode, Leftover, LeftoverKind, Outcome
from nodemanager.errors import CloudError, IncompleteListing, LeftAlone
from tests.cloud.azure.helpers import attach, by_hand, cloud, machine, order
from tests.cloud.azure.server import AzureServer, changed, refusal
from tests.cloud.azure.world import DISKS, HOME, IPS, NICS, VMS
from tests.cloud.faults import lost

pytestmark = pytest.mark.socket


def abandoned(azure: AzureServer, node: CloudNode) -> None:
    """The node's end, at which Azure fails to delete what it should."""
    with azure.held():
        one = machine(azure, node.id)
        about = one["properties"]
        about["storageProfile"]["osDisk"]["deleteOption"] = "Detach"
        for nic in about["networkProfile"]["networkInterfaces"]:
            nic["properties"]["deleteOption"] = "Detach"
        for nic in azure.world.of(NICS):
            setting = nic["properties"]["ipConfigurations"][0]["properties"]
            if "publicIPAddress" in setting:
                setting["publicIPAddress"]["properties"]["deleteOption"] = "Detach"
        azure.world.delete_machine(one["id"])
        azure.world.settle()


def test_what_azure_did_not_delete_with_its_node_is_found_by_tag_and_released_in_order(
    azure: AzureServer,
) -> None:
    ours = cloud(azure, create={"assign_public_ip": "yes"})
    made = ours.create(order())
    assert ours.pins(made.id) == ()
    abandoned(azure, made)
    found = sorted(ours.find_leftovers(), key=lambda one: one.order)
    assert [one.kind for one in found] == [LeftoverKind.INTERFACE, LeftoverKind.VOLUME]
    # The interface still has the address.
    (public,) = azure.world.of(IPS)
    address = Leftover(LeftoverKind.ADDRESS, public["id"].lower(), "")
    assert ours.release(address) is Outcome.ACCEPTED
    assert azure.called("publicIPAddresses.delete") == []
    for one in (*found, address):
        assert ours.release(one) is Outcome.ACCEPTED
        assert ours.release(one) is Outcome.GONE
        if one.kind is LeftoverKind.INTERFACE:
            assert address in ours.find_leftovers()
    assert azure.world.things == {}
    assert ours.find_leftovers() == ()


def test_an_address_that_its_interface_keeps_is_no_leftover_until_that_is_gone(
    azure: AzureServer,
) -> None:
    ours = cloud(azure, create={"assign_public_ip": "yes"})
    made = ours.create(order())
    (address,) = azure.world.of(IPS)
    path = address["id"].lower()
    with azure.held():
        (nic,) = azure.world.of(NICS)
        setting = nic["properties"]["ipConfigurations"][0]["properties"]
        setting["publicIPAddress"]["properties"]["deleteOption"] = "Detach"
    assert [one.key for one in ours.pins(made.id)] == [(LeftoverKind.ADDRESS, path)]
    ours.destroy(made.id)
    assert [one.id for one in ours.find_leftovers()] == [path]


@pytest.mark.parametrize(
    "tags",
    [
        pytest.param({}, id="none"),
        pytest.param({"nodemanager-pool": "blue"}, id="pool-alone"),
        pytest.param(
            {"nodemanager-pool": "green", "nodemanager-incarnation": "f" * 32}, id="another-pool"
        ),
        pytest.param(
            {
                "nodemanager-pool": "blue",
                "nodemanager-incarnation": "f" * 32,
                "nodemanager-hold": "yes",
            },
            id="on-hold",
        ),
    ],
)
def test_what_is_not_ours_by_its_tags_is_never_a_leftover(
    azure: AzureServer, tags: dict[str, str]
) -> None:
    ours = cloud(azure)
    made = ours.create(order())
    things = attach(azure, made, tags)
    assert ours.pins(made.id) == ()
    ours.destroy(made.id)
    assert ours.find_leftovers() == ()
    for kind, path in things:
        with pytest.raises(LeftAlone):
            ours.release(Leftover(kind, path, made.id))
        assert azure.world.get(path)


def test_a_thing_of_a_node_that_lives_stays(azure: AzureServer) -> None:
    ours = cloud(azure)
    made = ours.create(order())
    attach(azure, made)
    for one in ours.pins(made.id):
        with pytest.raises(LeftAlone, match="belongs to a node"):
            ours.release(one)
    # By tag alone, too: their machine is found by the incarnation.
    with azure.held():
        about = machine(azure, made.id)["properties"]
        about["storageProfile"]["dataDisks"].clear()
    disk = azure.world.add_disk(f"{HOME}/providers/{DISKS}/x", machine(azure, made.id)["tags"])
    assert ours.find_leftovers() == ()
    with pytest.raises(LeftAlone, match="belongs to a node"):
        ours.release(Leftover(LeftoverKind.VOLUME, disk["id"].lower(), ""))


def test_a_thing_of_a_node_that_is_being_deleted_waits(azure: AzureServer) -> None:
    ours = cloud(azure)
    made = ours.create(order())
    attach(azure, made)
    pinned = ours.pins(made.id)
    azure.world.takes = 1000.0
    ours.destroy(made.id)
    for one in pinned:
        assert ours.release(one) is Outcome.ACCEPTED
    assert not [call for call in azure.calls if call.method.endswith("s.delete")][1:]


def test_what_another_machine_uses_by_now_stays(azure: AzureServer) -> None:
    ours = cloud(azure, create={"assign_public_ip": "yes"})
    made = ours.create(order())
    abandoned(azure, made)
    (public,) = azure.world.of(IPS)
    address = Leftover(LeftoverKind.ADDRESS, public["id"].lower(), "")
    found = [*ours.find_leftovers(), address]
    other = machine(azure, by_hand(azure))["id"]
    with azure.held():
        (nic,) = [one for one in azure.world.of(NICS) if "nodemanager-pool" in one["tags"]]
        nic["properties"]["virtualMachine"] = {"id": other}
        (disk,) = [one for one in azure.world.of(DISKS) if "nodemanager-pool" in one["tags"]]
        disk["managedBy"], disk["properties"]["diskState"] = other, "Attached"
    assert len(found) == 3
    for one in found:
        with pytest.raises(LeftAlone, match="is used by"):
            ours.release(one)


def test_a_machine_of_a_group_that_we_may_not_read_counts_as_alive(azure: AzureServer) -> None:
    ours = cloud(azure)
    made = ours.create(order())
    abandoned(azure, made)
    disk = next(one for one in ours.find_leftovers() if one.kind is LeftoverKind.VOLUME)
    with azure.held():
        azure.world.get(disk.id)["managedBy"] = (
            f"/subscriptions/x/resourceGroups/y/providers/{VMS}/z"
        )
    with pytest.raises(LeftAlone, match="is used by"):
        ours.release(disk)


@pytest.mark.parametrize(
    ("method", "code", "status"),
    [
        ("disks.delete", "OperationNotAllowed", 409),
        ("networkInterfaces.delete", "NicInUse", 400),
        ("networkInterfaces.delete", "NicReservedForAnotherVm", 400),
        ("publicIPAddresses.delete", "PublicIPAddressCannotBeDeleted", 400),
        ("publicIPAddresses.delete", "AnotherOperationInProgress", 409),
    ],
)
def test_a_thing_that_came_into_use_meanwhile_is_asked_for_again_later(
    azure: AzureServer, method: str, code: str, status: int
) -> None:
    ours = cloud(azure, create={"assign_public_ip": "yes"})
    abandoned(azure, ours.create(order()))
    azure.fault(method, before=refusal(code, status))
    while found := ours.find_leftovers():
        for one in found:
            assert ours.release(one) is Outcome.ACCEPTED
    assert len(azure.called(method)) == 2
    assert azure.world.things == {}


def test_a_refusal_to_delete_a_thing_is_an_error(azure: AzureServer) -> None:
    ours = cloud(azure)
    abandoned(azure, ours.create(order()))
    azure.fault("disks.delete", times=9, before=refusal("AuthorizationFailed", 403))
    disk = next(one for one in ours.find_leftovers() if one.kind is LeftoverKind.VOLUME)
    with pytest.raises(CloudError, match="AuthorizationFailed"):
        ours.release(disk)


def test_a_thing_that_is_gone_when_its_delete_arrives_is_gone(azure: AzureServer) -> None:
    ours = cloud(azure)
    abandoned(azure, ours.create(order()))
    disk = next(one for one in ours.find_leftovers() if one.kind is LeftoverKind.VOLUME)
    azure.fault("disks.delete", before=refusal("ResourceNotFound", 404))
    assert ours.release(disk) is Outcome.GONE


@pytest.mark.parametrize(
    "method",
    ["disks.list", "networkInterfaces.list", "publicIPAddresses.list", "virtualMachines.list"],
)
@pytest.mark.parametrize(
    "how",
    [
        pytest.param({"before": refusal("InternalServerError", 500)}, id="500"),
        pytest.param({"before": refusal("ResourceGroupNotFound", 404)}, id="no-group"),
        pytest.param({"after": lost}, id="cut"),
        pytest.param({"after": changed(lambda told: told.pop("value"))}, id="no-value"),
    ],
)
def test_what_may_be_incomplete_finds_no_leftover_l1(
    azure: AzureServer, method: str, how: dict[str, Any]
) -> None:
    ours = cloud(azure)
    abandoned(azure, ours.create(order()))
    azure.fault(method, **how)
    with pytest.raises(CloudError):
        ours.find_leftovers()
    assert len(ours.find_leftovers()) == 2


def test_a_machine_whose_tags_cant_be_read_might_own_anything(azure: AzureServer) -> None:
    ours = cloud(azure)
    abandoned(azure, ours.create(order()))
    machine(azure, by_hand(azure))
    spoil = changed(lambda told: told["value"][0].update(tags=["x"]))
    azure.fault("virtualMachines.list", after=spoil)
    with pytest.raises(IncompleteListing):
        ours.find_leftovers()


def test_a_thing_without_an_id_is_no_listing(azure: AzureServer) -> None:
    ours = cloud(azure)
    abandoned(azure, ours.create(order()))
    azure.fault("disks.list", after=changed(lambda told: told["value"][0].pop("id")))
    with pytest.raises(IncompleteListing):
        ours.find_leftovers()


def test_every_page_of_things_is_followed(azure: AzureServer) -> None:
    ours = cloud(azure)
    tags = {"nodemanager-pool": "blue", "nodemanager-incarnation": "e" * 32}
    for number in range(5):
        azure.world.add_disk(f"{HOME}/providers/{DISKS}/d{number}", tags)
    azure.page_limit = 2
    assert len(ours.find_leftovers()) == 5


@pytest.mark.parametrize(
    "about",
    [
        pytest.param({"diskState": "ActiveSAS"}, id="being-read"),
        pytest.param({"diskState": "Reserved"}, id="of-a-stopped-machine"),
        pytest.param({"provisioningState": "Deleting"}, id="going"),
    ],
)
def test_a_disk_that_is_in_use_or_going_is_no_leftover(
    azure: AzureServer, about: dict[str, str]
) -> None:
    tags = {"nodemanager-pool": "blue", "nodemanager-incarnation": "e" * 32}
    disk = azure.world.add_disk(f"{HOME}/providers/{DISKS}/d", tags)
    disk["properties"].update(about)
    ours = cloud(azure)
    assert ours.find_leftovers() == ()
    thing = Leftover(LeftoverKind.VOLUME, disk["id"].lower(), "")
    assert ours.release(thing) is Outcome.ACCEPTED
    assert azure.called("disks.delete") == []
