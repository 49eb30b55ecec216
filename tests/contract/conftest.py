"""The stores that these tests are about."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.contract.stores import Backend, open_backend


@pytest.fixture
def backend(request: pytest.FixtureRequest) -> Iterator[Backend]:
    with open_backend(request.param, request) as opened:
        yield opened
