"""What a former run left open is finished first: nodes, then records (SAFETY.md R1).

An open intent blocks only the node and the record it names: they are in flight, as they were. One
whose attempt got no answer until `action_timeout` is tried again, and parked after the fifth.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

from nodemanager.actors.intents import (
    clean_order,
    fields_of,
)
from nodemanager.actors.runner import Runner
from nodemanager.actors.scribe import Scribe
from nodemanager.core.model import Record
from nodemanager.core.orders import CleanOrder
from nodemanager.core.reasons import Event
from nodemanager.journal.api import IntentKind, OpenIntent
from nodemanager.log import WARNING, Logger


class Deeds(Protocol):
    """What the daemon does for a recovery."""

    def resume_clean(self, order: CleanOrder, before: Record | None) -> None:
        """Look whether the record is free; `before` is its pre-image, where a write was near."""


class Recovery:
    """The open intents of a former run."""

    def __init__(self, deeds: Deeds, runner: Runner, scribe: Scribe, log: Logger) -> None:
        self._deeds = deeds
        self._runner = runner
        self._scribe = scribe
        self._log = log
        self._cleans: dict[str, tuple[OpenIntent, CleanOrder]] = {}
        self._waiting: list[str] = []
        self._errors: dict[str, str | None] = {}
        self._begun = True

    def load(self, intents: Iterable[OpenIntent], now: float) -> None:
        """Take in what a former run left open; nothing is done yet."""
        for one in intents:
            if one.intent.kind not in (IntentKind.CLEAN, IntentKind.FENCE):
                continue
            if one.parked:
                self._parked(one, one.error)
                continue
            try:
                self._sort(one, now)
            except ValueError as error:
                self._parked(one, str(error))
                continue
            self._begun = False

    def _sort(self, one: OpenIntent, now: float) -> None:
        intent = one.intent
        match intent.kind:
            case IntentKind.CLEAN | IntentKind.FENCE:
                self._cleans[intent.key] = (one, clean_order(intent))

    def begin(self) -> None:
        """Begin, once it is known that the cloud and the store are the right ones (L5)."""
        if self._begun:
            return
        self._begun = True
        for one, _ in self._cleans.values():
            self._log.event(Event.INTENT_OPEN, **fields_of(one))
        self._waiting = list(self._cleans)
        self.go_on()

    def go_on(self) -> None:
        """Look after the records whose node is not being asked for."""
        asking = self._runner.destroys_of()
        waiting, self._waiting = self._waiting, []
        for key in waiting:
            if key not in self._cleans:
                continue
            one, order = self._cleans[key]
            if order.uuid in asking:
                self._waiting.append(key)
            else:
                self._errors[key] = None
                self._deeds.resume_clean(order, one.intent.pre_image)

    def has(self, key: str) -> bool:
        """Whether it is one that a former run left open."""
        return key in self._cleans

    def answered(self, key: str, error: str | None) -> None:
        """The newest answer to a question about it, or the error in its place."""
        if self.has(key):
            self._errors[key] = error

    def ended(self, key: str, outcome: str) -> None:
        """It came to an end, which is written down already."""
        found = self._cleans.pop(key, None)
        if found is not None:
            fields = fields_of(found[0])
            self._log.event(Event.INTENT_ENDED, outcome=outcome, **fields)
        if self._waiting:
            self.go_on()

    def goes_on(self, key: str) -> bool:
        """An attempt took too long: whether another one began, or none ever will (parked).

        False leaves it to the caller to conclude: the cloud or the store did answer.
        """
        error = self._errors.get(key)
        if not self.has(key) or error is None:
            return False
        counted = self._scribe.recovery_failed(key, error)
        if counted is not None and counted.parked:
            found = self._cleans.pop(key, None)
            assert found is not None
            self._parked(counted, error)
            self.go_on()
            return True
        one, order = self._cleans[key]
        self._deeds.resume_clean(order, one.intent.pre_image)
        return True

    def _parked(self, one: OpenIntent, error: str | None) -> None:
        self._log.event(
            Event.INTENT_PARKED,
            level=WARNING,
            error=error,
            clear="see what became of it by hand; it is in the journal, and blocks nothing",
            **fields_of(one),
        )
