"""The house: composed, not inherited, and no class too big to hold in one's head (STYLE.md)."""

from __future__ import annotations

import pytest

from nodemanager.actors.base import RoleActor
from nodemanager.actors.daemon import NodeManagerDaemonActor
from tests.figures import Class, classes, sources

CLASSES = [
    one
    for package in ("nodemanager.actors.", "nodemanager.cloud.")
    for one in classes([source for source in sources() if source.name.startswith(package)])
]
MOST_METHODS, MOST_LINES = 40, 600


def test_the_daemon_actor_inherits_from_its_actor_base_alone() -> None:
    assert NodeManagerDaemonActor.__bases__ == (RoleActor,)


@pytest.mark.parametrize("one", CLASSES, ids=[one.name for one in CLASSES])
def test_a_class_of_the_actors_or_clouds_has_one_job(one: Class) -> None:
    assert one.methods < MOST_METHODS
    assert one.lines < MOST_LINES
    # A poller is a role actor.
    assert len(one.bases) <= 2
