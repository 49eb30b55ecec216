"""Each cloud takes the options that it took, and says of each wrong value what it said.

A new option changes the file: `python -m tests.cloud.every_option`. An option that goes, or whose
words change, is seen in review.
"""

from __future__ import annotations

import json

import pytest

from nodemanager.config.providers import PROVIDERS
from tests.cloud import every_option

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
    assert every_option.told()[cloud] == GOLDEN["told"][cloud]
