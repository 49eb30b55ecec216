"""The running cloud; without one, what needs it is skipped."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from tests.live.conftest import daemon, registry  # noqa: F401  # pytest finds them here
from tests.openstack import CLOUD_FILE
from tests.openstack.hand import Hand, shared


@pytest.fixture(scope="module")
def cloud() -> Iterator[Hand]:
    """Another hand in the project, which is empty before and after."""
    if CLOUD_FILE not in os.environ:
        pytest.skip("needs a real OpenStack: make proof NAME=openstack")
    hand = shared()
    hand.clear()
    yield hand
    hand.clear()
