"""What `check-cloud` asks OpenStack: its flavors and zones, and refusals in its own words."""

from __future__ import annotations

import pytest

from nodemanager.cloud.checks import CheckStatus, Found, Wanted
from nodemanager.core.model.world import Size
from tests.cloud.asking import asked
from tests.cloud.openstack.account import ZONE
from tests.cloud.openstack.helpers import BY_CREDENTIAL, POOL, SMALL, cloud
from tests.cloud.openstack.server import OpenStackServer, plain, refusal
from tests.cloud.openstack.test_rights import rules_of
from tests.cloud.openstack.things import IMAGE

pytestmark = pytest.mark.socket

EVERYTHING = {"availability_zone": ZONE, "boot_volume_gb": "20"}


def answers(
    server: OpenStackServer,
    *sizes: Size,
    credentials: dict[str, str] = BY_CREDENTIAL,
    **create: str,
) -> dict[str, Found]:
    ours = cloud(server, credentials=credentials, create={"image": IMAGE, **create})
    return asked(ours, Wanted(POOL, sizes or (SMALL,)))


def placed(name: str) -> list[dict[str, str]]:
    """The access rules of etc/iam with the paths that the server has."""
    mounts = {"compute": "/compute", "image": "/image", "network": "/networking"}
    return [
        {**rule, "path": mounts.get(rule["service"], "/volume") + rule["path"]}
        | ({"service": "block-storage"} if rule["service"] == "volumev3" else {})
        for rule in rules_of(name)
    ]


def failed(found: dict[str, Found]) -> set[str]:
    return {name for name, one in found.items() if one.mark is CheckStatus.FAILED}


def test_where_all_is_well_every_check_says_so_and_nothing_is_made(
    openstack: OpenStackServer,
) -> None:
    found = answers(openstack, **EVERYTHING)
    assert {name: one for name, one in found.items() if one.mark is not CheckStatus.FINE} == {}
    assert openstack.nova.servers == {}
    sent = {call.action for call in openstack.calls if " GET " not in call.action}
    assert sent == {"identity POST /auth/tokens"}


def test_a_refusal_is_told_by_the_policy_s_own_name(openstack: OpenStackServer) -> None:
    said = "Policy doesn't allow os_compute_api:flavors to be performed."
    openstack.fault("compute GET /flavors/detail", times=9, before=refusal(403, said))
    found = answers(openstack)["offer of m1.small"]
    assert found.mark is CheckStatus.NOT_ASKED
    assert "Policy doesn't allow os_compute_api:flavors" in found.text


def test_what_only_the_checks_read_is_not_asked_without_their_rules(
    openstack: OpenStackServer,
) -> None:
    openstack.account.rules = placed("openstack.json")
    found = answers(openstack, **EVERYTHING)
    assert failed(found) == set()
    unasked = {name for name, one in found.items() if one.mark is CheckStatus.NOT_ASKED}
    assert unasked == {f"place {ZONE}"}
    assert "openstack-check.json" in found[f"place {ZONE}"].to_do


def test_the_checks_rules_are_those_of_their_calls_alone(openstack: OpenStackServer) -> None:
    answers(openstack, **EVERYTHING)
    from tests.cloud.openstack.test_rights import fits

    called = {
        (call.action.split(" ")[1], call.path)
        for call in openstack.calls
        if not call.path.startswith("/identity")
    }
    usual, more = rules_of("openstack.json"), rules_of("openstack-check.json")
    rest = [one for one in called if not any(fits(rule, *one) for rule in usual)]
    assert all(any(fits(rule, *one) for rule in more) for one in rest)
    assert all(any(fits(rule, *one) for one in rest) for rule in more)
    assert {rule["method"] for rule in more} == {"GET"}


def test_an_error_of_one_check_stops_no_other(openstack: OpenStackServer) -> None:
    openstack.fault("compute GET /os-availability-zone", before=plain(503, "no"))
    found = answers(openstack, **EVERYTHING)
    assert failed(found) == {f"place {ZONE}"}
    assert found["offer of m1.small"].mark is CheckStatus.FINE


# What nodes are made of.


def test_a_flavor_s_disk_is_held_against_the_file(openstack: OpenStackServer) -> None:
    """Names, cores and memory are in tests/cloud/test_sizes.py."""
    small = Size("a", "m1.small", 1, 1, scratch_mb=30_000)
    found = answers(openstack, small, Size("b", "g1.huge", 64, 1))
    assert found["offer of m1.small"].mark is CheckStatus.WARNING
    assert "30000" in found["offer of m1.small"].text
    assert found["offer of g1.huge"].mark is CheckStatus.FAILED
    assert "no disk to boot from" in found["offer of g1.huge"].text


def test_a_boot_volume_makes_up_for_a_flavor_s_disk(openstack: OpenStackServer) -> None:
    huge = Size("a", "g1.huge", 64, 1)
    found = answers(openstack, huge, boot_volume_gb="30")["offer of g1.huge"]
    assert found.mark is CheckStatus.FINE


def test_a_disabled_flavor_is_told(openstack: OpenStackServer) -> None:
    openstack.nova.flavors[0]["OS-FLV-DISABLED:disabled"] = True
    assert answers(openstack)["offer of m1.small"].mark is CheckStatus.FAILED


def test_a_zone_that_is_down_is_told(openstack: OpenStackServer) -> None:
    openstack.account.zones[ZONE] = False
    found = answers(openstack, availability_zone=ZONE)
    assert failed(found) == {f"place {ZONE}"}
