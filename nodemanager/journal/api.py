"""The port to the journal: what must be on the disk before and after anything is done.

One suite, tests/journal/test_contract.py, holds every journal to this text.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from types import MappingProxyType
from typing import Any, NamedTuple, Protocol

from nodemanager.core.breaker import Breaker
from nodemanager.core.facts import Fact
from nodemanager.core.fold import Decision, Start
from nodemanager.core.late import Late
from nodemanager.core.leftovers import Entry
from nodemanager.core.model import Leftover, Record
from nodemanager.core.store_clock import StoreClock
from nodemanager.journal.event import Told

PARKED_AFTER = 5
"""So many failed recoveries park an intent: it is told of and passed over (R1)."""


class IntentKind(StrEnum):
    """What is about to be done."""

    CLAIM = "claim"
    CREATE = "create"
    DESTROY = "destroy"
    FENCE = "fence"
    CLEAN = "clean"
    PRUNE = "prune"


@dataclass(frozen=True, slots=True)
class Intent:
    """What is about to be sent, written down first.

    `key` tells it from every other open intent; `record` and `node` are what it blocks (R1).
    `details` is all that recovery needs to finish it, as JSON; a text under a key that names a
    secret is left out. `pre_image` is the record as it is before a clean or fence, secret and all.
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
    """An intent without an outcome. `opened_at` is epoch seconds; a parked one blocks nothing."""

    intent: Intent
    opened_at: float
    failures: int = 0
    parked: bool = False
    error: str | None = None


class Conclusion(NamedTuple):
    """What became of the open intent of that key."""

    key: str
    outcome: str
    details: Mapping[str, Any] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Concluded:
    """What became of an intent; times are epoch seconds."""

    intent: Intent
    opened_at: float
    concluded_at: float
    outcome: str
    details: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class PreImage:
    """A record as it was before a clean, its ping secret with it (U8). Times are epoch seconds.

    `outcome` is that of its intent, None while nobody knows whether the write took effect;
    `reason` is the reason code that it was concluded with.
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


@dataclass(frozen=True, slots=True)
class Hold:
    """An operator's mark on a node or record (C9); `at` is epoch seconds."""

    id: str
    reason: str
    by: str
    at: float


class Journal(Protocol):
    """The durable log of one pool's manager.

    Every call but `note` and `tell` is one transaction, on the disk when it returns. A call that
    can't be carried out raises JournalError and changes nothing; `failure` then says why until a
    call succeeds. Used by several threads, one write at a time.
    """

    @property
    def failure(self) -> str | None:
        """Why the last write failed and what to do about it; None while the journal is healthy."""
        ...

    def retry(self) -> bool:
        """Write one small thing now; True once the journal can be written (again)."""
        ...

    # Intents.

    def intend(self, intents: Sequence[Intent]) -> None:
        """Write down what is about to be done. One whose key is open already replaces that."""
        ...

    def conclude(self, key: str, outcome: str, details: Mapping[str, Any] | None = None) -> None:
        """What became of it; its pre-image gets the same outcome. An unknown key is no error."""
        ...

    def commit(self, opened: Sequence[Intent], ended: Sequence[Conclusion]) -> None:
        """Both at once: what is about to be done, and what became of what led to it."""
        ...

    def recovery_failed(self, key: str, error: str) -> OpenIntent | None:
        """Count a failed recovery; the intent as it is then, parked after PARKED_AFTER (R1)."""
        ...

    def open_intents(self) -> tuple[OpenIntent, ...]:
        """All without an outcome, oldest first, the parked ones too."""
        ...

    def concluded(self, *, id: str | None = None, since: float = 0.0) -> tuple[Concluded, ...]:
        """Outcomes since then (epoch seconds), oldest first; `id` is a record's or a node's."""
        ...

    def newest(self, key: str) -> Intent | None:
        """The newest intent of that key, ended or not, its pre-image with it; one keyed read."""
        ...

    # Pre-images.

    def pre_images(
        self, *, record: str | None = None, incarnation: str | None = None, since: float = 0.0
    ) -> tuple[PreImage, ...]:
        """Those within retention, newest first; of one record or incarnation where given (U8).

        `since` leaves out those taken before it (epoch seconds).
        """
        ...

    # What must outlive the process (R4).

    def breaker(self) -> Breaker | None:
        """The breaker as last saved, its times moved to this machine's CLOCK_BOOTTIME.

        One that this program can't read whole is open.
        """
        ...

    def save_breaker(self, breaker: Breaker) -> None: ...

    def store_clock(self) -> StoreClock | None:
        """The store's clock as last saved, against this boot's CLOCK_BOOTTIME.

        After another boot that is told by our wall clock, and only until it is read (T1).
        """
        ...

    def save_store_clock(self, clock: StoreClock) -> None: ...

    def late_writes(self) -> Late:
        """What may still be written to records, as last saved, on this boot's CLOCK_BOOTTIME.

        After another boot all of it counts from now.
        """
        ...

    def save_late_writes(self, late: Late) -> None: ...

    def holds(self) -> tuple[Hold, ...]:
        """All holds, oldest first."""
        ...

    def hold(self, hold: Hold) -> None:
        """Keep a hold; one on the same id is replaced."""
        ...

    def release(self, id: str) -> bool:
        """Forget a hold; False when there was none."""
        ...

    def leftovers(self, *, released: bool = False) -> tuple[Entry, ...]:
        """The ledger, as it was entered and in the order of release (D4).

        Times are moved to this machine's CLOCK_BOOTTIME. Whether an untried one's node is gone is
        not kept: it is told as WAITING. Those released already are told only when asked.
        """
        ...

    def save_leftovers(self, entries: Sequence[Entry]) -> None:
        """Keep them as they are now: entered, tried once more, or released."""
        ...

    def forget_leftovers(self, leftovers: Sequence[Leftover]) -> None:
        """Take out what is no leftover after all: its node was not destroyed (D2)."""
        ...

    def recall(self, name: str) -> Any:
        """The JSON value kept under `name` (a time, a token), or None."""
        ...

    def remember(self, name: str, value: Any) -> None:
        """Keep a JSON value; None forgets it."""
        ...

    # What the log told.

    def tell(self, told: Told) -> None:
        """Something that the log told. It is on the disk with the next call. Never raises."""
        ...

    def last_told(self, events: Collection[str], about: str) -> tuple[Told, ...]:
        """The newest of those events of each `record`, or of each `node`."""
        ...

    # What was seen and decided.

    def begin(self, start: Start) -> None:
        """What the facts and decisions from here on start from: a new process, or a new run."""
        ...

    def note(self, fact: Fact) -> None:
        """A fact that is being folded. It is on the disk with the next decision. Never raises."""
        ...

    def decided(self, decision: Decision) -> None:
        """Write the facts noted and this decision. After a failure the next one starts afresh."""
        ...

    # The end.

    def tidy(self) -> None:
        """Drop what is older than `keep` or beyond `max_size`, and shorten the log file."""
        ...

    def close(self) -> None: ...
