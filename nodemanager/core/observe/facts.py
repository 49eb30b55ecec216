"""The facts that the daemon learns and the journal stores; each `at` is CLOCK_BOOTTIME seconds."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from nodemanager.core.model import world
from nodemanager.core.model.breaker import Breaker
from nodemanager.core.model.scheduling import SchedulerNode
from nodemanager.core.model.settings import Settings
from nodemanager.core.observe.clocks import Clocks
from nodemanager.core.observe.history import Nodes, Records
from nodemanager.core.observe.pings import Hostnames


@dataclass(frozen=True, slots=True)
class CloudPollBegun:
    """A cloud poll is about to begin (C6)."""

    at: float


@dataclass(frozen=True, slots=True)
class CloudSeen:
    """A cloud listing arrived; `account` is the credentials' account, None where not asked for."""

    listing: Nodes
    account: str | None = None


@dataclass(frozen=True, slots=True)
class ImageFound:
    """What nodes would be booted from now changed: the image's immutable id, None if unknown."""

    image: str | None
    at: float


@dataclass(frozen=True, slots=True)
class RecordsSeen:
    """A record listing arrived; `answered_at` is when the ping URL answered, None if not (D8)."""

    listing: Records
    store_id: str
    store_time: world.StoreTime
    slots: int | None
    answered_at: float | None


@dataclass(frozen=True, slots=True)
class DemandSeen:
    """A demand poll succeeded; `jobs` is the whole wishlist."""

    jobs: tuple[world.Job, ...]
    started_at: float
    ended_at: float


@dataclass(frozen=True, slots=True)
class SchedulerSeen:
    """A scheduler was polled: first, at `asked_at`, for its whole queue, then for its nodes."""

    listing: world.Listing[SchedulerNode]
    jobs: tuple[world.Job, ...]
    asked_at: float


@dataclass(frozen=True, slots=True)
class PollMissed:
    """A poll failed: no evidence (L1). `kind` is the error's class, `error` its text."""

    source: str
    kind: str
    error: str
    retry_s: float
    took_s: float
    at: float


@dataclass(frozen=True, slots=True)
class NodesAnswered:
    """The cloud answered questions by id (B3, P6, U8); `malformed` are no valid node ids (P1a).

    The answers arrived at `at`; the first question was sent at `asked_at`.
    """

    answers: Mapping[str, world.CloudNode | None]
    at: float
    malformed: frozenset[str] = frozenset()
    asked_at: float | None = None


@dataclass(frozen=True, slots=True)
class TagsAnswered:
    """The cloud answered by tag; `answers` is by record uuid, times as in NodesAnswered (P6)."""

    answers: Mapping[str, tuple[world.CloudNode, ...]]
    at: float
    asked_at: float | None = None


@dataclass(frozen=True, slots=True)
class LivesFreed:
    """Our cleans ended these lives, in this run or, as known at its start, in earlier ones (U8)."""

    lives: tuple[world.FreedLife, ...]
    at: float


@dataclass(frozen=True, slots=True)
class LatePinged:
    """The store remembers these late pings of freed lives; they changed the breaker (U8)."""

    pings: tuple[world.LatePing, ...]
    at: float


@dataclass(frozen=True, slots=True)
class DestroySent:
    """We sent the cloud a destroy of this node, or may have; `refused`: it definitely refused (L3).

    While it stands, a listing may lack the node, and the node is not lost.
    """

    node_id: str
    at: float
    refused: bool = False


@dataclass(frozen=True, slots=True)
class NodesExplained:
    """We destroyed these nodes: their absence from a listing is no loss (L3)."""

    node_ids: tuple[str, ...]
    at: float


@dataclass(frozen=True, slots=True)
class RecordsExplained:
    """We deleted these records, or may have: their absence from a listing is no loss (L3)."""

    uuids: tuple[str, ...]
    at: float


@dataclass(frozen=True, slots=True)
class SettingsTaken:
    """A reload put these settings in force."""

    settings: Settings
    at: float


@dataclass(frozen=True, slots=True)
class BreakerSet:
    """Something other than a poll or a plan changed the breaker, such as an operator's reset."""

    breaker: Breaker
    at: float


@dataclass(frozen=True, slots=True)
class ClocksKept:
    """The clocks as an earlier run left them, converted to this boot's CLOCK_BOOTTIME (R4)."""

    clocks: Clocks
    at: float


@dataclass(frozen=True, slots=True)
class HostnamesKept:
    """The hostnames of nodes that live, as an earlier run knew them (D7)."""

    hostnames: Hostnames
    at: float


@dataclass(frozen=True, slots=True)
class CommandGiven:
    """An operator gave a command; `reason` is theirs, `refusal` the reason code if it was refused.

    `record` and `node` are what `id` named. The next decision's snapshot shows the effect.
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
    | ImageFound
    | RecordsSeen
    | DemandSeen
    | SchedulerSeen
    | PollMissed
    | NodesAnswered
    | TagsAnswered
    | LivesFreed
    | LatePinged
    | DestroySent
    | NodesExplained
    | RecordsExplained
    | SettingsTaken
    | BreakerSet
    | ClocksKept
    | HostnamesKept
    | CommandGiven
)
