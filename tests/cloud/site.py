"""What the contract suite must know of a cloud that has a server of its own, and an operator's
hands. Each cloud's folder has its `site.py`."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import Any, ClassVar

from nodemanager.cloud.api import CloudDriver, CreateOrder
from nodemanager.cloud.tags import INCARNATION_TAG, POOL_TAG
from nodemanager.core.model.world import CloudNode, CloudState, Leftover, LeftoverKind
from tests.cloud import faults

Tags = Mapping[str, str]
Answer = Callable[[], Any]
"""A server's answer in place of its own."""
Fault = tuple[str, dict[str, Any]]
"""An action of the server, and how it goes wrong: see tests.cloud.faults.Fault."""


def replaced(old: str, new: str) -> Callable[[faults.Reply], faults.Reply]:
    """An answer with one text in place of another, which must be there."""

    def replace(reply: faults.Reply) -> faults.Reply:
        assert old.encode() in reply.body, f"{old} is not in the answer"
        body = reply.body.replace(old.encode(), new.encode())
        return faults.Reply(reply.status, body, reply.headers)

    return replace


class CloudSite(ABC):
    """A cloud as new. Actions are its server's names for what is asked of it; `another` gives an
    answer with one text in place of another, `plain` any answer: its status and its text."""

    show: ClassVar[str]
    """What a question for one node by its id sends."""
    create: ClassVar[str]
    destroy: ClassVar[str]
    deletes: ClassVar[Sequence[str]]
    """The actions that delete a thing; the first deletes a volume."""
    listings: ClassVar[Sequence[str]]
    """The actions that list things, and that which lists nodes."""
    operation: ClassVar[str] = ""
    """What tells whether a create has ended; empty where nothing is asked by it."""
    image: ClassVar[str] = ""
    """What asks for the image; empty where nothing does."""
    failed: ClassVar[Answer]
    """An internal error of the cloud."""
    throttled: ClassVar[Answer]
    forbidden: ClassVar[Answer]
    gone: ClassVar[Answer]
    """The cloud's own word that there is no such volume."""
    in_use: ClassVar[Sequence[Answer]]
    """Refusals to delete a volume that came into use."""
    unlisted: ClassVar[Sequence[Fault]]
    """Answers that may lack things."""
    no_owner: ClassVar[Fault]
    """A list of nodes with one whose tags can't be read."""
    odd_fields: ClassVar[Sequence[tuple[Callable[[Any], Any], str]]]
    """What makes a field of a list's first node unreadable, and how its problem begins."""
    nameless: ClassVar[Sequence[Callable[[Any], Any]]]
    """What takes the id from a list's first node."""
    unknown_id: ClassVar[str]
    places: ClassVar[tuple[str, str]]
    """Two zones."""
    cut = staticmethod(faults.lost)
    plain: Callable[..., Answer] = staticmethod(faults.plain)
    another: Callable[[str, str], Callable[[Any], Any]] = staticmethod(replaced)

    def __init__(self, server: Any, open: Callable[..., CloudDriver]) -> None:
        self.server = server
        self.open = open
        """An adapter with that configuration and time-out."""

    @cached_property
    def driver(self) -> CloudDriver:
        """One with which nothing has gone wrong yet."""
        return self.open()

    @abstractmethod
    def order(self) -> CreateOrder:
        """An order for a small node."""

    @abstractmethod
    def said(self, text: str) -> Answer:
        """A refusal of a wrong order, in those words."""

    @abstractmethod
    def states(self) -> Mapping[CloudState, Callable[[str], object]]:
        """What brings a node of that id into each state."""

    @abstractmethod
    def pin(self, node: CloudNode, tags: Tags) -> list[Leftover]:
        """Another hand gives the node one thing of each kind, its volume first."""

    @abstractmethod
    def add_volume(self, node: CloudNode, tags: Tags) -> str:
        """Another hand attaches a volume."""

    @abstractmethod
    def set_tags(self, volume: str, tags: Tags) -> None:
        """An operator gives a volume other tags."""

    @abstractmethod
    def detach(self, volume: str, node_id: str) -> None:
        """An operator takes a volume from its node."""

    @abstractmethod
    def attach(self, volume: str, node_id: str) -> None:
        """An operator gives a volume to another node."""

    @abstractmethod
    def by_hand(self) -> str:
        """Somebody else starts a node; its id."""

    @abstractmethod
    def fill(self, place: str) -> None:
        """That zone has no room for the next node."""

    def end(self, node_id: str) -> None:
        """The node has ended, and uses nothing any more."""
        self.driver.destroy(node_id)

    def slow(self) -> None:
        """The next operations take long."""
        raise NotImplementedError

    def due(self) -> None:
        """What is under way is due now."""
        raise NotImplementedError

    def forget_requests(self) -> None:
        """The cloud knows no request of before by its token."""
        raise NotImplementedError

    def tags(self, node: CloudNode) -> Tags:
        """What a node's own things bear."""
        assert node.tags.pool is not None
        assert node.tags.incarnation is not None
        return {POOL_TAG: node.tags.pool, INCARNATION_TAG: node.tags.incarnation}

    def sent(self) -> int:
        """How many deletes of things were sent."""
        return sum(len(self.server.called(action)) for action in self.deletes)

    def close(self) -> None:
        """Fails where a request or an answer contradicted the vendor's own description of its API.
        Who comes next finds a cloud as new."""
        if "driver" in vars(self):
            self.driver.close()
        assert self.server.wrong == []


def volume_of(path: str, node: CloudNode) -> Leftover:
    return Leftover(LeftoverKind.VOLUME, path, node.id)
