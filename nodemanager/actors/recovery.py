"""What a former run left open is finished first: nodes, then records (SAFETY.md R1).

An open intent blocks only the node and the record it names: they are in flight, as they were. One
whose attempt got no answer until `action_timeout` is tried again, and parked after the fifth.
Creates of which nobody knows what became are watched here, too, whichever run sent them (U5).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Protocol

from nodemanager.actors.intents import (
    LooseCreate,
    clean_order,
    destroy_order,
    fields_of,
    loose_create,
)
from nodemanager.actors.narrator import record_fields
from nodemanager.actors.scribe import Scribe
from nodemanager.core.destroy import ShutdownOrder
from nodemanager.core.history import History
from nodemanager.core.model import CloudNode, Record
from nodemanager.core.orders import CleanOrder
from nodemanager.core.reasons import Event
from nodemanager.journal.api import IntentKind, OpenIntent
from nodemanager.log import WARNING, Logger


class Deeds(Protocol):
    """What the daemon does for a recovery."""

    def resume_destroy(self, order: ShutdownOrder) -> None:
        """Ask whether that node is gone, and go on from there."""

    def resume_clean(self, order: CleanOrder, before: Record | None) -> None:
        """Look whether the record is free; `before` is its pre-image, where a write was near."""

    def ask_tagged(self, records: tuple[str, ...]) -> None:
        """Ask the cloud which nodes bear the tag of these records."""

    def may_be_late(self, uuid: str, at: float) -> None:
        """A write to that record, sent by then (CLOCK_BOOTTIME), may still take effect (C12)."""

    def expect(self, record: Record, node: CloudNode, size: str) -> None:
        """A node that was created, and that no listing shows yet (P4)."""


class Recovery:
    """The open intents of a former run, and the creates that are in doubt."""

    def __init__(self, deeds: Deeds, scribe: Scribe, log: Logger) -> None:
        self._deeds = deeds
        self._scribe = scribe
        self._log = log
        self._destroys: dict[str, tuple[OpenIntent, ShutdownOrder]] = {}
        self._cleans: dict[str, tuple[OpenIntent, CleanOrder]] = {}
        self._waiting: list[str] = []
        self._errors: dict[str, str | None] = {}
        self._creates: dict[str, LooseCreate] = {}
        self._begun = True

    def load(self, intents: Iterable[OpenIntent], now: float) -> None:
        """Take in what a former run left open; nothing is done yet."""
        for one in intents:
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
            case IntentKind.DESTROY:
                self._destroys[intent.key] = (one, destroy_order(intent))
            case IntentKind.CLEAN | IntentKind.FENCE:
                self._cleans[intent.key] = (one, clean_order(intent))
            case IntentKind.CREATE | IntentKind.CLAIM:
                self._creates[intent.key] = loose_create(intent, now)

    def begin(self) -> None:
        """Begin, once it is known that the cloud and the store are the right ones (L5)."""
        if self._begun:
            return
        self._begun = True
        for one, _ in (*self._destroys.values(), *self._cleans.values()):
            self._log.event(Event.INTENT_OPEN, **fields_of(one))
        self._waiting = list(self._cleans)
        for key, (_, order) in self._destroys.items():
            self._errors[key] = None
            self._deeds.resume_destroy(order)
        self._go_on()

    def _go_on(self) -> None:
        """Look after the records whose node is not being asked for."""
        asking = {order.record for _, order in self._destroys.values()}
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
        return key in self._destroys or key in self._cleans

    def answered(self, key: str, error: str | None) -> None:
        """The newest answer to a question about it, or the error in its place."""
        if self.has(key):
            self._errors[key] = error

    def ended(self, key: str, outcome: str) -> None:
        """It came to an end, which is written down already."""
        found = self._destroys.pop(key, None) or self._cleans.pop(key, None)
        if found is not None:
            fields = fields_of(found[0])
            self._log.event(Event.INTENT_ENDED, outcome=outcome, **fields)
        self._creates.pop(key, None)
        if self._waiting:
            self._go_on()

    def goes_on(self, key: str) -> bool:
        """An attempt took too long: whether another one began, or none ever will (parked).

        False leaves it to the caller to conclude: the cloud or the store did answer.
        """
        error = self._errors.get(key)
        if not self.has(key) or error is None:
            return False
        counted = self._scribe.recovery_failed(key, error)
        if counted is not None and counted.parked:
            found = self._destroys.pop(key, None) or self._cleans.pop(key, None)
            assert found is not None
            self._parked(counted, error)
            self._go_on()
            return True
        if key in self._destroys:
            self._deeds.resume_destroy(self._destroys[key][1])
        else:
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

    # Creates in doubt.

    def doubt(self, create: LooseCreate) -> None:
        """Nobody knows what became of it: it is looked for by its tag."""
        if self._scribe.is_open(create.key):
            self._creates[create.key] = create

    def watch_creates(self, history: History) -> None:
        """Conclude those whose node or record tells; ask by tag for the rest, once each."""
        records = history.records
        if not self._creates or records is None:
            return
        claimed = {one.claim.incarnation: one for one in records.items if one.claim is not None}
        ask = []
        for one in list(self._creates.values()):
            if records.started_at <= one.since:
                continue
            record = claimed.get(one.incarnation)
            if record is not None:
                self._deeds.may_be_late(record.uuid, one.since)
            if record is None:
                # Never claimed, or freed since: by C21 at the latest.
                self._conclude(one, "released")
            elif record.last_ping_at is not None or _is_borne(one, record, history):
                self._conclude(one, "created", **record_fields(record, record.uuid))
            elif not one.asked:
                one.asked = True
                ask.append(record.uuid)
        if ask:
            self._deeds.ask_tagged(tuple(ask))

    def tagged(self, answers: Mapping[str, tuple[CloudNode, ...]], history: History) -> None:
        """What the cloud said of the tags; where it said nothing it is asked again."""
        records = history.records.items if history.records is not None else ()
        claimed = {one.claim.incarnation: one for one in records if one.claim is not None}
        for one in list(self._creates.values()):
            record = claimed.get(one.incarnation)
            if record is None or not one.asked:
                continue
            if record.uuid not in answers:
                one.asked = False
                continue
            for node in answers[record.uuid]:
                if not node.is_absent and node.tags.incarnation == one.incarnation:
                    self._deeds.expect(record, node, one.size)
                    whose = record_fields(record, record.uuid)
                    self._conclude(one, "created", node=node.id, **whose)
                    break

    def _conclude(self, one: LooseCreate, outcome: str, **details: Any) -> None:
        self._creates.pop(one.key, None)
        self._scribe.conclude(one.key, outcome, **details)


def _is_borne(one: LooseCreate, record: Record, history: History) -> bool:
    nodes = history.bearers.get(record.uuid, ())
    return any(node.tags.incarnation == one.incarnation for node in nodes)
