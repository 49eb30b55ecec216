"""Named cases: a test that is run once for each row of a table, which says what the case is."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest


def cases(names: str | tuple[str, ...], rows: Mapping[str, Any]) -> pytest.MarkDecorator:
    """Run the test for each row, under its name; a row of several `names` is a tuple of values."""
    values = {name: (row,) if isinstance(names, str) else row for name, row in rows.items()}
    return pytest.mark.parametrize(
        names, [pytest.param(*row, id=name) for name, row in values.items()]
    )
