"""The management server that these tests ask, and a world for it to show."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.core.build import World, world
from tests.web.manager import Manager


@pytest.fixture
def manager() -> Iterator[Manager]:
    made = Manager()
    made.server.start()
    yield made
    made.server.stop()


@pytest.fixture
def small() -> World:
    """One record, and its node, whose id has slashes."""
    made = world()
    made.add_record("r1", slot=7, ping_secret="s3cr3t")
    made.add_node("r1", id="zone/a/i-1")
    return made
