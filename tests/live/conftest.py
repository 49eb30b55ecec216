"""What most live tests ask: the daemon of their `cluster`, and its registry."""

from __future__ import annotations

import pytest

from tests.live.cluster import TOKEN, Cluster
from tests.live.harness import Daemon, Registry

pytest.register_assert_rewrite("tests.live.story")


@pytest.fixture
def daemon(cluster: Cluster) -> Daemon:
    """The newest one; a registry process is none."""
    return [one for one in cluster.daemons if one.command == "run"][-1]


@pytest.fixture
def registry(daemon: Daemon) -> Registry:
    return Registry(daemon.url_of("registry"), TOKEN)
