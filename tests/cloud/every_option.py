"""What every cloud says of every option of its own: which it takes, and what is wrong with a value.

`python -m tests.cloud.every_option` writes every_option.json, which a test holds the clouds to.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from typing import Any

from nodemanager.cloud.declared import CloudOption, accepted
from nodemanager.config.providers import PROVIDERS
from nodemanager.errors import ConfigError
from tests.cloud.azure import auth as azure_auth
from tests.cloud.azure import helpers as azure_helpers
from tests.cloud.cloud_config import cloud_config
from tests.cloud.gce import auth as gce_auth

FILE = Path(__file__).with_suffix(".json")
VALUES = ("", "1.5", "/nowhere/at/all")
SECTIONS = CREDENTIALS, LIST, CREATE = "Cloud Credentials", "Cloud List", "Cloud Create"

Sections = Mapping[str, Mapping[str, str]]


def given() -> dict[str, Sections]:
    """The least file of each cloud whose options are read one by one."""
    return {
        "ec2": {CREATE: {"image_id": "ami-12345678"}},
        "gce": {
            CREDENTIALS: {"key": json.dumps(gce_auth.user_file()), "project": "some-project"},
            CREATE: {"zone": "us-central1-a", "image": "node-image"},
        },
        "azure": {
            CREDENTIALS: {
                "subscription_id": azure_auth.SUBSCRIPTION,
                "tenant_id": azure_auth.TENANT,
                "key": azure_auth.CLIENT,
                "secret": azure_auth.SECRET,
                "region": "eastus",
            },
            LIST: {"resource_group": "nodes"},
            CREATE: {
                "image": azure_helpers.IMAGE,
                "network": "net",
                "ssh_key": azure_helpers.public_key(),
            },
        },
        "openstack": {
            CREDENTIALS: {
                "auth_url": "https://keystone.example.org:5000",
                "application_credential_id": "an-id",
                "application_credential_secret": "a-secret",
            },
            CREATE: {"image": "node-image"},
        },
        "libvirt": {CREDENTIALS: {"uri": "qemu:///system"}, CREATE: {"image": "node"}},
    }


def taken() -> dict[str, dict[str, list[str]]]:
    """The names and patterns that each section of each cloud takes."""
    return {
        cloud: {section: sorted(names) for section, names in _names(cloud).items()}
        for cloud in PROVIDERS
    }


def told(cloud: str) -> list[str]:
    """What that cloud says of each value in each option, and of each option that is left out."""
    found: set[str] = set()
    least = given()[cloud]
    assert not _problems(cloud, least), _problems(cloud, least)
    for section, names in _names(cloud).items():
        has = least.get(section, {})
        for name in has:
            without = {key: value for key, value in has.items() if key != name}
            found |= set(_problems(cloud, {**least, section: without}))
        for name in names:
            for value in VALUES:
                more = {**has, name.replace("?*", "x"): value}
                found |= set(_problems(cloud, {**least, section: more}))
    return sorted(found)


def declared(cloud: str) -> Mapping[str, Mapping[str, CloudOption]]:
    """The options of each section of that cloud."""
    sections: Mapping[str, Mapping[str, CloudOption]] = _options(cloud).SECTIONS
    return sections


def _names(cloud: str) -> Mapping[str, frozenset[str]]:
    return accepted(declared(cloud))


def _options(cloud: str) -> Any:
    return import_module(f"nodemanager.cloud.{cloud}.options")


def _problems(cloud: str, sections: Sections) -> list[str]:
    parts = (sections.get(section, {}) for section in SECTIONS)
    config = cloud_config(**dict(zip(("credentials", "listing", "create"), parts, strict=True)))
    try:
        _options(cloud).read(config, 60.0)
    except ConfigError as error:
        return [one.replace(str(Path.home()), "~") for one in error.problems]
    return []


def everything() -> str:
    said = {cloud: told(cloud) for cloud in given()}
    return json.dumps({"taken": taken(), "told": said}, indent=1, sort_keys=True) + "\n"


if __name__ == "__main__":
    FILE.write_text(everything(), encoding="utf-8")
