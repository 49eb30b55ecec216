"""From a configuration to its adapters."""

from __future__ import annotations

from pathlib import Path

import pytest

from nodemanager import cloud
from nodemanager.app import adapters
from nodemanager.app.state import StateDirectory
from nodemanager.config.providers import PROVIDERS
from nodemanager.core.model.world import Claim
from nodemanager.errors import ConfigError
from tests.conftest import Configured
from tests.fakes.clock import ManualClock


@pytest.mark.parametrize("provider", PROVIDERS)
def test_every_provider_says_which_keys_it_takes(provider: str) -> None:
    keys = adapters.accepted_keys(provider)
    assert keys is not None
    assert set(keys) == {"Cloud Credentials", "Cloud List", "Cloud Create"}
    assert "user_data" in keys["Cloud Create"]


def test_a_provider_without_an_adapter_is_named_with_its_line(configured: Configured) -> None:
    config = configured(provider="nimbus")
    with pytest.raises(ConfigError) as caught:
        adapters.build_cloud(config, ManualClock())
    [problem] = caught.value.problems
    assert problem.startswith(f"{config.path}:5: [Cloud] provider = nimbus: ")
    assert "there are local, dummy, ec2" in problem


LEAST: dict[str, str] = {
    "local": "",
    "dummy": "",
    "ec2": "[Cloud Create]\nimage_id = ami-1\n",
    "gce": "[Cloud Credentials]\nproject = some-project\n"
    "[Cloud Create]\nzone = us-central1-a\nimage = debian-12\n",
    "azure": "[Cloud Credentials]\nsubscription_id = 11111111-2222-4333-8444-555555555555\n"
    "region = eastus\n[Cloud List]\nresource_group = nodes\n"
    f"[Cloud Create]\nimage = A:b:c:latest\nnetwork = nodes\nssh_key = {__file__}\n",
    "openstack": "[Cloud Credentials]\nauth_url = http://127.0.0.1:9/v3\n"
    "application_credential_id = a\napplication_credential_secret = b\n"
    "[Cloud Create]\nimage = debian-12\n",
    "libvirt": "[Cloud Credentials]\nuri = test:///default\n[Cloud Create]\nimage = debian-12\n",
}
"""The sections without which a provider's adapter is not built."""


@pytest.mark.parametrize(
    "provider",
    [
        pytest.param(one, marks=pytest.mark.server(one) if one == "libvirt" else ())
        for one in PROVIDERS
    ],
)
def test_the_provider_builds_its_adapter(configured: Configured, provider: str) -> None:
    built = adapters.build_cloud(configured(LEAST[provider], provider=provider), ManualClock())
    try:
        assert built.provider == provider
    finally:
        built.close()


def test_every_package_of_a_cloud_has_its_row() -> None:
    """An adapter that no row names can't be chosen."""
    packages = Path(cloud.__file__).parent.glob("*/adapter.py")
    assert {adapter.parent.name for adapter in packages} == set(PROVIDERS)


@pytest.mark.socket
def test_the_registry_is_served_where_it_listens(configured: Configured) -> None:
    config = configured("[Registry]\nlisten = 127.0.0.1:0\nslots = 3\n")
    state = StateDirectory(config.daemon.state_dir)
    records = adapters.build_records(config, state, ManualClock())
    assert records.face is not None
    records.face.start()
    try:
        records.served()
        assert records.store.slots() == 3
        claim = Claim("pool", "me", 0, 0.0, "a-node", "0" * 32)
        assert records.store.ping_url(records.store.create(claim)).startswith(records.face.url)
    finally:
        records.face.stop()
        records.store.close()


def test_nodes_ping_the_public_url_unless_ping_host_says_otherwise(configured: Configured) -> None:
    public = "[Registry]\npublic_url = https://registry.example\n"
    config = configured(public)
    assert config.pinged is not None
    assert config.pinged.url == "https://registry.example"
    config = configured(f"{public}[Cloud Create]\nping_host = https://manager.example:8\n")
    assert config.pinged is not None
    assert config.pinged.url == "https://manager.example:8"


@pytest.mark.socket
def test_nodes_ping_where_ping_host_says(configured: Configured) -> None:
    config = configured(
        "[Registry]\nlisten = 127.0.0.1:0\n[Cloud Create]\nping_host = https://ping.example\n"
    )
    records = adapters.build_records(config, StateDirectory(config.daemon.state_dir), ManualClock())
    assert records.face is not None
    records.face.start()
    try:
        records.served()
        claim = Claim("pool", "me", 0, 0.0, "a-node", "0" * 32)
        url = records.store.ping_url(records.store.create(claim))
        assert url.startswith("https://ping.example/")
    finally:
        records.face.stop()
        records.store.close()


def test_the_dispatcher_builds_its_scheduler(configured: Configured) -> None:
    assert adapters.scheduler_of(configured()) is None
    slurm = adapters.scheduler_of(configured(daemon="dispatcher = slurm"))
    assert slurm is not None
    assert slurm.provider == "slurm"
    commands = "".join(
        f"{verb}_command = /bin/echo {verb}\n"
        for verb in ("nodes", "queue", "drain", "resume", "down")
    )
    config = configured(f"[Scheduler]\n{commands}", daemon="dispatcher = command")
    command = adapters.scheduler_of(config)
    assert command is not None
    assert (command.provider, command.can) == ("command", frozenset())
