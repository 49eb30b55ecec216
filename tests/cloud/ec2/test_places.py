"""Zones and subnets of EC2: where a node is created, what is full, what check-cloud says (D6)."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from nodemanager.cloud.checks import CheckStatus, Found, Wanted
from nodemanager.cloud.ec2.adapter import build_cloud
from nodemanager.cloud.ec2.order import run_params
from nodemanager.errors import CloudError, ConfigError, PlaceFull, QuotaExceeded, Throttled
from tests.cloud import asking
from tests.cloud.cloud_config import cloud_config
from tests.cloud.ec2.helpers import POOL, SMALL, by_hand, cloud, order
from tests.cloud.ec2.moto_server import MotoServer, refusal

OPTION = "[Size m5.large] places"
ZONE = "us-east-1a"


def built(*places: str, **create: str) -> Any:
    config = cloud_config(
        credentials={"key": "a", "secret": "b"},
        create={"image_id": "ami-1", **create},
        places=dict.fromkeys(places, OPTION),
    )
    return build_cloud(config)


def params(place: str | None, **create: str) -> dict[str, str]:
    template = built(**create)._provider.template
    return run_params(order(place=place), template, 0)


def problems(*places: str, **create: str) -> list[str]:
    with pytest.raises(ConfigError) as caught:
        built(*places, **create)
    return caught.value.problems


def test_a_subnet_or_a_zone_is_ordered_in_place_of_the_files() -> None:
    subnet = params("subnet-2", subnet_id="subnet-1", availability_zone="us-east-1b")
    assert subnet["SubnetId"] == "subnet-2"
    assert "Placement.AvailabilityZone" not in subnet
    zone = params(ZONE, availability_zone="us-east-1b")
    assert zone["Placement.AvailabilityZone"] == ZONE
    assert "SubnetId" not in zone
    public = params("subnet-2", assign_public_ip="yes")
    assert public["NetworkInterface.1.SubnetId"] == "subnet-2"


def test_without_a_place_the_order_is_as_the_file_says() -> None:
    given = params(None, subnet_id="subnet-1", availability_zone="us-east-1b")
    assert (given["SubnetId"], given["Placement.AvailabilityZone"]) == ("subnet-1", "us-east-1b")


def test_a_place_that_can_be_no_zone_of_the_region_is_refused_with_the_near_one() -> None:
    (told,) = problems("us-east-1a", "us-eats-1b")
    assert told.startswith(f"{OPTION}: us-eats-1b is neither")
    assert told.endswith("did you mean 'us-east-1b'?")


def test_a_zone_beside_a_subnet_of_the_file_is_refused_and_a_subnet_is_not() -> None:
    (told,) = problems(ZONE, "subnet-2", subnet_id="subnet-1")
    assert f"{OPTION}: {ZONE} is a zone" in told


def test_names_of_groups_beside_subnets_are_refused() -> None:
    (told,) = problems("subnet-2", security_groups="default")
    assert "security_groups" in told
    assert built(ZONE, security_groups="default") is not None


@pytest.mark.parametrize("code", ["Unsupported", "InsufficientFreeAddressesInSubnet"])
def test_a_place_that_takes_no_node_is_full_whatever_the_code(
    server: MotoServer, code: str
) -> None:
    server.full = {ZONE: code}
    with pytest.raises(PlaceFull, match=code):
        cloud(server, places={ZONE: OPTION}).create(order(place=ZONE))


@pytest.mark.parametrize(
    ("code", "error"),
    [
        ("InsufficientFreeAddressesInSubnet", QuotaExceeded),
        ("InstanceLimitExceeded", QuotaExceeded),
        ("RequestLimitExceeded", Throttled),
        ("InternalError", CloudError),
    ],
)
def test_any_other_refusal_is_no_places(
    server: MotoServer, code: str, error: type[CloudError]
) -> None:
    """Nor is a full subnet where the pool has no places."""
    ec2 = cloud(server)
    server.fault("RunInstances", before=refusal(code, 400))
    place = None if code == "InsufficientFreeAddressesInSubnet" else ZONE
    with pytest.raises(error) as refused:
        ec2.create(order(place=place))
    assert not isinstance(refused.value, PlaceFull)


def test_a_pool_without_places_does_not_read_where_its_nodes_are(server: MotoServer) -> None:
    ec2 = cloud(server)
    assert ec2.create(order()).places == ()
    assert [node.places for node in ec2.list_nodes().items] == [()]


def asked(server: MotoServer, *places: str) -> dict[str, Found]:
    size = replace(SMALL, places=places)
    ec2 = cloud(server, places=dict.fromkeys(places, OPTION))
    return asking.asked(ec2, Wanted(POOL, (size,)))


def test_each_place_is_looked_up_by_name_and_a_wrong_zone_is_told_with_the_near_one(
    server: MotoServer,
) -> None:
    subnet = by_hand(server, "DescribeSubnets")["subnetId"]
    wrong = subnet[:-1] + ("0" if subnet[-1] != "0" else "1")
    found = asked(server, ZONE, "us-east-1z", subnet, wrong)
    assert found[f"place {ZONE}"] == Found(f"{ZONE} is available")
    zone = found["place us-east-1z"]
    assert zone.mark is CheckStatus.FAILED
    assert "did you mean 'us-east-1" in zone.text
    assert ZONE in zone.to_do
    assert found[f"place {subnet}"].mark is CheckStatus.FINE
    assert found[f"place {wrong}"].mark is CheckStatus.FAILED
    assert "InvalidSubnetID.NotFound" in found[f"place {wrong}"].text


def test_a_place_without_the_right_to_look_is_not_asked(server: MotoServer) -> None:
    server.fault("DescribeAvailabilityZones", before=refusal("UnauthorizedOperation", 403))
    found = asked(server, ZONE)[f"place {ZONE}"]
    assert found.mark is CheckStatus.NOT_ASKED
    assert "ec2-check.json" in found.to_do
