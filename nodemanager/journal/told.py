"""What the log tells, on its way into the journal; `story` reads it.

One event is told once: its line and its row are made of the same call. A row has, besides what the
line says, who its pair was then, so that it is found by any name that either of them had.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from dataclasses import dataclass, fields
from typing import Any

from nodemanager.clock import Clock
from nodemanager.core.reasons import Event
from nodemanager.errors import JournalError
from nodemanager.journal.api import Journal
from nodemanager.journal.event import Told
from nodemanager.log import INFO, Fields, masked
from nodemanager.logline import as_json

KEPT_BELOW_INFO = frozenset({Event.RECORD_UNLISTED, Event.NODE_UNLISTED})
NOT_KEPT = frozenset(
    {
        Event.LIST_OK,
        Event.LIST_FAILED,
        Event.LIST_PARTIAL,
        Event.LIST_ITEM,
        Event.CYCLE_DONE,
        Event.SERVER_STARTED,
        Event.SERVER_FAILED,
        Event.REQUEST_REFUSED,
        Event.DAEMON_DUMPED,
    }
)
"""What is about no record, node or operator: of polls and plans the decisions have it all."""

_STANDING = (
    ("record", frozenset({Event.RECORD_KEEP, Event.RECORD_DEFERRED})),
    ("node", frozenset({Event.NODE_KEEP, Event.NODE_FOREIGN})),
    ("node", frozenset({Event.NODE_PAIRED})),
)
"""What a restart finds as it was, and of whom: the log says it again, the journal does not."""
_FAMILY = {event: (about, events) for about, events in _STANDING for event in events}
_COLUMNS = tuple(one.name for one in fields(Told) if one.name not in ("at", "event", "more"))


@dataclass(slots=True, eq=False)
class _Life:
    """Who belongs together, as far as was told: one life of a record."""

    record: str | None = None
    slot: int | None = None
    host: str | None = None
    node: str | None = None
    name: str | None = None
    incarnation: str | None = None


_WHO = tuple(one.name for one in fields(_Life))
_BINDS = ("incarnation", "node", "record")
"""What a life is known by, the surest first."""
_MOST_LIVES = 200_000


class Teller:
    """Hears what the log is told, and hands it to the journal. May be told by any thread."""

    def __init__(self, journal: Journal, clock: Clock) -> None:
        self._journal = journal
        self._clock = clock
        self._lock = threading.Lock()
        self._lives: dict[tuple[str, str], _Life] = {}
        self._standing = dict(self._as_it_was())

    def _as_it_was(self) -> Iterator[tuple[tuple[Any, str], tuple[str | None, ...]]]:
        try:
            for about, events in _STANDING:
                for one in self._journal.last_told(events, about):
                    yield (events, getattr(one, about)), (one.event, one.reason, one.record)
        except JournalError:
            # It is told again, then.
            return

    def heard(self, event: Event, level: int, fields: Fields) -> None:
        """The log was told of that."""
        if event in NOT_KEPT or (level < INFO and event not in KEPT_BELOW_INFO):
            return
        given = {key: value for key, value in fields.items() if value is not None}
        with self._lock:
            life = self._life(event, given)
            told = {key: given.pop(key, None) for key in _COLUMNS}
            for key in _WHO:
                told[key] = getattr(life, key) if told[key] is None else told[key]
            if event is Event.RECORD_CLEANED:
                self._lives.pop(("record", str(told["record"])), None)
            more = json.loads(as_json(masked(given)))
            row = Told(self._clock.wall(), event.value, **told, more=more)
            if not self._stood(event, row):
                self._journal.tell(row)

    def _stood(self, event: Event, row: Told) -> bool:
        """Whether it was so when this process began, and is told for the first time since."""
        if not self._standing or event not in _FAMILY:
            return False
        about, events = _FAMILY[event]
        before = self._standing.pop((events, getattr(row, about)), None)
        return before == (row.event, row.reason, row.record)

    def _life(self, event: Event, given: dict[str, Any]) -> _Life:
        """The life that a line is about, with all that it says of it."""
        keys = [(key, str(given[key])) for key in _BINDS if key in given]
        life = next((self._lives[key] for key in keys if key in self._lives), None)
        if (
            life is None
            or event is Event.NODE_SETUP_STARTED
            or any(getattr(life, name) not in (None, value) for name, value in keys)
        ):
            life = _Life()
        for name in _WHO:
            if name in given:
                setattr(life, name, given[name])
        for name in _BINDS:
            if getattr(life, name) is not None:
                self._lives[name, getattr(life, name)] = life
        while len(self._lives) > _MOST_LIVES:
            del self._lives[next(iter(self._lives))]
        return life
