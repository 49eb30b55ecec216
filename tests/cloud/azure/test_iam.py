"""etc/iam/azure.json allows what the adapter calls, and nothing more."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from nodemanager.cloud.azure.checks import FOR_ADDRESSES, FOR_ADOPTION, NEEDED
from nodemanager.cloud.checks import Wanted
from nodemanager.core.model.world import CloudState, Outcome, Tags
from nodemanager.errors import Unauthorized
from tests.cloud.azure.helpers import POOL, SMALL, attach, by_hand, cloud, order
from tests.cloud.azure.server import AzureServer
from tests.cloud.azure.world import GALLERY_IMAGE, OWN_IMAGE

pytestmark = pytest.mark.socket

IAM = Path(__file__).parents[3] / "etc/iam"
RECORD = "zzzzz-7ekkf-000000000000001"


def actions(name: str) -> set[str]:
    role = json.loads((IAM / f"{name}.json").read_text(encoding="utf-8"))
    found: list[str] = role["Actions"]
    assert len(found) == len(set(found))
    assert role["NotActions"] == []
    return set(found)


ROLE, READ = actions("azure"), actions("azure-read")


def do_everything(azure: AzureServer, *, images: bool = True) -> None:
    create = {"assign_public_ip": "yes", "network_security_group": "inner"}
    ours = cloud(azure, create=create)
    ours.account()
    ours.check_image()
    cloud(azure, create={"image": OWN_IMAGE}).check_image()
    if images:
        ours.image()
        cloud(azure, create={"image": GALLERY_IMAGE}).image()
    made = ours.create(order(record=RECORD))
    ours.list_nodes()
    ours.find_by_record(RECORD)
    ours.adopt(by_hand(azure), Tags(POOL))
    attach(azure, made)
    pinned = ours.pins(made.id)
    ours.destroy(made.id)
    ours.ask(made.id)
    ours.find_leftovers()
    assert [ours.release(one) for one in pinned] == [Outcome.ACCEPTED] * 3
    for check in ours.preflight(Wanted(POOL, (SMALL,))):
        check.ask()


def test_the_roles_allow_every_call_and_nothing_more(azure: AzureServer) -> None:
    azure.allowed, azure.allowed_everywhere = set(ROLE), set(READ)
    do_everything(azure)
    asked = {one for call in azure.calls for one in call.permissions}
    assert asked == ROLE | READ


def test_the_role_on_the_group_alone_does_all_but_the_check(azure: AzureServer) -> None:
    """Nor is the version known that the newest image has: nothing is rotated by it then."""
    azure.allowed, azure.allowed_everywhere = set(ROLE), set()
    do_everything(azure, images=False)
    with pytest.raises(Unauthorized):
        cloud(azure).image()
    made = cloud(azure).create(order())
    azure.world.put(made.id, "Succeeded", "PowerState/stopped")
    node = next(one for one in cloud(azure).list_nodes().items if one.id == made.id)
    assert node.state is CloudState.STOPPED


def test_every_right_of_the_role_is_one_that_the_pool_can_miss(azure: AzureServer) -> None:
    """Without each of them some call is refused, so that the role has nothing to spare."""
    azure.allowed, azure.allowed_everywhere = set(ROLE), set(READ)
    do_everything(azure)
    # An image that can't be asked for stops no boot.
    for right in ROLE - {"Microsoft.Compute/images/read"}:
        azure.reset()
        azure.allowed, azure.allowed_everywhere = ROLE - {right}, READ - {right}
        with pytest.raises(Unauthorized, match=right):
            do_everything(azure)


def test_check_cloud_names_the_rights_of_the_role() -> None:
    assert {*NEEDED, *FOR_ADDRESSES, FOR_ADOPTION} <= ROLE
    by_file = {
        "Microsoft.Compute/images/read",
        "Microsoft.Network/networkSecurityGroups/join/action",
        # On the network, which may be in another group.
        "Microsoft.Network/virtualNetworks/subnets/join/action",
    }
    assert ROLE - {*NEEDED, *FOR_ADDRESSES, FOR_ADOPTION} == by_file
