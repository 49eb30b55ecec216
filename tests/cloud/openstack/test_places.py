"""Several availability zones: a zone in which nova has no host for a node takes none (D6)."""

from __future__ import annotations

from dataclasses import replace

import pytest

from nodemanager.cloud.checks import CheckStatus, Found, Wanted
from nodemanager.core.model.world import CloudState
from nodemanager.errors import BadRequest, CapacityUnavailable, ConfigError, PlaceFull
from tests.cloud import asking
from tests.cloud.openstack.helpers import POOL, SMALL, cloud, order
from tests.cloud.openstack.nova import NO_VALID_HOST
from tests.cloud.openstack.server import OpenStackServer
from tests.cloud.orders import finished

pytestmark = pytest.mark.socket

OPTION = "[Cloud] places"
PLACES = dict.fromkeys(("nova", "az-2"), OPTION)


def test_a_server_without_a_host_is_told_as_refused_once_it_is_gone(
    openstack: OpenStackServer,
) -> None:
    """P2: it has the node's tags, and another node with these would be its double."""
    nova, ours = openstack.nova, cloud(openstack, places=PLACES)
    nova.full, nova.delete_s = {"nova"}, 1000.0
    made = ours.create(order(place="nova"))
    pending: object = made.pending
    for _ in range(3):
        pending = ours.finish(str(pending), "nova")
        assert str(pending).startswith(f"{made.id} No valid host")
    nova.servers[made.id].gone_at = 0.0
    # Another process may ask: all that it needs is in the text.
    refused = cloud(openstack, places=PLACES).finish(str(pending), "nova")
    assert isinstance(refused, PlaceFull)
    assert "No valid host" in str(refused)


@pytest.mark.parametrize(
    "fault",
    [
        "Build of instance aborted: Volume did not finish being created",
        "Failed to allocate the network(s), not rescheduling.",
    ],
)
def test_a_server_that_boots_for_long_or_fails_otherwise_is_left_to_the_listings(
    openstack: OpenStackServer, monkeypatch: pytest.MonkeyPatch, fault: str
) -> None:
    """U6: once the create was accepted, no other error may say that nothing was made."""
    ours = cloud(openstack, places=PLACES)
    openstack.nova.boot_s = 1000.0
    slow = ours.create(order(place="nova"))
    assert (slow.state, ours.finish(slow.pending, "nova")) == (CloudState.PENDING, slow.pending)
    monkeypatch.setattr("tests.cloud.openstack.nova.NO_VALID_HOST", fault)
    openstack.nova.boot_s, openstack.nova.full = 0.0, {"nova"}
    failed = finished(ours, order(place="nova"))
    node = ours.ask(failed.id)
    assert node is not None
    assert (node.state, node.why) == (CloudState.STOPPED, fault)
    assert len(openstack.nova.servers) == 2


@pytest.mark.parametrize(
    "fault",
    [
        NO_VALID_HOST,
        "Exceeded maximum number of retries. Exhausted all hosts available for retrying build "
        "failures for instance 4f3e.",
    ],
)
def test_without_a_place_no_host_is_no_capacity_and_the_server_is_ended(
    openstack: OpenStackServer, monkeypatch: pytest.MonkeyPatch, fault: str
) -> None:
    monkeypatch.setattr("tests.cloud.openstack.nova.NO_VALID_HOST", fault)
    openstack.nova.no_host = True
    with pytest.raises(CapacityUnavailable) as refused:
        finished(cloud(openstack), order())
    assert fault in str(refused.value)
    assert not isinstance(refused.value, PlaceFull)
    assert openstack.nova.servers == {}


def test_a_zone_that_nova_does_not_know_is_a_bad_request(openstack: OpenStackServer) -> None:
    with pytest.raises(BadRequest) as refused:
        cloud(openstack, places=PLACES).create(order(place="az-9"))
    assert not isinstance(refused.value, PlaceFull)


def test_an_id_is_no_zone(openstack: OpenStackServer) -> None:
    network = "00000000-0000-4000-8000-000000000001"
    with pytest.raises(ConfigError) as caught:
        cloud(openstack, places={network: OPTION})
    (told,) = caught.value.problems
    assert told.startswith(f"{OPTION}: {network} is an id")


def test_each_zone_is_looked_up_and_a_wrong_one_is_told_with_the_near_one(
    openstack: OpenStackServer,
) -> None:
    ours = cloud(openstack, places=PLACES)
    size = replace(SMALL, places=("nova", "nowa"))
    found = asking.asked(ours, Wanted(POOL, (size,)))
    assert found["place nova"] == Found("nova is available")
    assert found["place nowa"].mark is CheckStatus.FAILED
    assert "did you mean 'nova'?" in found["place nowa"].text
