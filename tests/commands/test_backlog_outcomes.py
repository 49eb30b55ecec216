"""What `backlog apply` says of each item: what the journal says, which hears of it late."""

from __future__ import annotations

from typing import Any

import pytest

from nodemanager.commands import backlog


class Daemon:
    """No item is marked any more; the journal has the events from its `late`th answer on."""

    def __init__(self, *events: dict[str, Any], late: int = 0) -> None:
        self._events = events
        self._late = late

    def get(self, *path: str, **asked: Any) -> dict[str, Any]:
        if path == ("backlog", "marks"):
            self._late -= 1
            return {"items": []}
        assert path == ("decisions",)
        found = [one for one in self._events if one["event"] == asked["event"] and self._late < 0]
        return {"decisions": found, "before": None}


def ended(event: str, *, number: int = 8, **more: Any) -> dict[str, Any]:
    known = {"number": number, "event": event, "record": None, "node": None, "reason": "r"}
    return {**known, "measures": {}, **more}


CLEANED = ended("record.cleaned", record="r1")
LEFT = ended("backlog.skipped", record="r1", measures={"action": "clean", "version": "2"})
LEFT_NODE = ended("backlog.skipped", node="r1", measures={"action": "adopt"})


@pytest.mark.parametrize(
    ("daemon", "deed", "stands", "outcome"),
    [
        pytest.param(Daemon(CLEANED), "clean", "waits", "cleaned", id="cleaned"),
        pytest.param(Daemon(CLEANED, late=3), "clean", "waits", "cleaned", id="told-late"),
        pytest.param(Daemon(LEFT, late=3), "clean", "waits", "left alone", id="left-told-late"),
        pytest.param(Daemon(LEFT_NODE), "adopt", "waits", "left alone", id="a-node"),
        pytest.param(
            Daemon(ended("node.adopted", node="r1")), "adopt", "waits", "adopted", id="adopted"
        ),
        pytest.param(Daemon(), "clean", "changed", "left alone", id="changed-when-applied"),
        pytest.param(Daemon(), "clean", "done", "done before", id="done-before"),
        pytest.param(
            Daemon(ended("record.cleaned", record="r1", number=3)),
            *("clean", "waits", backlog.UNKNOWN),
            id="only-of-an-earlier-time",
        ),
    ],
)
def test_an_item_is_called_done_only_by_what_the_journal_says(
    monkeypatch: pytest.MonkeyPatch, daemon: Any, deed: str, stands: str, outcome: str
) -> None:
    monkeypatch.setattr(backlog, "POLL_S", 0.001)
    monkeypatch.setattr(backlog, "HEARD_WITHIN_S", 0.0 if outcome is backlog.UNKNOWN else 60.0)
    item = {"deed": deed, "id": "r1", "stands": stands, "reason": "stale_slot", "measures": {}}
    (found,) = backlog._outcomes(daemon, [item], newest=5)
    assert found["outcome"] == outcome
    if stands == "waits" and outcome == "left alone":
        assert (found["reason"], "action" in found["measures"]) == ("r", False)
