"""The house: composed, not inherited, and no class too big to hold in one's head (STYLE.md)."""

from __future__ import annotations

import pytest

from nodemanager.actors.base import RoleActor
from nodemanager.actors.daemon.daemon import NodeManagerDaemonActor
from tests.figures import Class, classes, sources


def _of(package: str) -> list[Class]:
    return classes([one for one in sources() if one.name.startswith(f"nodemanager.{package}.")])


ACTORS, CLOUD, CORE = _of("actors"), _of("cloud"), _of("core")
MOST_METHODS, MOST_LINES = 40, 600


def test_the_daemon_actor_inherits_from_its_actor_base_alone() -> None:
    assert NodeManagerDaemonActor.__bases__ == (RoleActor,)


@pytest.mark.parametrize(
    "one", ACTORS + CLOUD + CORE, ids=[one.name for one in ACTORS + CLOUD + CORE]
)
def test_a_class_has_one_job(one: Class) -> None:
    assert one.methods < MOST_METHODS
    assert one.lines < MOST_LINES


@pytest.mark.parametrize("one", ACTORS + CLOUD, ids=[one.name for one in ACTORS + CLOUD])
def test_an_actor_and_a_cloud_are_composed(one: Class) -> None:
    # A poller is a role actor.
    assert len(one.bases) <= 2
