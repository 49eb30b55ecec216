"""The port to the journal: what must be on the disk before and after every action.

One contract suite, tests/journal/test_contract.py, holds every journal to this text.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from types import MappingProxyType
from typing import Any, NamedTuple, Protocol, TypeVar

from nodemanager.core.model.world import Leftover, Record
from nodemanager.core.observe.facts import Fact
from nodemanager.core.plan.leftovers import Entry
from nodemanager.core.replay.fold import Decision, Start
from nodemanager.journal.event import LoggedEvent
from nodemanager.journal.kept import Kept

T = TypeVar("T")

PASSED_OVER_AFTER = 5
"""The number of failed recoveries after which an intent is passed over (reported) (R1)."""


class IntentKind(StrEnum):
    """The kind of an intended action."""

    CLAIM = "claim"
    CREATE = "create"
    DESTROY = "destroy"
    FENCE = "fence"
    CLEAN = "clean"
    PRUNE = "prune"


@dataclass(frozen=True, slots=True)
class Intent:
    """An action that is about to be sent, written to the journal first.

    `key` is unique among the open intents; `record` and `node` are what it blocks (R1). `details`
    is everything that recovery needs to finish it, as JSON; texts under keys that name secrets are
    left out. `pre_image` is the record before a clean or fence, with its ping secret.
    """

    kind: IntentKind
    key: str
    plan_id: str
    record: str | None = None
    node: str | None = None
    details: Mapping[str, Any] = field(default_factory=dict)
    pre_image: Record | None = field(default=None, repr=False)


@dataclass(frozen=True, slots=True)
class OpenIntent:
    """An intent without an outcome, opened at epoch seconds. One passed over blocks nothing."""

    intent: Intent
    opened_at: float
    failures: int = 0
    passed_over: bool = False
    error: str | None = None


class Conclusion(NamedTuple):
    """The outcome of the open intent with that key."""

    key: str
    outcome: str
    details: Mapping[str, Any] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Concluded:
    """An intent with its outcome; times are epoch seconds."""

    intent: Intent
    opened_at: float
    concluded_at: float
    outcome: str
    details: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class PreImage:
    """A record before a clean, with its ping secret (U8). Times are epoch seconds.

    `outcome` is that of its intent, None while it is unknown whether the write took effect.
    `reason` is the reason code with which the intent was concluded.
    """

    record: Record = field(repr=False)
    key: str
    plan_id: str
    taken_at: float
    outcome: str | None = None
    ended_at: float | None = None
    reason: str | None = None

    @property
    def incarnation(self) -> str | None:
        return self.record.incarnation


class Journal(Protocol):
    """The durable log of one pool's manager.

    Every call but `note` and `tell` is one transaction, which is on the disk when the call
    returns. A failing call raises JournalError and changes nothing; `failure` then says why until
    a call succeeds. Once the file was moved, removed or replaced, every call raises
    JournalReplaced. Several threads may use a journal; it does one write at a time.
    """

    @property
    def failure(self) -> str | None:
        """Why the last write failed and what to do about it; None while the journal works."""
        ...

    def retry(self) -> bool:
        """Try a small write; True when the journal can be written (again)."""
        ...

    # Intents.

    def intend(self, intents: Sequence[Intent]) -> None:
        """Write intents down. An intent replaces an open one with the same key."""
        ...

    def conclude(self, key: str, outcome: str, details: Mapping[str, Any] | None = None) -> None:
        """Write an intent's outcome, also for its pre-image. An unknown key is no error."""
        ...

    def commit(self, opened: Sequence[Intent], ended: Sequence[Conclusion]) -> None:
        """Write new intents and the outcomes of those that led to them, in one transaction."""
        ...

    def recovery_failed(self, key: str, error: str) -> OpenIntent | None:
        """Count a failed recovery; gives the intent, passed over after PASSED_OVER_AFTER (R1)."""
        ...

    def open_intents(self) -> tuple[OpenIntent, ...]:
        """All intents without an outcome, oldest first, including those passed over."""
        ...

    def concluded(self, *, id: str | None = None, since: float = 0.0) -> tuple[Concluded, ...]:
        """The outcomes since `since` (epoch seconds), oldest first; only those of the record or
        node `id` where it is given."""
        ...

    def newest(self, key: str) -> Intent | None:
        """The newest intent of that key, open or concluded, with its pre-image; an indexed read."""
        ...

    # Pre-images.

    def pre_images(self, *, record: str | None = None, since: float = 0.0) -> tuple[PreImage, ...]:
        """The pre-images within retention, newest first (U8).

        Only those of the given record, and only those taken since `since` (epoch
        seconds).
        """
        ...

    # What must outlive the process (R4).

    def kept(self, what: Kept[T]) -> T:
        """The value as last kept, its times converted to this boot's clock.

        Raises what `what.read` raises where this program does not know the stored form.
        """
        ...

    def keep(self, what: Kept[T], value: T) -> None:
        """Keep a value in place of the one before."""
        ...

    def leftovers(self, *, released: bool = False) -> tuple[Entry, ...]:
        """The ledger of leftovers, in the order of entry and release (D4).

        Times are those of the boot that wrote them, because a restart sets each anew. An entry that
        was never tried is given as WAITING, since the journal does not keep whether its node is
        gone. `released` includes the entries that are released already.
        """
        ...

    def save_leftovers(self, entries: Sequence[Entry]) -> None:
        """Keep the current state of these entries: new, tried once more, or released."""
        ...

    def forget_leftovers(self, leftovers: Sequence[Leftover]) -> None:
        """Remove entries that are not leftovers after all: their node was not destroyed (D2)."""
        ...

    # Logged events.

    def tell(self, event: LoggedEvent) -> None:
        """Keep a logged event. The next call writes it to the disk. Never raises."""
        ...

    def last_logged(self, events: Collection[str], about: str) -> tuple[LoggedEvent, ...]:
        """The newest of those events for each record or node; `about` is `record` or `node`."""
        ...

    # What was seen and decided.

    def begin(self, start: Start) -> None:
        """Set the state that the following facts and decisions start from, in a new run."""
        ...

    def note(self, fact: Fact) -> None:
        """Note a fact that is being folded. The next decision writes it. Never raises."""
        ...

    def decided(self, decision: Decision) -> None:
        """Write the noted facts and this decision. After a failure the next one begins a new
        segment."""
        ...

    # The end.

    def tidy(self) -> None:
        """Delete what is older than `keep` or beyond `max_size`; shorten the write-ahead log."""
        ...

    def close(self) -> None: ...
