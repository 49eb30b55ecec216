"""What `check-cloud` asks Azure: each missing permission by name, and nothing that does harm."""

from __future__ import annotations

from dataclasses import replace

import pytest

from nodemanager.cloud.checks import CheckStatus, Found, Wanted
from nodemanager.core.model.world import Size
from tests.cloud import asking
from tests.cloud.azure.helpers import POOL, SMALL, cloud
from tests.cloud.azure.server import AzureServer, changed, refusal
from tests.cloud.azure.world import GROUP

pytestmark = pytest.mark.socket


def asked(azure: AzureServer, *sizes: Size, **create: str) -> dict[str, Found]:
    return asking.asked(cloud(azure, create=create), Wanted(POOL, sizes or (SMALL,)))


def test_all_is_fine_and_nothing_is_changed(azure: AzureServer) -> None:
    found = asked(azure, SMALL, replace(SMALL, name="x", preemptible=True))
    assert {name: one.mark for name, one in found.items()} == {
        f"permissions on {GROUP}": CheckStatus.FINE,
        "offer of Standard_D2s_v5": CheckStatus.FINE,
    }
    assert found["offer of Standard_D2s_v5"].text == "in eastus: 2 cores, 8192 MB"
    assert all(call.body is None for call in azure.calls)


def test_nothing_is_sent_before_a_check_is_asked(azure: AzureServer) -> None:
    cloud(azure).preflight(Wanted(POOL, (SMALL,)))
    assert azure.calls == []


@pytest.mark.parametrize(
    ("right", "create", "mark"),
    [
        ("Microsoft.Compute/virtualMachines/delete", {}, CheckStatus.FAILED),
        (
            "Microsoft.Network/publicIPAddresses/write",
            {"assign_public_ip": "yes"},
            CheckStatus.FAILED,
        ),
        ("Microsoft.Network/publicIPAddresses/write", {}, CheckStatus.FINE),
        ("Microsoft.Resources/tags/write", {}, CheckStatus.WARNING),
    ],
)
def test_a_missing_permission_is_named(
    azure: AzureServer, right: str, create: dict[str, str], mark: CheckStatus
) -> None:
    def without(told: dict[str, list[dict[str, list[str]]]]) -> None:
        told["value"] = [{"actions": ["*"], "notActions": [right]}]

    azure.fault("permissions.list", after=changed(without))
    found = asked(azure, **create)[f"permissions on {GROUP}"]
    assert found.mark is mark
    assert (right in found.text) is (mark is not CheckStatus.FINE)


def test_a_second_role_may_have_what_the_first_takes_out(azure: AzureServer) -> None:
    def both(told: dict[str, list[dict[str, list[str]]]]) -> None:
        told["value"] = [
            {"actions": ["Microsoft.Compute/*"], "notActions": ["*/delete"]},
            {"actions": ["*"], "notActions": []},
        ]

    azure.fault("permissions.list", after=changed(both))
    assert asked(azure)[f"permissions on {GROUP}"].mark is CheckStatus.FINE


def test_without_the_reading_rights_little_is_asked_and_nothing_fails(azure: AzureServer) -> None:
    azure.allowed_everywhere = set()
    azure.allowed = {"Microsoft.Compute/virtualMachines/read"}
    found = asked(azure)
    assert {one.mark for one in found.values()} == {CheckStatus.NOT_ASKED}
    assert all("azure-read.json" in one.to_do for one in found.values())


def test_a_size_that_azure_never_has_as_a_spot_node_is_told(azure: AzureServer) -> None:
    """The other sizes that a cloud has not, or otherwise, are in tests/cloud/test_sizes.py."""
    plain, spot = (Size("a", "Standard_A1_v2", 1, 2048, preemptible=one) for one in (False, True))
    for found in (asked(azure, spot), asked(azure, plain, preemptible="yes")):
        assert found["offer of Standard_A1_v2"].mark is CheckStatus.FAILED
        assert "never as a spot node" in found["offer of Standard_A1_v2"].text


def test_a_restricted_size_is_told_with_azures_reason(azure: AzureServer) -> None:
    azure.world.restricted = {SMALL.name}
    found = asked(azure)[f"offer of {SMALL.name}"]
    assert (found.mark, "NotAvailableForSubscription" in found.text) == (CheckStatus.FAILED, True)


@pytest.mark.parametrize(("zone", "mark"), [("1", CheckStatus.FINE), ("2", CheckStatus.FAILED)])
def test_a_restriction_of_a_zone_is_one_only_there(
    azure: AzureServer, zone: str, mark: CheckStatus
) -> None:
    def zonal(told: dict[str, list[dict[str, object]]]) -> None:
        about = {"type": "Zone", "reasonCode": "Quota", "restrictionInfo": {"zones": ["2"]}}
        for one in told["value"]:
            one["restrictions"] = [about]

    azure.fault("skus.list", after=changed(zonal))
    assert asked(azure, zone=zone)[f"offer of {SMALL.name}"].mark is mark


def test_an_answer_that_fails_is_no_word_about_permissions(azure: AzureServer) -> None:
    azure.fault("permissions.list", before=refusal("InternalServerError", 500))
    found = asked(azure)[f"permissions on {GROUP}"]
    assert (found.mark, "InternalServerError" in found.text) == (CheckStatus.FAILED, True)
