"""What the contract suite must know of a cloud."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from typing import Any

import mock

from nodemanager.cloud.api import CloudDriver
from nodemanager.core.model.world import CloudNode, CloudState, LeftoverKind


@dataclass(frozen=True)
class CloudFixture:
    """A cloud, and what the suite must know of it.

    `open(pool)` gives an adapter to the one cloud. `states` brings a node of that id into a
    state by other hands than the adapter's. `listing_through(change)` puts `change` between
    the cloud's node listing and the adapter, which must make of it what the port says.
    `driver_type` is the libcloud class whose errors are translated.
    """

    open: Callable[[str], CloudDriver]
    listing_through: Callable[[Callable[[Any], Any]], AbstractContextManager[None]]
    states: Mapping[CloudState, Callable[[str], None]] = field(default_factory=dict)
    pin: Callable[[CloudNode], set[tuple[LeftoverKind, str]]] = lambda node: set()
    """Gives the node what outlives it, as our create would; {} where nothing can."""
    by_hand: Callable[[], str] = lambda: ""
    """Starts a node beside us, without a tag of ours; its id."""
    without_image: Callable[[], CloudDriver] | None = None
    """An adapter whose image is not there."""
    newer_image: Callable[[], None] = lambda: None
    """Gives the configured name of the image to another one, as an operator does."""
    unknown_id: str = "no-such-node"


@contextmanager
def method_through(cls: type, name: str, change: Callable[[Any], Any]) -> Iterator[None]:
    """Every answer of that libcloud method passes through `change`."""
    original = getattr(cls, name)

    def changed(self: Any, *args: Any, **kwargs: Any) -> Any:
        return change(original(self, *args, **kwargs))

    with mock.patch.object(cls, name, autospec=True, side_effect=changed):
        yield
