"""What workflows tell is counted for the metrics, too."""

from __future__ import annotations

from typing import Any

import pytest
from nodemanager.actors.observer import Nobody, count

from nodemanager.core.execute.workflow import Told
from nodemanager.core.reasons import Event, Reason


class Counting(Nobody):
    def __init__(self) -> None:
        self.counted: list[tuple[Any, ...]] = []

    def cleaned(self, reason: Reason) -> None:
        self.counted.append(("cleaned", reason))

    def clean_skipped(self, reason: Reason) -> None:
        self.counted.append(("clean_skipped", reason))

    def clean_failed(self) -> None:
        self.counted.append(("clean_failed",))

    def pruned(self) -> None:
        self.counted.append(("pruned",))


@pytest.mark.parametrize(
    ("event", "fields", "counted"),
    [
        (Event.RECORD_CLEANED, {"reason": Reason.STALE_SLOT}, [("cleaned", Reason.STALE_SLOT)]),
        (Event.RECORD_CLEAN_SKIPPED, {"reason": Reason.HELD}, [("clean_skipped", Reason.HELD)]),
        (Event.RECORD_CLEAN_FAILED, {"action": "write"}, [("clean_failed",)]),
        (Event.RECORD_CLEAN_FAILED, {"action": "unfence"}, []),
        (Event.RECORD_PRUNED, {}, [("pruned",)]),
        (Event.RECORD_UNFENCED, {}, []),
    ],
)
def test_what_is_told_is_counted(
    event: Event, fields: dict[str, Any], counted: list[tuple[Any, ...]]
) -> None:
    observer = Counting()
    count(observer, Told(event, fields))
    assert observer.counted == counted
