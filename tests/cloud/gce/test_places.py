"""Several zones of Google's: where a node is created, and what a full zone is told as (D6)."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from nodemanager.cloud.checks import CheckStatus, Found, Wanted
from nodemanager.errors import CloudError, ConfigError, PlaceFull, QuotaExceeded
from tests.cloud import asking
from tests.cloud.gce.helpers import POOL, SMALL, ZONE, cloud, order
from tests.cloud.gce.server import GceServer, refusal
from tests.cloud.orders import finished

pytestmark = pytest.mark.socket

OPTION = "[Cloud] places"
OTHER = "us-central1-b"
PLACES = dict.fromkeys((ZONE, OTHER), OPTION)


def test_a_zone_may_be_full_at_once(gce: GceServer) -> None:
    gce.fault("instances.insert", before=refusal("zoneResourcePoolExhausted", 503))
    with pytest.raises(PlaceFull) as full:
        cloud(gce, places=PLACES).create(order(place=ZONE))
    assert full.value.place == ZONE


def test_a_quota_or_an_unclear_answer_is_no_full_zone(gce: GceServer) -> None:
    ours = cloud(gce, places=PLACES)
    for code, expected in (("QUOTA_EXCEEDED", QuotaExceeded), ("INTERNAL_ERROR", CloudError)):
        gce.project.next_fails.append((code, "no"))
        with pytest.raises(expected) as refused:
            finished(ours, order(place=ZONE))
        assert not isinstance(refused.value, PlaceFull)


def test_without_a_zone_of_its_own_the_file_means_the_first_place(gce: GceServer) -> None:
    ours: Any = cloud(gce, create={"zone": ""}, places={OTHER: OPTION})
    assert ours._provider.access.zone == OTHER


def test_what_can_be_no_zone_is_refused(gce: GceServer) -> None:
    with pytest.raises(ConfigError) as caught:
        cloud(gce, places={ZONE: OPTION, "central": OPTION})
    (told,) = caught.value.problems
    assert told.startswith(f"{OPTION}: central is no zone's name")


def asked(gce: GceServer, *places: str) -> dict[str, Found]:
    size = replace(SMALL, places=places)
    ours = cloud(gce, places=dict.fromkeys(places, OPTION))
    return asking.asked(ours, Wanted(POOL, (size,)))


def test_each_zone_is_looked_up_and_a_wrong_one_is_told(gce: GceServer) -> None:
    found = asked(gce, ZONE, "us-central2-b")
    assert found[f"place {ZONE}"] == Found(f"{ZONE} is up")
    wrong = found["place us-central2-b"]
    assert wrong.mark is CheckStatus.FAILED
    assert wrong.text == "Google has no zone us-central2-b"
