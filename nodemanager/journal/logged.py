"""The way of logged events into the journal; `story` reads them.

Each event is logged once: its line and its row come from the same call. Besides the line's fields a
row names the subject's pair at that time, so that it is found by any name of either.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from dataclasses import fields
from logging import getLevelName
from typing import Any

from nodemanager.core.model.reasons import Event
from nodemanager.errors import JournalError
from nodemanager.journal.api import Journal
from nodemanager.journal.event import LEVEL, LoggedEvent
from nodemanager.lib.clock import Clock
from nodemanager.lib.log import INFO, masked
from nodemanager.lib.logline import Fields, as_json

KEPT_BELOW_INFO = frozenset({Event.RECORD_UNLISTED, Event.NODE_UNLISTED})
NOT_KEPT = frozenset(
    {
        Event.DEMAND_SOURCE,
        Event.CYCLE_DONE,
        Event.SERVER_STARTED,
        Event.REQUEST_REFUSED,
        Event.DAEMON_DUMPED,
    }
)
"""Events that say nothing of the pool, and the counts of decisions, which are recorded, too."""

_STANDING = (
    ("record", frozenset({Event.RECORD_KEEP, Event.RECORD_DEFERRED})),
    ("node", frozenset({Event.NODE_KEEP, Event.NODE_FOREIGN})),
    ("node", frozenset({Event.NODE_PAIRED})),
)
"""Events, and their subjects, that a restarted daemon logs again although nothing changed; the
journal does not repeat them."""
_FAMILY = {event: (about, events) for about, events in _STANDING for event in events}
_COLUMNS = tuple(one.name for one in fields(LoggedEvent) if one.name not in ("at", "event", "more"))


_WHO = ("record", "slot", "host", "node", "name", "incarnation")
"""The names that belong together, as far as known: one life of a record."""
_BINDS = ("incarnation", "node", "record")
"""The names that identify a life, the surest first."""
_MOST_LIVES = 200_000


class EventRecorder:
    """Listens to the log and gives its events to the journal; any thread may call it."""

    def __init__(self, journal: Journal, clock: Clock) -> None:
        self._journal = journal
        self._clock = clock
        self._lock = threading.Lock()
        self._lives: dict[tuple[str, str], dict[str, Any]] = {}
        self._standing = dict(self._as_it_was())

    def _as_it_was(self) -> Iterator[tuple[tuple[Any, str], tuple[str | None, ...]]]:
        try:
            for about, events in _STANDING:
                for one in self._journal.last_logged(events, about):
                    yield (events, getattr(one, about)), (one.event, one.reason, one.record)
        except JournalError:
            # Then the journal repeats them.
            return

    def heard(self, event: Event, level: int, fields: Fields) -> None:
        """Take a logged event; a log listener."""
        if event in NOT_KEPT or (level < INFO and event not in KEPT_BELOW_INFO):
            return
        given = {key: value for key, value in fields.items() if value is not None}
        with self._lock:
            life = self._life(event, given)
            columns = {key: given.pop(key, None) for key in _COLUMNS}
            for key in _WHO:
                columns[key] = life[key] if columns[key] is None else columns[key]
            if event is Event.RECORD_CLEANED:
                self._lives.pop(("record", str(columns["record"])), None)
            if level > INFO:
                # As in the log's own lines, where INFO is left out.
                given[LEVEL] = getLevelName(level).lower()
            more = json.loads(as_json(masked(given)))
            row = LoggedEvent(self._clock.wall(), event.value, **columns, more=more)
            if not self._stood(event, row):
                self._journal.tell(row)

    def _stood(self, event: Event, row: LoggedEvent) -> bool:
        """Whether the event only repeats what held when this process began; True once for each."""
        if not self._standing or event not in _FAMILY:
            return False
        about, events = _FAMILY[event]
        before = self._standing.pop((events, getattr(row, about)), None)
        return before == (row.event, row.reason, row.record)

    def _life(self, event: Event, given: dict[str, Any]) -> dict[str, Any]:
        """The life that a line is about, updated with the line's names."""
        keys = [(key, str(given[key])) for key in _BINDS if key in given]
        life = next((self._lives[key] for key in keys if key in self._lives), None)
        if (
            life is None
            or event is Event.NODE_SETUP_STARTED
            or any(life[name] not in (None, value) for name, value in keys)
        ):
            life = dict.fromkeys(_WHO)
        life |= {name: given[name] for name in _WHO if name in given}
        for name in _BINDS:
            if life[name] is not None:
                self._lives[name, life[name]] = life
        while len(self._lives) > _MOST_LIVES:
            del self._lives[next(iter(self._lives))]
        return life
