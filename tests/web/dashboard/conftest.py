"""A dashboard that shows a small world."""

from __future__ import annotations

import pytest

from tests.web.dashboard.console import Console, small


@pytest.fixture
def console() -> Console:
    """It shows one decision, and nobody is signed in."""
    made = Console()
    made.decides(small())
    return made
