"""The one gap that a store that can't compare leaves to an operator's hold, and no more (N33)."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tests.core.build import claim, record
from tests.simulation.cleans import EXACT_S, held_in_the_gap

pytestmark = pytest.mark.slow

READ = record("r1", at=1000.0)


def test_a_hold_between_the_last_read_and_the_write_is_no_finding_c9() -> None:
    """N33, C9: the write names no version, and puts properties back without the hold."""
    assert held_in_the_gap(replace(READ, version="v2", modified_at=2000.0, held=True), READ, 0.1)


@pytest.mark.parametrize(
    ("changes", "read", "age_s"),
    [
        pytest.param({}, READ, 0.1, id="no-hold-at-all"),
        pytest.param({"held": True}, replace(READ, held=True), 0.1, id="held-when-it-was-read"),
        pytest.param({"held": True}, None, 0.1, id="never-read"),
        pytest.param({"held": True}, READ, EXACT_S + 0.1, id="read-long-before"),
        pytest.param({"held": True, "last_ping_at": 1001.0}, READ, 0.1, id="pinged-too"),
        pytest.param({"held": True, "instance_id": "i-x"}, READ, 0.1, id="by-another-instance"),
        pytest.param({"held": True, "slot_number": 7}, READ, 0.1, id="on-another-slot"),
        pytest.param({"held": True, "claim": claim("r1", at=1.0)}, READ, 0.1, id="claimed-anew"),
    ],
)
def test_whatever_else_moved_it_is_a_finding_still_c12(
    changes: dict[str, Any], read: Any, age_s: float
) -> None:
    """N33, C12: a ping, a claim, or a read that was not right before the write."""
    assert not held_in_the_gap(replace(READ, **changes), read, age_s)
