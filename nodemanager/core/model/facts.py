"""What the daemon learns, one fact at a time. The journal keeps them; `fold` says what they do."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from nodemanager.core.model.settings import Settings
from nodemanager.core.model.world import CloudNode, FreedLife, Job, LatePing, StoreTime
from nodemanager.core.observe.history import Nodes, Records
from nodemanager.core.observe.store_clock import StoreClock
from nodemanager.core.safety.breaker import Breaker


@dataclass(frozen=True, slots=True)
class CloudPollBegun:
    """A cloud poll is about to begin (C6); `at` is CLOCK_BOOTTIME, here and below."""

    at: float


@dataclass(frozen=True, slots=True)
class CloudSeen:
    listing: Nodes
    account: str | None = None


@dataclass(frozen=True, slots=True)
class RecordsSeen:
    """`answered_at` is when the nodes' own ping URL answered, None when it did not (D8)."""

    listing: Records
    store_id: str
    store_time: StoreTime
    slots: int | None
    answered_at: float | None


@dataclass(frozen=True, slots=True)
class DemandSeen:
    jobs: tuple[Job, ...]
    started_at: float
    ended_at: float


@dataclass(frozen=True, slots=True)
class PollMissed:
    """A poll that failed: no evidence (L1). `kind` is the error's class, `error` its text."""

    source: str
    kind: str
    error: str
    retry_s: float
    took_s: float
    at: float


@dataclass(frozen=True, slots=True)
class NodesAnswered:
    """The cloud's answers by id (B3, P6, U8); `malformed` are no node's id (P1a).

    They came `at` that time; the first question was sent at `asked_at`.
    """

    answers: Mapping[str, CloudNode | None]
    at: float
    malformed: frozenset[str] = frozenset()
    asked_at: float | None = None


@dataclass(frozen=True, slots=True)
class TagsAnswered:
    """The cloud's answers by tag, by record uuid (P6); with times as in NodesAnswered."""

    answers: Mapping[str, tuple[CloudNode, ...]]
    at: float
    asked_at: float | None = None


@dataclass(frozen=True, slots=True)
class LivesFreed:
    """Lives that our cleans ended: of this run, or of former ones at its start (U8)."""

    lives: tuple[FreedLife, ...]
    at: float


@dataclass(frozen=True, slots=True)
class LatePinged:
    """Pings of freed lives that the store remembers, some not told of before (U8)."""

    pings: tuple[LatePing, ...]
    at: float


@dataclass(frozen=True, slots=True)
class NodesExplained:
    """Nodes that are gone by our own doing: no listing lacks them (L3)."""

    node_ids: tuple[str, ...]
    at: float


@dataclass(frozen=True, slots=True)
class RecordsExplained:
    """Records that are gone, or may be, by our own doing: no listing lacks them (L3)."""

    uuids: tuple[str, ...]
    at: float


@dataclass(frozen=True, slots=True)
class SettingsTaken:
    """Settings in force from here on: a reload."""

    settings: Settings
    at: float


@dataclass(frozen=True, slots=True)
class BreakerSet:
    """The breaker as something other than a poll or a plan left it: an operator, U8."""

    breaker: Breaker
    at: float


@dataclass(frozen=True, slots=True)
class StoreClockKept:
    """The store's clock as a former run left it, on this boot's CLOCK_BOOTTIME (T1, R4)."""

    clock: StoreClock
    at: float


@dataclass(frozen=True, slots=True)
class CommandGiven:
    """An operator's command, refused ones too; `reason` is theirs, `refusal` a reason code.

    `record` and `node` are what its `id` was taken for. What it changed is in the next decision's
    snapshot.
    """

    command: str
    id: str | None
    by: str
    reason: str
    result: str
    at: float
    refusal: str | None = None
    rule: str | None = None
    forced: tuple[str, ...] = ()
    record: str | None = None
    node: str | None = None


Fact = (
    CloudPollBegun
    | CloudSeen
    | RecordsSeen
    | DemandSeen
    | PollMissed
    | NodesAnswered
    | TagsAnswered
    | LivesFreed
    | LatePinged
    | NodesExplained
    | RecordsExplained
    | SettingsTaken
    | BreakerSet
    | StoreClockKept
    | CommandGiven
)
