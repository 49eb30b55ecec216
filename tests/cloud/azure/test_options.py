"""What an Azure file may say, and what is wrong with one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from nodemanager.app import adapters
from nodemanager.config import load
from nodemanager.errors import ConfigError
from tests.cloud.azure.helpers import cloud, public_key
from tests.cloud.azure.world import HOME, SIZES
from tests.fakes.clock import ManualClock

EXAMPLE = Path(__file__).parents[2] / "config/files/azure.cfg"
NOWHERE = "http://127.0.0.1:1"


def build(**settings: Any) -> Any:
    return cloud(NOWHERE, **settings)


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        ({"credentials": {"region": "East-US"}}, "[Cloud Credentials] region = East-US: is no"),
        (
            {"credentials": {"cloud_environment": "AzureGermanCloud"}},
            "[Cloud Credentials] cloud_environment = AzureGermanCloud: not one of default, Azure",
        ),
        (
            {"credentials": {"endpoint": "http://example.org"}},
            "[Cloud Credentials] endpoint = http://example.org: plain http is for loopback",
        ),
        (
            {"credentials": {"login_endpoint": "http://example.org"}},
            "[Cloud Credentials] login_endpoint = http://example.org: plain http is for loopback",
        ),
        ({"listing": {"resource_group": "a b"}}, "[Cloud List] resource_group = a b: is no name"),
        ({"listing": {"tag_nodemanager-pool": "x"}}, "[Cloud List] tag_nodemanager-pool: this"),
        ({"create": {"tag_a?": "x"}}, "[Cloud Create] tag_a?: Azure takes no such name"),
        ({"create": {"tag_a": "x" * 257}}, "[Cloud Create] tag_a: Azure takes at most 256"),
        (
            {"create": {f"tag_{number}": "x" for number in range(46)}},
            "[Cloud Create] tag_: Azure takes 50 tags",
        ),
        ({"create": {"image": "Ubuntu"}}, "[Cloud Create] image = Ubuntu: neither"),
        (
            {"create": {"image": "https://store.blob.core.windows.net/x.vhd"}},
            "[Cloud Create] image = https://store.blob.core.windows.net/x.vhd: Azure boots no VHD",
        ),
        ({"create": {"network": "a/b"}}, "[Cloud Create] network = a/b: neither a name"),
        ({"create": {"ex_user_name": "a b"}}, "[Cloud Create] ex_user_name = a b: is no name"),
        ({"create": {"zone": "4"}}, "[Cloud Create] zone = 4: is 1, 2 or 3"),
        ({"create": {"image_plan": "a:b"}}, "[Cloud Create] image_plan = a:b: is Publisher:"),
        ({"create": {"boot_disk_gb": "-1"}}, "[Cloud Create] boot_disk_gb = -1: not a whole"),
        (
            {"create": {"ex_use_managed_disks": "no"}},
            "[Cloud Create] ex_use_managed_disks: Azure has no unmanaged disks",
        ),
        ({"pool": "x" * 257}, "[Daemon] pool"),
    ],
)
def test_each_mistake_is_told_with_its_section_and_option(
    given: dict[str, Any], problem: str
) -> None:
    """What tests/cloud/every_option.json does not have: values that are nearly right."""
    with pytest.raises(ConfigError) as caught:
        build(**given)
    (told,) = caught.value.problems
    assert told.startswith(problem)


@pytest.mark.parametrize(
    ("environment", "endpoint", "login", "scope"),
    [
        (
            None,
            "https://management.azure.com:443",
            "https://login.microsoftonline.com:443",
            "https://management.azure.com/.default",
        ),
        (
            "AzureChinaCloud",
            "https://management.chinacloudapi.cn:443",
            "https://login.chinacloudapi.cn:443",
            "https://management.chinacloudapi.cn/.default",
        ),
        (
            "AzureUSGovernment",
            "https://management.usgovcloudapi.net:443",
            "https://login.microsoftonline.us:443",
            "https://management.usgovcloudapi.net/.default",
        ),
    ],
)
def test_the_endpoints_are_those_of_the_cloud_environment(
    environment: str | None, endpoint: str, login: str, scope: str
) -> None:
    credentials = {"endpoint": "", "login_endpoint": "", "cloud_environment": environment}
    access = build(credentials=credentials)._provider.access
    assert (str(access.endpoint), str(access.login), access.scope) == (endpoint, login, scope)
    connection = build(credentials=credentials)._drivers.mine().connection
    assert (connection.host, connection.secure) == (access.endpoint.host, True)


@pytest.mark.parametrize(
    ("image", "reference"),
    [
        ("A:b:c:latest", {"publisher": "A", "offer": "b", "sku": "c", "version": "latest"}),
        (f"{HOME}/providers/Microsoft.Compute/images/x", "id"),
        (f"{HOME}/providers/Microsoft.Compute/galleries/g/images/x/versions/1.0.0", "id"),
        ("/CommunityGalleries/g-1/Images/x/Versions/latest", "communityGalleryImageId"),
        ("/SharedGalleries/g-1/Images/x/Versions/latest", "sharedGalleryImageId"),
    ],
)
def test_an_image_is_an_urn_or_a_resource_id(image: str, reference: Any) -> None:
    found = build(create={"image": image})._provider.template.image
    assert found == (reference if isinstance(reference, dict) else {reference: image})


def test_the_forerunners_example_has_its_meaning(tmp_path: Path) -> None:
    text = EXAMPLE.read_text().replace("/home/someone/.ssh/id_rsa.pub", public_key())
    path = tmp_path / "azure.cfg"
    path.write_text(text.replace("/etc/ssl/certs/ca-certificates.crt", public_key()))
    config = load(path, environ={}, accepts=adapters.accepted_keys)
    built: Any = adapters.build_cloud(config, ManualClock())
    access, template = built._provider.access, built._provider.template
    assert (access.group, access.region, access.timeout) == ("Example", "eastus", 60.0)
    assert template.image["publisher"] == "Canonical"
    assert template.subnet.endswith("/virtualNetworks/Net/subnets/default")
    assert template.user_name == "someone"
    assert template.tags == {"arvados-class": "dynamic-compute"}
    assert built._provider.listed == {"arvados-class": "dynamic-compute"}
    (warning,) = [line for line in config.warnings if "ex_storage_account" in line]
    assert "ignored" in warning
    built.close()


def test_the_table_of_sizes_says_what_azures_api_does() -> None:
    sizes = build().list_sizes()
    known = {size.name: size for size in sizes}
    for name, (cores, ram_gib, disk_gib) in SIZES.items():
        size = known[name]
        assert (size.cores, size.ram_mb) == (cores, ram_gib * 1024)
        assert size.scratch_mb == disk_gib * 1000
    assert len(known) == len(sizes)
    for name, cores, ram_gib, disk_gib in (
        ("Standard_D96ads_v6", 96, 384, 5280),
        ("Standard_D160ads_v7", 160, 640, 8800),
        ("Standard_E20ds_v6", 20, 160, 1100),
        ("Standard_HB176-24rs_v4", 24, 768, 480),
        ("Standard_NC80adis_H100_v5", 80, 640, 7152),
        ("Standard_L8s_v3", 8, 64, 1920),
        ("Standard_L96as_v4", 96, 768, 23_040),
        ("Standard_M8ms", 8, 218.75, 256),
        ("Standard_M832ids_16_v3", 832, 15_200, 400),
        ("Standard_M256lds_v4", 256, 3892, 8800),
        ("Standard_DC96as_v6", 96, 384, 0),
        ("Standard_DC48ds_v3", 48, 384, 2400),
        ("Standard_EC96ads_v5", 96, 672, 3600),
        ("Standard_EC64eds_v6", 64, 512, 3520),
    ):
        assert (known[name].cores, known[name].ram_mb) == (cores, ram_gib * 1024)
        assert known[name].scratch_mb == disk_gib * 1000
