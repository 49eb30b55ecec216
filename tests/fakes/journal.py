"""A journal in memory: for tests, and for a simulation that makes it fail on script.

It outlives the actors that use it, as a file would: a restart is another daemon on the same one.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

from nodemanager.core.model.world import Leftover
from nodemanager.core.observe.facts import Fact
from nodemanager.core.plan.leftovers import Entry, LedgerState, LeftoverKey
from nodemanager.core.replay.fold import Decision, Start
from nodemanager.errors import JournalError, JournalReplaced
from nodemanager.journal import api
from nodemanager.journal.codec import without_secrets
from nodemanager.journal.event import LoggedEvent
from nodemanager.journal.kept import Kept, Now
from nodemanager.lib.clock import Clock
from tests.fakes.clock import ManualClock

T = TypeVar("T")

Fault = Callable[[str], str | None]
"""Asked before each call by its name; a text makes it fail with that."""


@dataclass
class _Kept:
    intent: api.Intent
    opened_at: float
    failures: int = 0
    error: str | None = None
    ended: api.Concluded | None = None
    image: api.PreImage | None = None


@dataclass
class MemoryJournal:
    """See api.Journal. Fails while `fault` says so; `entries` are what was begun and decided.

    It is `replaced` once another file is in its place.
    """

    clock: Clock = field(default_factory=ManualClock)
    fault: Fault = field(default=lambda call: None)
    keeps_entries: bool = True
    failure: str | None = None
    replaced: bool = False
    boot_id: str = "boot-1"
    entries: list[Start | Fact | Decision] = field(default_factory=list)
    logged: list[LoggedEvent] = field(default_factory=list)
    _intents: list[_Kept] = field(default_factory=list)
    _leftovers: dict[LeftoverKey, tuple[float, Entry]] = field(default_factory=dict)
    _remembered: dict[str, str] = field(default_factory=dict)
    _noted: list[Start | Fact] = field(default_factory=list)

    def fail(self, why: str = "the disk is full") -> None:
        """Every call fails from now on, until `heal`."""
        self.fault = lambda call: why

    def heal(self) -> None:
        self.fault = lambda call: None

    def _call(self, name: str) -> float:
        """The time of a call that may go ahead, epoch seconds."""
        why = "it was replaced" if self.replaced else self.fault(name)
        if why is not None:
            self.failure = why
            raise JournalReplaced(why) if self.replaced else JournalError(why)
        self.failure = None
        return self.clock.wall()

    def retry(self) -> bool:
        try:
            self._call("retry")
        except JournalReplaced:
            raise
        except JournalError:
            return False
        return True

    # Intents.

    def intend(self, intents: Sequence[api.Intent]) -> None:
        now = self._call("intend")
        for intent in intents:
            details = json.loads(json.dumps(without_secrets(intent.details), default=str))
            kept = replace(intent, details=details)
            known = self._open(intent.key)
            if known is None:
                known = _Kept(kept, now)
                self._intents.append(known)
            else:
                image = intent.pre_image or known.intent.pre_image
                known.intent = replace(kept, pre_image=image)
            if intent.pre_image is not None:
                known.image = api.PreImage(intent.pre_image, intent.key, intent.plan_id, now)

    def conclude(self, key: str, outcome: str, details: Mapping[str, Any] | None = None) -> None:
        now = self._call("conclude")
        known = self._open(key)
        if known is None:
            return
        intent = replace(known.intent, pre_image=None)
        known.ended = api.Concluded(intent, known.opened_at, now, outcome, dict(details or {}))
        if known.image is not None:
            reason = (details or {}).get("reason")
            known.image = replace(known.image, outcome=outcome, ended_at=now, reason=reason)

    def commit(self, opened: Sequence[api.Intent], ended: Sequence[api.Conclusion]) -> None:
        self._call("commit")
        self.intend(opened)
        for conclusion in ended:
            self.conclude(*conclusion)

    def recovery_failed(self, key: str, error: str) -> api.OpenIntent | None:
        self._call("recovery_failed")
        known = self._open(key)
        if known is None:
            return None
        known.failures += 1
        known.error = error
        return _as_open(known)

    def open_intents(self) -> tuple[api.OpenIntent, ...]:
        self._call("open_intents")
        return tuple(_as_open(known) for known in self._intents if known.ended is None)

    def concluded(self, *, id: str | None = None, since: float = 0.0) -> tuple[api.Concluded, ...]:
        self._call("concluded")
        ended = [known.ended for known in self._intents if known.ended is not None]
        return tuple(
            one
            for one in sorted(ended, key=lambda one: one.concluded_at)
            if one.concluded_at >= since and id in (None, one.intent.record, one.intent.node)
        )

    def newest(self, key: str) -> api.Intent | None:
        self._call("newest")
        return next((one.intent for one in reversed(self._intents) if one.intent.key == key), None)

    def _open(self, key: str) -> _Kept | None:
        return next(
            (one for one in self._intents if one.intent.key == key and one.ended is None), None
        )

    def pre_images(
        self, *, record: str | None = None, since: float = 0.0
    ) -> tuple[api.PreImage, ...]:
        self._call("pre_images")
        images = [known.image for known in reversed(self._intents) if known.image is not None]
        return tuple(
            image
            for image in images
            if record in (None, image.record.uuid) and image.taken_at >= since
        )

    # What must outlive the process.

    def kept(self, what: Kept[T]) -> T:
        self._call(f"kept {what.name}")
        text = self._remembered.get(what.name)
        return what.loaded(None if text is None else json.loads(text), self._now())

    def keep(self, what: Kept[T], value: T) -> None:
        self._call(f"keep {what.name}")
        data = what.write(value, self._now())
        if data is None:
            self._remembered.pop(what.name, None)
        else:
            self._remembered[what.name] = json.dumps(data)

    def _now(self) -> Now:
        return Now(self.boot_id, self.clock.boottime(), self.clock.wall())

    def leftovers(self, *, released: bool = False) -> tuple[Entry, ...]:
        self._call("leftovers")
        wanted = [
            (added_at, entry)
            for added_at, entry in self._leftovers.values()
            if released or entry.state is not LedgerState.RELEASED
        ]

        def turn(one: tuple[float, Entry]) -> tuple[float, str, int, str]:
            leftover = one[1].leftover
            return one[0], leftover.node_id, leftover.order, leftover.id

        return tuple(_as_kept(entry) for _, entry in sorted(wanted, key=turn))

    def save_leftovers(self, entries: Sequence[Entry]) -> None:
        now = self._call("save_leftovers")
        for entry in entries:
            added_at, _ = self._leftovers.get(entry.leftover.key, (now, entry))
            self._leftovers[entry.leftover.key] = added_at, entry

    def forget_leftovers(self, leftovers: Sequence[Leftover]) -> None:
        self._call("forget_leftovers")
        for one in leftovers:
            self._leftovers.pop(one.key, None)

    # What was logged.

    def tell(self, event: LoggedEvent) -> None:
        if self.keeps_entries:
            self.logged.append(event)

    def last_logged(self, events: Collection[str], about: str) -> tuple[LoggedEvent, ...]:
        newest = {getattr(one, about): one for one in self.logged if one.event in events}
        return tuple(newest.values())

    # What was seen and decided.

    def begin(self, start: Start) -> None:
        self._noted = [start]

    def note(self, fact: Fact) -> None:
        if self.keeps_entries:
            self._noted.append(fact)

    def decided(self, decision: Decision) -> None:
        noted, self._noted = self._noted, []
        self._call("decided")
        if self.keeps_entries:
            self.entries += [*noted, decision]

    def tidy(self) -> None:
        self._call("tidy")

    def close(self) -> None:
        return


def _as_open(known: _Kept) -> api.OpenIntent:
    return api.OpenIntent(
        known.intent,
        known.opened_at,
        known.failures,
        known.failures >= api.PASSED_OVER_AFTER,
        known.error,
    )


def _as_kept(entry: Entry) -> Entry:
    """An untried one whose node is gone is not told from one whose node is not."""
    return replace(entry, state=LedgerState.WAITING) if entry.state is LedgerState.DUE else entry
