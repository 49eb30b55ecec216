"""What workflows leave behind for the plans: limits, nodes not listed yet, sizes of claims."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from nodemanager.core.demand import after_refusal, after_success
from nodemanager.core.reasons import Reason
from nodemanager.core.settings import Settings
from nodemanager.core.snapshot import Expected, Limits
from nodemanager.errors import RemoteError


@dataclass(frozen=True, slots=True)
class Claimed:
    """A record is claimed for a node of that size."""

    record: str
    size: str


@dataclass(frozen=True, slots=True)
class CreateRefused:
    """The cloud would not create nodes of these sizes (D6)."""

    sizes: tuple[str, ...]
    error: RemoteError


@dataclass(frozen=True, slots=True)
class NodeExpected:
    """A node that the cloud created, or perhaps did (`node_id` None), and no listing shows."""

    record: str
    incarnation: str | None
    size: str
    node_id: str | None = None
    is_new: bool = True
    """Whether the create was answered just now: one that was found by tag tells no more of it."""


@dataclass(frozen=True, slots=True)
class WriteInDoubt:
    """A write to the record may still take effect, where the store can't compare (C12)."""

    record: str


@dataclass(frozen=True, slots=True)
class Withdrawn:
    """A set-up of that size was withdrawn since the newest plan."""

    size: str


@dataclass(frozen=True, slots=True)
class NodeGone:
    """A node that we destroyed is gone."""

    node_id: str
    reason: Reason
    size: str | None


@dataclass(frozen=True, slots=True)
class PinsFailed:
    """Once more the cloud did not tell in time what a node pins."""

    node_id: str
    error: RemoteError | None


@dataclass(frozen=True, slots=True)
class PinsTold:
    """It did, or nobody asks any more."""

    node_id: str


@dataclass(frozen=True, slots=True)
class PinsCalledOff:
    """A node is not destroyed after all: what it pins is not left behind."""

    node_id: str


@dataclass(frozen=True, slots=True)
class PinsDoubted:
    """Nobody knows whether a node is gone: what it pins may be left behind."""

    node_id: str


Learned = (
    Claimed
    | CreateRefused
    | NodeExpected
    | WriteInDoubt
    | Withdrawn
    | NodeGone
    | PinsFailed
    | PinsTold
    | PinsCalledOff
    | PinsDoubted
)


@dataclass(frozen=True, slots=True)
class Books:
    """`created` has the size of each node of ours by its record and life, until it is cleaned."""

    limits: Limits = field(default_factory=Limits)
    expected: Mapping[str, Expected] = field(default_factory=dict)
    created: Mapping[str, tuple[str | None, str]] = field(default_factory=dict)
    sizes: Mapping[str, str] = field(default_factory=dict)
    withdrawn: Counter[str] = field(default_factory=Counter)
    pins_failed: Mapping[str, int] = field(default_factory=dict)


def learned(books: Books, one: Learned, now: float, nodes: int, settings: Settings) -> Books:
    """The books with it. `nodes` is how many there are now."""
    match one:
        case Claimed(record, size):
            return replace(books, sizes={**books.sizes, record: size})
        case CreateRefused(sizes, error):
            limits = books.limits
            for size in sizes:
                limits = after_refusal(limits, error, size, nodes, now, settings)
            return replace(books, limits=limits)
        case NodeExpected():
            expected = Expected(one.node_id, one.size, now, one.incarnation)
            books = replace(books, expected={**books.expected, one.record: expected})
            if one.node_id is None or not one.is_new:
                return replace(books, sizes={**books.sizes, one.record: one.size})
            created = {**books.created, one.record: (one.incarnation, one.size)}
            # The one just created is among them.
            limits = after_success(books.limits, one.size, nodes + 1)
            return replace(books, created=created, limits=limits)
        case Withdrawn(size):
            return replace(books, withdrawn=books.withdrawn + Counter([size]))
        case PinsFailed(node_id):
            failed = books.pins_failed.get(node_id, 0) + 1
            return replace(books, pins_failed={**books.pins_failed, node_id: failed})
        case PinsTold(node_id):
            left = {id: count for id, count in books.pins_failed.items() if id != node_id}
            return replace(books, pins_failed=left)
        case WriteInDoubt() | NodeGone() | PinsCalledOff() | PinsDoubted():
            return books
