"""By which way the nodes went whose slots leak."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from enum import StrEnum

from nodemanager.core.model.reasons import Event
from nodemanager.lib.logline import Fields

MOST = 100_000
"""The most records whose node's way out is remembered."""
UNSEEN = "unseen"
"""No destroy of this run is known: the node died or was ended by others, or before the start."""
GOING = frozenset({Event.NODE_SHUTDOWN_STARTED, Event.NODE_GONE})


class WaysOut:
    """Remembers for each record, from the logged events, why its node was ended.

    The reasons are those of doc/tune. A record that is freed, or gets a new node, is forgotten.
    """

    def __init__(self) -> None:
        self._reasons: dict[str, str] = {}

    def heard(self, event: Event, fields: Fields) -> None:
        record = fields.get("record")
        if record is None:
            return
        if event in GOING:
            self._reasons.pop(record, None)
            reason = fields["reason"]
            self._reasons[record] = reason.value if isinstance(reason, StrEnum) else str(reason)
            if len(self._reasons) > MOST:
                del self._reasons[next(iter(self._reasons))]
        elif event in (Event.RECORD_CLEANED, Event.NODE_CREATED):
            self._reasons.pop(record, None)

    def count(self, records: Iterable[str]) -> Mapping[str, int]:
        """How many of those records, by uuid, had a node that went each way."""
        return Counter(self._reasons.get(record, UNSEEN) for record in records)
