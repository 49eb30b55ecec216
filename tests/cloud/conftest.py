from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.cloud.pings import PingServer, ping_server


@pytest.fixture
def pings() -> Iterator[PingServer]:
    with ping_server() as server:
        yield server
