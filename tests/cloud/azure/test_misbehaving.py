"""What goes wrong between us and Azure beyond what every cloud's suite tries: the sign-in of a
machine's own identity, and an operation that fails for lack of room."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing

import pytest

from nodemanager.cloud.api import CloudDriver
from nodemanager.core.model.world import CloudNode
from nodemanager.errors import CapacityUnavailable, CloudError
from tests.cloud import test_misbehaving
from tests.cloud.azure.server import AzureServer
from tests.cloud.azure.test_deeds import NO_ROOM
from tests.cloud.each_request import each_request
from tests.cloud.orders import finished
from tests.cloud.world import World
from tests.cloud.worlds import azure_world

pytestmark = pytest.mark.socket


@pytest.fixture
def identity() -> Iterator[World]:
    """Azure, and a manager that signs in as the machine that it runs on."""
    with azure_world(own_identity=True) as world, closing(world.straight):
        yield world


def test_the_sign_in_of_the_machines_own_identity_may_go_wrong_as_well(identity: World) -> None:
    node = identity.straight.create(identity.order())
    for how, listing in each_request(
        identity, lambda driver: driver.list_nodes(), anew=True, only_asks=True
    ):
        assert isinstance(listing, CloudError) or [one.id for one in listing.items] == [node.id], (
            how
        )


def test_the_wait_that_its_sign_in_asks_for_is_passed_on_d6(identity: World) -> None:
    test_misbehaving.test_each_call_passes_on_the_wait_that_it_is_asked_for_d6(identity)


def test_a_create_without_room_that_went_wrong_leaves_nothing_that_is_not_listed_u6(
    azure: AzureServer,
) -> None:
    """Azure takes the order, its operation fails, and what is left of the machine is deleted. Each
    request of that meets each fault."""
    with azure_world() as world, closing(world.straight):
        asked = world.order()

        def create(driver: CloudDriver) -> CloudNode:
            nonlocal asked
            asked = world.order()
            azure.world.create_fails = [NO_ROOM]
            return finished(driver, asked)

        ways = set()
        for how, came in each_request(world, create, least=4):
            record = asked.tags.record
            assert record is not None
            found = world.straight.find_by_record(record)
            assert len(found) <= 1, how
            ways.add(type(came))
            if isinstance(came, CloudError):
                # What fails may be a question for the create's end, which is asked again (D6).
                is_told = isinstance(came, CapacityUnavailable)
                assert not is_told or found == (), how
            else:
                assert {one.id for one in found} <= {came.id}, how
            for one in found:
                world.straight.destroy(one.id)
        assert {CapacityUnavailable, CloudError} <= ways
