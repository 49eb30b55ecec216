"""The servers that these tests talk to."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from tests.cloud.pings import PingServer, ping_server

if TYPE_CHECKING:
    from tests.cloud.moto_server import MotoServer


@pytest.fixture
def pings() -> Iterator[PingServer]:
    with ping_server() as server:
        yield server


@pytest.fixture
def server() -> MotoServer:
    """EC2's API, an account as new."""
    # Moto takes seconds to import, and most files here do without.
    from tests.cloud.moto_server import shared

    moto = shared()
    moto.reset()
    return moto
