"""What nodes leave behind, the same in every cloud: whose it is, and the order of its release (D4).

A cloud's `leftovers.py` reads its answers into Things, and gives `release` its own calls.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Container, Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Protocol, TypeVar

from nodemanager.cloud.tags import INCARNATION_TAG, POOL_TAG, on_hold
from nodemanager.core.model.world import Leftover, LeftoverKind, Outcome
from nodemanager.errors import IncompleteListing, LeftAlone

N = TypeVar("N")


@dataclass(frozen=True, slots=True)
class CloudResource:
    """A volume, interface or address from a cloud's answer.

    `tags` are empty where they can't be read: then nothing shows that it is ours. `holders` are
    the cloud's names of what uses it; `used` is True when anything uses it. `ending`: the cloud is
    deleting it. `stays` is False only where the cloud says that it is deleted with its node.
    `made_with_node`: it has no tags, and the cloud itself made it for its node.
    """

    kind: LeftoverKind
    id: str
    tags: Mapping[str, str]
    holders: frozenset[str] = frozenset()
    used: bool = False
    ending: bool = False
    stays: bool = True
    made_with_node: bool = False

    @property
    def what(self) -> str:
        """Its name in a message."""
        return f"{self.kind} {self.id}"

    @property
    def incarnation(self) -> str:
        """The incarnation of the node that it was made for; empty where it does not say."""
        return self.tags.get(INCARNATION_TAG, "")

    @property
    def held(self) -> bool:
        """Whether an operator holds it by a tag."""
        return on_hold(self.tags)

    def is_ours(self, pool: str) -> bool:
        """Whether it bears our pool and an incarnation, as the create call set them (U5)."""
        return self.tags.get(POOL_TAG) == pool and bool(self.incarnation)

    def is_free(self, pool: str) -> bool:
        """Whether it is ours, nothing uses it, and it may be released."""
        return self.is_ours(pool) and not (self.used or self.ending or self.held)


def orphans(
    free: Iterable[CloudResource],
    live: Container[str],
    ended: Mapping[str, str] = MappingProxyType({}),
) -> tuple[Leftover, ...]:
    """The leftovers among free things: those whose incarnation is not in `live`.

    `ended` has the ids of nodes that have ended and are still listed, by their incarnations.
    """
    return tuple(
        Leftover(thing.kind, thing.id, ended.get(thing.incarnation, ""))
        for thing in free
        if thing.incarnation not in live
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Calls:
    """A cloud's own part in the release of one thing; `release` says when each is called."""

    others: Callable[[], Iterable[str]]
    """What uses it and is not its own node, in an operator's words."""
    states: Callable[[], Collection[str]]
    """The cloud's words for the states of its nodes that exist (see `owners`)."""
    stopping: str
    """The state of a node that is being deleted."""
    delete: Callable[[], Outcome]
    """Sends the delete: ACCEPTED, or GONE where the cloud says so at once."""
    refused: Callable[[Exception], Outcome | None] = lambda error: None
    """What the error of a delete means: GONE for the cloud's own "not found"; ACCEPTED where the
    thing came into use after it was checked, for the next attempt sees by whom; else None."""
    marks: str = "tags"
    """What the cloud calls our tags."""


def release(leftover: Leftover, thing: CloudResource, pool: str, calls: Calls) -> Outcome:
    """Check a thing and its node, and only then send the delete; see CloudDriver.release.

    The order is the same in every cloud. What the cloud has told without being asked again comes
    first, and the delete is sent only if each check before it lets it. Nothing is ever detached:
    a thing waits as long as its node still uses it.
    """
    what = f"{leftover.kind} {leftover.id}"
    if thing.held:
        raise LeftAlone(f"{what} is held by an operator")
    if leftover.tagged and not thing.is_ours(pool):
        raise LeftAlone(f"{what} does not bear the {calls.marks} of pool {pool} any more")
    if thing.ending:
        return Outcome.ACCEPTED
    if others := sorted(calls.others()):
        raise LeftAlone(f"{what} is used by {', '.join(others)}")
    if states := sorted(set(calls.states())):
        if states == [calls.stopping]:
            return Outcome.ACCEPTED
        raise LeftAlone(f"{what} belongs to a node that is {', '.join(states)}")
    if thing.used:
        return Outcome.ACCEPTED
    try:
        return calls.delete()
    except Exception as error:
        outcome = calls.refused(error)
        if outcome is None:
            raise
        return outcome


def owners(
    leftover: Leftover,
    thing: CloudResource,
    by_id: Callable[[str], N | None],
    by_incarnation: Callable[[str], list[N]],
) -> list[N]:
    """The nodes that owned the thing, by id where it is known, else by incarnation.

    Neither question may filter by pool or state. Raises LeftAlone where both are unknown.
    """
    if leftover.node_id:
        found = by_id(leftover.node_id)
        return [] if found is None else [found]
    if not thing.incarnation:
        raise LeftAlone(f"the node of {thing.what} is unknown")
    return by_incarnation(thing.incarnation)


class _Read(Protocol):
    """A node of an answer."""

    @property
    def id(self) -> str:
        """The cloud's id for it; empty where the answer has none."""
        ...

    @property
    def state(self) -> str:
        """The cloud's own word for its state; raises ValueError where it can't be read."""
        ...


R = TypeVar("R", bound=_Read)


def state_of(node: _Read) -> str:
    """The node's raw state; one that can't be read is neither that of a node that has ended nor
    that of one that ends (P3)."""
    try:
        return node.state
    except ValueError:
        return "unreadable"


def incarnation_of(node: R, read: Callable[[R], str | None]) -> str:
    """The node's incarnation; empty where it has none.

    Raises IncompleteListing where it can't be read: any thing might then belong to this node.
    """
    try:
        return read(node) or ""
    except ValueError as error:
        raise IncompleteListing(f"find leftovers: node {node.id or '?'}: {error}") from error
