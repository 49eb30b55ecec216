"""What workflows leave behind for the plans: limits, nodes not listed yet, sizes of claims."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from nodemanager.core.demand import after_refusal, after_success
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


Learned = Claimed | CreateRefused | NodeExpected | WriteInDoubt | Withdrawn


@dataclass(frozen=True, slots=True)
class Books:
    """`created` has the size of each node of ours by its record and life, until it is cleaned."""

    limits: Limits = field(default_factory=Limits)
    expected: Mapping[str, Expected] = field(default_factory=dict)
    created: Mapping[str, tuple[str | None, str]] = field(default_factory=dict)
    sizes: Mapping[str, str] = field(default_factory=dict)
    withdrawn: Counter[str] = field(default_factory=Counter)


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
        case WriteInDoubt():
            return books
