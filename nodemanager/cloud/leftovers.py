"""What nodes leave behind, the same in every cloud: whose it is, and the order of its release (D4).

A cloud's `leftovers.py` reads its answers into CloudResources, and has its calls.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any, ClassVar, Generic, Protocol, TypeVar

from libcloud.compute.base import NodeDriver

from nodemanager.cloud.refusal import CodedRefusal
from nodemanager.cloud.tags import INCARNATION_TAG, POOL_TAG, on_hold
from nodemanager.core.model.world import Leftover, LeftoverKind, Outcome
from nodemanager.errors import IncompleteListing, LeftAlone


class ReadNode(Protocol):
    """A node of an answer."""

    @property
    def id(self) -> str | None:
        """The cloud's id for it; empty or None where the answer has none."""
        ...

    @property
    def state(self) -> str:
        """The cloud's own word for its state; raises ValueError where it can't be read."""
        ...


N = TypeVar("N", bound=ReadNode)
W = TypeVar("W")


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
    handle: Any = field(default=None, compare=False, repr=False)
    """What a cloud's library knows it by, beside its id."""

    @property
    def what(self) -> str:
        return f"{self.kind} {self.id}"

    @property
    def incarnation(self) -> str:
        """The incarnation of the node that it was made for; empty where it does not say."""
        return self.tags.get(INCARNATION_TAG, "")

    @property
    def held(self) -> bool:
        return on_hold(self.tags)

    def is_ours(self, pool: str) -> bool:
        """Whether it bears our pool and an incarnation, as the create call set them (U5)."""
        return self.tags.get(POOL_TAG) == pool and bool(self.incarnation)

    def is_free(self, pool: str) -> bool:
        return self.is_ours(pool) and not (self.used or self.ending or self.held)


class PoolLeftovers(ABC, Generic[W, N]):
    """See nodemanager.cloud.provider.Leftovers. A cloud says how its things and nodes are listed,
    read and deleted. `wire` gives its API on a driver's connection, `node` the node of an id in any
    pool and state, None only for the cloud's own "no such node".

    The order of all calls is the same in every cloud, and nothing is ever detached.
    """

    STOPPING: ClassVar[str]
    """The state of a node that is being deleted."""
    ENDED: ClassVar[str] = ""
    """The state of a node that has ended and is still listed."""
    MARKS: ClassVar[str] = "tags"
    """What the cloud calls our tags."""
    IN_USE: ClassVar[Collection[str]] = ()
    """The cloud's codes for a thing that came into use after it was checked."""

    def __init__(
        self,
        pool: str,
        wire: Callable[[NodeDriver], W],
        node: Callable[[NodeDriver, str], N | None],
    ) -> None:
        self.pool = pool
        self.wire = wire
        self.node = node

    @abstractmethod
    def pinned(self, driver: NodeDriver, node_id: str) -> Iterable[CloudResource]:
        """What the node uses and the cloud does not delete with it; others' may be among them."""

    @abstractmethod
    def things(self, wire: W) -> Iterable[CloudResource]:
        """Everything that bears our pool's tag; others' may be among it."""

    @abstractmethod
    def nodes(self, wire: W, incarnation: str | None = None) -> list[N]:
        """The pool's nodes, or those of that incarnation in any pool, in any state."""

    @abstractmethod
    def incarnation(self, node: N) -> str | None:
        """The incarnation of a node. Raises ValueError where it can't be read."""

    @abstractmethod
    def asked(self, wire: W, leftover: Leftover) -> CloudResource | None:
        """What the cloud tells of it now; None only for the cloud's own "not found"."""

    @abstractmethod
    def delete(self, wire: W, thing: CloudResource) -> Outcome | None:
        """Send the delete. GONE where the cloud says so at once; the next question tells it
        otherwise."""

    def refused(self, thing: CloudResource, error: Exception) -> Outcome | None:
        """What the error of a delete means: GONE for the cloud's own "not found"; ACCEPTED where
        the thing came into use after it was checked, for the next attempt sees by whom; else None.
        """
        if not isinstance(error, CodedRefusal):
            return None
        if error.is_not_found:
            return Outcome.GONE
        return Outcome.ACCEPTED if error.code in self.IN_USE else None

    def others(
        self, wire: W, leftover: Leftover, thing: CloudResource, owners: Callable[[], list[N]]
    ) -> Iterable[str]:
        """What uses it and is not its own node, in an operator's words."""
        return thing.holders - {leftover.node_id}

    def is_used(self, leftover: Leftover, thing: CloudResource) -> bool:
        """Whether the cloud would refuse to delete it now."""
        return thing.used

    def state(self, node: N) -> str:
        """The node's state; one that can't be read is neither ENDED nor STOPPING (P3)."""
        try:
            return node.state
        except ValueError:
            return "unreadable"

    def pins(self, driver: NodeDriver, node_id: str) -> tuple[Leftover, ...]:
        """What is ours, or was made for the node, stays when it ends, and is not held."""
        return tuple(
            Leftover(thing.kind, thing.id, node_id, tagged=thing.is_ours(self.pool))
            for thing in self.pinned(driver, node_id)
            if (thing.is_ours(self.pool) or thing.made_with_node) and not thing.held
        )

    def find(self, driver: NodeDriver) -> tuple[Leftover, ...]:
        """Unused things of ours whose node has ended or is not listed.

        Lists the nodes after the things, so that every thing's node is listed, too. The exception
        is a very new node (A1), which the caller must allow for.
        """
        wire = self.wire(driver)
        free = [thing for thing in self.things(wire) if thing.is_free(self.pool)]
        live: set[str] = set()
        ended: dict[str, str] = {}
        for node in self.nodes(wire) if free else ():
            incarnation = self.read_incarnation(node)
            if self.ENDED and self.state(node) == self.ENDED:
                ended[incarnation] = node.id or ""
            else:
                live.add(incarnation)
        return tuple(
            Leftover(thing.kind, thing.id, ended.get(thing.incarnation, ""))
            for thing in free
            if thing.incarnation not in live
        )

    def release(self, driver: NodeDriver, leftover: Leftover) -> Outcome:
        """Check a thing and its node, and only then send the delete; see CloudDriver.release.

        What the cloud has told without being asked again comes first, and the delete is sent only
        if each check before it lets it: a thing waits as long as its node still uses it.
        """
        wire = self.wire(driver)
        thing = self.asked(wire, leftover)
        if thing is None:
            return Outcome.GONE
        what = f"{leftover.kind} {leftover.id}"
        if thing.held:
            raise LeftAlone(f"{what} is held by an operator")
        if leftover.tagged and not thing.is_ours(self.pool):
            raise LeftAlone(f"{what} does not bear the {self.MARKS} of pool {self.pool} any more")
        if thing.ending:
            return Outcome.ACCEPTED
        owners = cache(lambda: self.owners(driver, leftover, thing))
        if others := sorted(self.others(wire, leftover, thing, owners)):
            raise LeftAlone(f"{what} is used by {', '.join(others)}")
        if states := sorted({self.state(node) for node in owners()} - {self.ENDED}):
            if states == [self.STOPPING]:
                return Outcome.ACCEPTED
            raise LeftAlone(f"{what} belongs to a node that is {', '.join(states)}")
        if self.is_used(leftover, thing):
            return Outcome.ACCEPTED
        try:
            return self.delete(wire, thing) or Outcome.ACCEPTED
        except Exception as error:
            outcome = self.refused(thing, error)
            if outcome is None:
                raise
            return outcome

    def owners(self, driver: NodeDriver, leftover: Leftover, thing: CloudResource) -> list[N]:
        """The nodes that owned the thing, by id where it is known, else by incarnation.

        Raises LeftAlone where both are unknown.
        """
        if leftover.node_id:
            found = self.node(driver, leftover.node_id)
            return [] if found is None else [found]
        if not thing.incarnation:
            raise LeftAlone(f"the node of {thing.what} is unknown")
        return self.nodes(self.wire(driver), thing.incarnation)

    def read_incarnation(self, node: N) -> str:
        """Raises IncompleteListing where it can't be read: any thing might then belong to it."""
        try:
            return self.incarnation(node) or ""
        except (TypeError, ValueError) as error:
            raise IncompleteListing(f"find leftovers: node {node.id or '?'}: {error}") from error
