"""How long a slot stayed taken after its node's end."""

from __future__ import annotations

from nodemanager.core.model.reasons import Event
from nodemanager.lib.logline import Fields

MOST = 100_000
"""The most ends that are remembered, of records that were not freed yet."""


class ReleaseTimes:
    """Remembers for each record, from the logged events, when its node ended (boottime seconds).

    A node that went away by itself ended with its last sign of life, as its clean tells it
    (`idle_s`); one that we destroyed, once the cloud said that it was gone.
    """

    def __init__(self) -> None:
        self._ended: dict[str, float] = {}

    def heard(self, event: Event, fields: Fields, now: float) -> float | None:
        """Take an event. For a freed record: the seconds since its node's end, if it is known."""
        record = fields.get("record")
        if record is None:
            return None
        if event is Event.NODE_GONE:
            self._note(record, now)
        elif event is Event.RECORD_CLEAN and (idle_s := fields.get("idle_s")) is not None:
            self._note(record, now - idle_s)
        elif event is Event.RECORD_CLEANED and (ended := self._ended.pop(record, None)) is not None:
            return max(0.0, now - ended)
        return None

    def _note(self, record: str, at: float) -> None:
        self._ended.pop(record, None)
        self._ended[record] = at
        if len(self._ended) > MOST:
            del self._ended[next(iter(self._ended))]
