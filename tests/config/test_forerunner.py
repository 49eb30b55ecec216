"""Files of the forerunner's shape load unchanged, with its meanings and defaults."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import closing
from pathlib import Path

from nodemanager.app.adapters import accepted_keys, build_cloud
from nodemanager.app.from_config import sizes_of
from nodemanager.config import load
from tests.config.conftest import Read
from tests.fakes.clock import ManualClock

FILES = Path(__file__).parent / "files"


def test_the_ec2_example_loads_with_its_meaning() -> None:
    config = load(FILES / "ec2.cfg", environ={})
    assert config.cloud.shutdown_windows == (3240.0, 300.0, 60.0)
    assert config.daemon.node_stale_after == 14400
    assert config.arvados.jobs_queue
    assert config.cloud_credentials["secret"] == "abc/def+ghi%jkl"
    assert config.cloud_list["tag_arvados-class"] == "dynamic-compute"
    assert config.cloud_create["security_groups"] == "sg-1, sg-2"
    assert config.records.provider == "arvados"
    assert config.arvados.host is not None
    assert config.arvados.host.url == "https://zzzzz.example.org"
    assert [(s.name, s.cloud_id, s.preemptible) for s in config.sizes] == [
        ("m4.large", "m4.large", None),
        ("m4.large.spot", "m4.large", True),
    ]
    assert config.log_levels == {"pykka": "WARNING", "apiclient": "WARNING"}


def test_the_gce_example_loads_and_every_key_is_one_that_its_adapter_takes() -> None:
    config = load(FILES / "gce.cfg", environ={}, accepts=accepted_keys)
    assert config.cloud.provider == "gce"
    assert config.cloud_credentials["auth_type"] == "SA"
    assert config.cloud_credentials["credential_file"] == "/etc/nodes/credential"


def test_the_azure_example_loads_and_says_what_has_no_effect() -> None:
    config = load(FILES / "azure.cfg", environ={}, accepts=accepted_keys)
    assert config.cloud_create["image"].count(":") == 3
    assert config.daemon.dispatcher == "slurm"
    (about_disks,) = [
        one for one in config.warnings if "ex_storage_account = store: ignored" in one
    ]
    assert about_disks.startswith(f"{FILES / 'azure.cfg'}:")


def test_the_development_example_loads_with_its_stray_time_out() -> None:
    config = load(FILES / "local.cfg", environ={})
    assert config.cloud_credentials == {"creds": "dummycreds"}
    assert config.daemon.poll_stale_after == 150
    told = [warning.split(": ")[1] for warning in config.warnings]
    assert told == ["[Daemon] node_stale_after = 300", "[Cloud] timeout = 15"]
    with closing(build_cloud(config, ManualClock())) as cloud:
        (size,) = sizes_of(config, cloud)
    assert (size.name, size.cores, size.ram_mb) == ("Medium", 4, 512)


DEFAULTS: Mapping[str, Mapping[str, object]] = {
    "daemon": {
        "min_nodes": 0,
        "max_nodes": 1,
        "max_total_price": 0,
        "poll_time": 60,
        "cloudlist_poll_time": 60,
        "nodelist_poll_time": 60,
        "wishlist_poll_time": 60,
        "max_poll_time": 300,
        "poll_stale_after": 600,
        "boot_fail_after": 1800,
        "node_stale_after": 7200,
        "consecutive_idle_count": 2,
        "node_mem_scaling": 0.95,
        "watchdog": 600,
        "certs_file": None,
        "dispatcher": "ping",
    },
    "manage": {
        "address": "127.0.0.1",
        "port": None,
        "management_token": None,
    },
    "logging": {
        "file": Path("/dev/stderr"),
        "level": "INFO",
    },
    "arvados": {
        "host": None,
        "token": None,
        "timeout": 15,
        "insecure": False,
        "jobs_queue": True,
        "slurm_queue": True,
    },
    "cloud": {
        "driver_class": None,
    },
}


def test_defaults_are_the_forerunners_but_for_the_two_that_changed(read: Read) -> None:
    config = read("")
    for section, options in DEFAULTS.items():
        found = {option: getattr(getattr(config, section), option) for option in options}
        assert found == options
    assert config.warnings == ()
