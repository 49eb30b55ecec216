"""Several availability zones: a zone in which nova has no host for a node takes none (D6)."""

from __future__ import annotations

from dataclasses import replace

import pytest

from nodemanager.cloud.checks import CheckStatus, Found, Wanted
from nodemanager.core.model.world import CloudState
from nodemanager.errors import BadRequest, ConfigError, PlaceFull
from tests.cloud import asking
from tests.cloud.openstack.helpers import POOL, SMALL, cloud, order
from tests.cloud.openstack.server import OpenStackServer

pytestmark = pytest.mark.socket

OPTION = "[Cloud] places"
PLACES = dict.fromkeys(("nova", "az-2"), OPTION)


def test_a_zone_without_a_host_is_told_its_server_is_ended_and_the_next_zone_takes_the_node(
    openstack: OpenStackServer,
) -> None:
    ours = cloud(openstack, places=PLACES)
    openstack.nova.boot_s = 0.3
    openstack.nova.full = {"nova"}
    first = order(place="nova")
    with pytest.raises(PlaceFull, match="No valid host") as full:
        ours.create(first)
    assert (full.value.place, full.value.lingers, full.value.definite) == ("nova", False, True)
    assert openstack.nova.servers == {}
    node = ours.create(replace(first, place="az-2"))
    assert node.places == ("az-2",)
    assert [one.places for one in ours.list_nodes().items] == [("az-2",)]


def test_what_is_left_of_it_is_told_while_it_lingers(
    openstack: OpenStackServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("nodemanager.cloud.openstack.adapter.WAIT_S", 0.2)
    openstack.nova.full, openstack.nova.delete_s = {"nova"}, 60.0
    with pytest.raises(PlaceFull) as full:
        cloud(openstack, places=PLACES).create(order(place="nova"))
    assert full.value.lingers


def test_a_server_that_boots_for_long_or_fails_otherwise_is_left_to_the_listings(
    openstack: OpenStackServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """U6: once the create was accepted, no other error may say that nothing was made."""
    monkeypatch.setattr("nodemanager.cloud.openstack.adapter.WAIT_S", 0.2)
    ours = cloud(openstack, places=PLACES)
    openstack.nova.boot_s = 60.0
    assert ours.create(order(place="nova")).state is CloudState.PENDING
    monkeypatch.setattr("tests.cloud.openstack.nova.NO_VALID_HOST", "Build of instance aborted")
    openstack.nova.boot_s, openstack.nova.full = 0.0, {"nova"}
    assert ours.create(order(place="nova")).state is CloudState.STOPPED
    assert len(openstack.nova.servers) == 2


def test_without_a_place_a_server_in_error_is_left_to_the_listings_as_ever(
    openstack: OpenStackServer,
) -> None:
    openstack.nova.no_host = True
    node = cloud(openstack).create(order())
    assert (node.state, node.places) == (CloudState.STOPPED, ())
    assert len(openstack.nova.servers) == 1


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
