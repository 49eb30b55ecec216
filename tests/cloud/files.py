"""A configuration file for each cloud's stand-in, and what the checks say of it."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

from nodemanager.app import adapters
from nodemanager.config import load
from nodemanager.preflight.checks import CheckResult, ask_all
from tests.cloud.azure import auth as azure_auth
from tests.cloud.azure import helpers as azure_helpers
from tests.cloud.azure import world as azure_world
from tests.cloud.azure.server import AzureServer
from tests.cloud.ec2.moto_server import MotoServer
from tests.cloud.gce import auth as gce_auth
from tests.cloud.gce import helpers as gce_helpers
from tests.cloud.gce.server import GceServer
from tests.cloud.libvirt import driver as libvirt_driver
from tests.cloud.openstack import helpers as openstack_helpers
from tests.cloud.openstack import things as openstack_things
from tests.cloud.openstack.server import OpenStackServer
from tests.fakes.clock import ManualClock

COMMON = """[Daemon]
pool = mine
{daemon}
[Records]
provider = registry
[Cloud]
provider = {provider}
"""


def write(home: Path, provider: str, text: str, daemon: str = "") -> Path:
    """The file; `text` goes on from its section [Cloud], `daemon` is of the section [Daemon]."""
    path = home / "mine.cfg"
    common = COMMON.format(provider=provider, daemon=daemon)
    path.write_text(common + text, encoding="utf-8")
    return path


def asked(home: Path, provider: str, text: str, daemon: str = "") -> dict[str, CheckResult]:
    """Every answer of check-cloud by its check's name."""
    config = load(write(home, provider, text, daemon), accepts=adapters.accepted_keys)
    with closing(adapters.build_cloud(config, ManualClock())) as cloud:
        return {one.name: one for one in ask_all(config, cloud, ManualClock())}


def of_ec2(server: MotoServer) -> str:
    return f"""[Cloud Credentials]
key = AKIDEXAMPLE
secret = wJalrXUtnFEMI
endpoint = {server.url}
[Cloud Create]
image_id = ami-12345678
"""


def of_gce(server: GceServer) -> str:
    return f"""[Cloud Credentials]
key = {gce_auth.key_file()}
endpoint = {server.url}
token_endpoint = {server.url}
[Cloud Create]
zone = {gce_helpers.ZONE}
image = {gce_helpers.IMAGE}
"""


def of_azure(server: AzureServer) -> str:
    return f"""[Cloud Credentials]
subscription_id = {azure_auth.SUBSCRIPTION}
tenant_id = {azure_auth.TENANT}
key = {azure_auth.CLIENT}
secret = {azure_auth.SECRET}
region = {azure_world.REGION}
endpoint = {server.url}
login_endpoint = {server.url}
[Cloud List]
resource_group = {azure_world.GROUP}
[Cloud Create]
image = {azure_helpers.IMAGE}
network = Net
ssh_key = {azure_helpers.public_key()}
"""


def of_openstack(server: OpenStackServer) -> str:
    credentials = {"auth_url": server.auth_url, **openstack_helpers.BY_CREDENTIAL}
    lines = "\n".join(f"{key} = {value}" for key, value in credentials.items())
    return f"""[Cloud Credentials]
{lines}
[Cloud Create]
image = {openstack_things.IMAGE}
"""


def of_libvirt() -> str:
    """For the hypervisor that `libvirt_driver.hypervisor` opens."""
    return f"""driver_class = {libvirt_driver.DRIVER}
[Cloud Credentials]
uri = {libvirt_driver.URI}
[Cloud Create]
storage_pool = {libvirt_driver.POOL}
image = {libvirt_driver.IMAGE}
"""
