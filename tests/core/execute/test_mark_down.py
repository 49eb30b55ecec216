"""When the scheduler is told that a destroyed node is gone: while the name is still its (C20)."""

from __future__ import annotations

import pytest

from nodemanager.core.execute.effects import MarkDown
from tests.core.build import incarnation_of, world


@pytest.mark.parametrize(
    ("pinged_by", "told"),
    [
        pytest.param("i-r1", True, id="by-itself"),
        pytest.param(None, True, id="by-nobody-who-says-who-it-is"),
        pytest.param("i-twin", False, id="by-its-twin-which-works-under-that-name"),
    ],
)
def test_the_name_is_marked_down_unless_another_instance_pings_its_record_c20(
    pinged_by: str | None, told: bool
) -> None:
    made = world()
    made.add_record("r1")
    made.change("r1", instance_id=pinged_by)
    (record,) = made.records
    gone = MarkDown("compute1", "r1", incarnation_of("r1"), "i-r1")
    assert gone.is_still_its(record) is told


def test_the_name_of_a_later_life_or_of_no_record_is_left_alone_c20() -> None:
    made = world()
    made.add_record("r1")
    (record,) = made.records
    gone = MarkDown("compute1", "r1", incarnation_of("r1", 2), "i-r1")
    assert not gone.is_still_its(record)
    assert not gone.is_still_its(None)
