"""Several zones of Azure's: where a node is created, and what a full zone is told as (D6)."""

from __future__ import annotations

from dataclasses import replace

import pytest

from nodemanager.cloud.azure.order import machine_name
from nodemanager.cloud.checks import CheckStatus, Found, Wanted
from nodemanager.errors import ConfigError, PlaceFull, QuotaExceeded
from tests.cloud import asking
from tests.cloud.azure.helpers import POOL, SMALL, cloud, order
from tests.cloud.azure.server import AzureServer, changed, refusal
from tests.cloud.orders import finished

pytestmark = pytest.mark.socket

OPTION = "[Cloud] places"
PLACES = dict.fromkeys(("1", "2"), OPTION)
NO_ROOM = ("ZonalAllocationFailed", "no room")


def test_a_zone_may_be_full_at_once(azure: AzureServer) -> None:
    azure.fault("virtualMachines.put", before=refusal("SkuNotAvailable", 409))
    with pytest.raises(PlaceFull) as full:
        cloud(azure, places=PLACES).create(replace(order(), place="1"))
    assert full.value.place == "1"


def test_a_machine_without_room_is_told_as_refused_once_it_is_gone_and_the_next_has_another_name(
    azure: AzureServer,
) -> None:
    """P2, U9: it has the node's tags, and another node with these would be its double."""
    world, ours = azure.world, cloud(azure, places=PLACES)
    world.create_fails = [NO_ROOM]
    first = replace(order(), place="1")
    made = ours.create(first)
    world.takes = 1000.0
    pending: object = made.pending
    for _ in range(3):
        pending = ours.finish(str(pending), "1")
        assert "no room" in str(pending)
    assert len(azure.called("virtualMachines.delete")) == 1
    for one in world.operations.values():
        one.due = 0.0
    # Another process may ask: all that it needs is in the text.
    refused = cloud(azure, places=PLACES).finish(str(pending), "1")
    assert isinstance(refused, PlaceFull)
    assert "ZonalAllocationFailed: no room" in str(refused)
    life = str(first.tags.incarnation)
    assert len({machine_name("n", life, zone) for zone in (None, "1", "2")}) == 3


def test_a_quota_is_no_full_zone(azure: AzureServer) -> None:
    azure.world.create_fails = [("QuotaExceeded", "no")]
    with pytest.raises(QuotaExceeded):
        finished(cloud(azure, places=PLACES), replace(order(), place="1"))


def test_a_zone_that_azure_has_nowhere_is_refused(azure: AzureServer) -> None:
    with pytest.raises(ConfigError) as caught:
        cloud(azure, places={"1": OPTION, "eastus-4": OPTION})
    assert caught.value.problems == [
        f"{OPTION}: eastus-4 is no zone of Azure: they are 1, 2, 3",
    ]


def test_each_zone_is_asked_whether_it_has_the_sizes(azure: AzureServer) -> None:
    def zonal(told: dict[str, list[dict[str, object]]]) -> None:
        about = {"type": "Zone", "reasonCode": "Quota", "restrictionInfo": {"zones": ["2"]}}
        for one in told["value"]:
            one["restrictions"] = [about]
            one["locationInfo"] = [{"location": "eastus", "zones": ["1", "2"]}]

    azure.fault("skus.list", after=changed(zonal))
    size = replace(SMALL, places=("1", "2", "3"))
    found = asking.asked(cloud(azure, places=PLACES), Wanted(POOL, (size,)))
    assert found["place 1"] == Found("zone 1 of eastus")
    assert (found["place 2"].mark, found["place 3"].mark) == (
        CheckStatus.FAILED,
        CheckStatus.FAILED,
    )
    assert "Standard_D2s_v5 is restricted for this subscription: Quota" in found["place 2"].text
    assert "zone 3 has no Standard_D2s_v5" in found["place 3"].text
    assert found[f"offer of {SMALL.name}"].mark is CheckStatus.FINE
