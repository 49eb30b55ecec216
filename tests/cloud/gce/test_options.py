"""What a GCE file may say, and what is wrong with one."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from nodemanager.app import adapters
from nodemanager.cloud.gce import options as gce_options
from nodemanager.cloud.gce.adapter import build_cloud
from nodemanager.config import load
from nodemanager.errors import ConfigError
from tests.cloud.cloud_config import cloud_config
from tests.cloud.gce import auth as gce_auth
from tests.cloud.gce.project import MACHINES
from tests.fakes.clock import ManualClock

ROOT = Path(__file__).parents[3]


def build(
    credentials: Mapping[str, str] | None = None,
    listing: Mapping[str, str] | None = None,
    create: Mapping[str, str] | None = None,
    **settings: Any,
) -> Any:
    return build_cloud(
        cloud_config(
            pool=settings.pop("pool", "blue"),
            credentials={"project": "some-project", **(credentials or {})},
            listing=listing or {},
            create={"zone": "us-central1-a", "image": "debian-12", **(create or {})},
            **settings,
        )
    )


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        ({"credentials": {"project": "My_P"}}, "[Cloud Credentials] project = My_P: is no project"),
        ({"credentials": {"auth_type": "SA"}}, "[Cloud Credentials] key: is missing"),
        (
            {"credentials": {"endpoint": "http://example.org"}},
            "[Cloud Credentials] endpoint = http://example.org: plain http is for loopback",
        ),
        (
            {"credentials": {"key": gce_auth.pem()}},
            "[Cloud Credentials] user_id: is missing",
        ),
        ({"listing": {"zone": "here"}}, "[Cloud List] zone = here: is no zone's name"),
        ({"listing": {"tags": "a, B"}}, "[Cloud List] tags = a, B: a network tag"),
        ({"create": {"zone": "us-central1"}}, "[Cloud Create] zone = us-central1: is no zone"),
        ({"create": {"image": "Debian 12"}}, "[Cloud Create] image = Debian 12: neither a name"),
        ({"create": {"image": "images/x"}}, "[Cloud Create] image = images/x: neither a name"),
        ({"create": {"accelerators": "2xT4"}}, "[Cloud Create] accelerators = 2xT4: is a type and"),
        (
            {"create": {"label:nodemanager-pool": "x"}},
            "[Cloud Create] label:nodemanager-pool: ",
        ),
        ({"create": {"label:owner": "Ops"}}, "[Cloud Create] label:owner = Ops: name and value"),
        ({"create": {"boot_disk_gb": "-1"}}, "[Cloud Create] boot_disk_gb = -1: not a whole"),
        (
            {"create": {"service_accounts": "__import__('os')"}},
            "[Cloud Create] service_accounts: is no list like",
        ),
        (
            {"create": {"service_accounts": "[]", "service_account_name": "a@b"}},
            "[Cloud Create] service_account_name: contradicts service_accounts",
        ),
        ({"pool": "P" * 30}, "[Daemon] pool = PPP"),
    ],
)
def test_a_problem_says_where_it_is_and_what_to_do(given: dict[str, Any], problem: str) -> None:
    """What tests/cloud/every_option.json does not have: values that are nearly right."""
    with pytest.raises(ConfigError) as caught:
        build(**given)
    (told,) = caught.value.problems
    assert told.startswith(problem)


@pytest.mark.parametrize(
    ("credentials", "create", "zone"),
    [
        ({}, {"zone": "us-central1-a"}, "us-central1-a"),
        ({}, {"location": "europe-west12-c"}, "europe-west12-c"),
        ({"datacenter": "us-central1-f"}, {}, "us-central1-f"),
        ({"datacenter": "us-central1-f"}, {"zone": "us-south1-ai1a"}, "us-south1-ai1a"),
    ],
)
def test_the_zone_may_be_named_as_libcloud_does(
    credentials: dict[str, str], create: dict[str, str], zone: str
) -> None:
    config = cloud_config(
        credentials={"project": "some-project", **credentials}, create={"image": "x", **create}
    )
    access, _, _ = gce_options.read(config, timeout=60.0)
    assert access.zone == zone


def test_the_forerunners_example_filled_in_builds_the_adapter(tmp_path: Path) -> None:
    key = tmp_path / "key.pem"
    key.write_text(gce_auth.pem())
    text = (ROOT / "tests/config/files/gce.cfg").read_text()
    path = tmp_path / "gce.cfg"
    path.write_text(text.replace("/etc/nodes/key.pem", str(key)))
    config = load(path, accepts=adapters.accepted_keys)
    built: Any = adapters.build_cloud(config, ManualClock())
    try:
        provider = built._provider
        assert (provider.access.zone, provider.access.project) == ("us-central1-a", "some-project")
        assert provider.access.info["client_email"] == "someone@example.iam.gserviceaccount.com"
        assert set(provider.listed.tags) == {"zzzzz", "compute"}
        assert provider.template.tags == ("compute", "zzzzz")
        (account,) = provider.template.service_accounts
        assert (account.email, account.scopes) == ("a@example.org", ("storage-ro",))
        assert (provider.template.network, provider.template.assign_public_ip) == ("default", True)
        assert built.may_authorise
    finally:
        built.close()


def test_an_adapters_problem_gets_its_file_and_line(tmp_path: Path) -> None:
    path = tmp_path / "gce.cfg"
    path.write_text(
        "[Cloud]\nprovider = gce\n[Cloud Credentials]\nproject = p1\n[Cloud Create]\n"
        "zone = us-central1-a\nimage = x\nscratch_disk_type = tape\n"
    )
    with pytest.raises(ConfigError, match=re.escape(f"{path}:8: [Cloud Create] scratch_disk_type")):
        adapters.build_cloud(load(path), ManualClock())


def test_sizes_are_told_without_a_request() -> None:
    """A start must not depend on Google's answer."""
    sizes = {size.name: (size.cores, size.ram_mb) for size in build().list_sizes()}
    for name, told in MACHINES.items():
        assert sizes[name] == told
    assert len(sizes) == len(build().list_sizes())
    assert sizes["n1-highmem-96"] == (96, 638_976)


@pytest.mark.parametrize(
    ("name", "cores", "ram_gb"),
    [
        ("c4-standard-2", 2, 7),
        ("c4-highmem-192-lssd", 192, 1488),
        ("c4a-highmem-72", 72, 576),
        ("c4d-highcpu-4", 4, 7),
        ("c3d-highcpu-30", 30, 59),
        ("g2-standard-96", 96, 384),
        ("a3-highgpu-8g", 208, 1872),
        ("m4-ultramem-224", 224, 5952),
        ("z3-highmem-88-standardlssd", 88, 704),
        ("n4d-standard-96", 96, 384),
    ],
)
def test_types_of_each_family_are_as_google_lists_them(name: str, cores: int, ram_gb: int) -> None:
    (found,) = (size for size in build().list_sizes() if size.name == name)
    assert (found.cores, found.ram_mb) == (cores, ram_gb * 1024)


def test_libclouds_gce_is_imported_only_where_it_is_chosen() -> None:
    code = (
        "import sys; from nodemanager import cli; from nodemanager.app import adapters;"
        "adapters.accepted_keys('gce');"
        "print('libcloud.compute.drivers.gce' in sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT, check=True
    )
    assert done.stdout.strip() == "False"
