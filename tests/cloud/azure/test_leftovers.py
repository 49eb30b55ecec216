"""What nodes on Azure leave behind, and whose it is (D4)."""

from __future__ import annotations

import pytest

from nodemanager.core.model.world import CloudNode, Leftover, LeftoverKind, Outcome
from nodemanager.errors import LeftAlone
from tests.cases import cases
from tests.cloud.azure.helpers import by_hand, cloud, machine, order
from tests.cloud.azure.server import AzureServer, refusal
from tests.cloud.azure.world import DISKS, HOME, IPS, NICS, VMS

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


@cases(
    "about",
    {
        "being-read": {"diskState": "ActiveSAS"},
        "of-a-stopped-machine": {"diskState": "Reserved"},
        "going": {"provisioningState": "Deleting"},
    },
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
