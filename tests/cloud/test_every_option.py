"""Each cloud takes the options that it took, and says of each wrong value what it said.

A new option changes the file: `python -m tests.cloud.every_option`. An option that goes, or whose
words change, is seen in review.
"""

from __future__ import annotations

import json
from importlib import import_module

import pytest

from nodemanager.cloud.declared import file
from nodemanager.config.providers import PROVIDERS
from nodemanager.errors import ConfigError
from tests.cloud import every_option
from tests.cloud.cloud_config import cloud_config

GOLDEN = json.loads(every_option.FILE.read_text(encoding="utf-8"))


@pytest.mark.parametrize("cloud", PROVIDERS)
def test_a_cloud_takes_the_options_that_it_took(cloud: str) -> None:
    assert every_option.taken()[cloud] == GOLDEN["taken"][cloud]


@pytest.mark.parametrize("cloud", every_option.given())
def test_a_cloud_says_of_each_wrong_value_what_it_said(
    cloud: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("AZURE_CLIENT_SECRET", "GOOGLE_APPLICATION_CREDENTIALS", "OS_CLIENT_CONFIG_FILE"):
        monkeypatch.delenv(name, raising=False)
    assert every_option.told(cloud) == GOLDEN["told"][cloud]


@pytest.mark.parametrize("cloud", every_option.given())
def test_an_example_is_a_value_that_the_option_takes(cloud: str) -> None:
    for section, options in every_option.declared(cloud).items():
        for name, option in options.items():
            # No file that an example names is here, and a pattern's has its name in it.
            is_file = option.example.startswith("/etc/nodemanager/")
            if option.example and not is_file:
                assert option.kind(option.example) is not None, (section, name)


@pytest.mark.parametrize("cloud", ["ec2", "gce", "azure", "openstack", "local"])
@pytest.mark.parametrize("dotted", ["libcloud.compute.drivers.dummy.DummyNodeDriver", "no.where"])
def test_a_driver_class_of_another_provider_is_refused(cloud: str, dotted: str) -> None:
    sections = every_option.given().get(cloud, {})
    parts = zip(("credentials", "listing", "create"), every_option.SECTIONS, strict=True)
    given = {part: sections.get(section, {}) for part, section in parts}
    build = import_module(f"nodemanager.cloud.{cloud}.adapter").build_cloud
    with pytest.raises(ConfigError, match=r"\[Cloud\] driver_class = "):
        build(cloud_config(**given, driver_class=dotted))


def test_a_home_that_is_not_there_is_told() -> None:
    """`~` of a user that this machine does not have."""
    with pytest.raises(ValueError, match="can't be read: there is no such home"):
        file("~nobody-of-that-name/key")
