"""What the tests of clouds that misbehave must know of a cloud."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass

from nodemanager.cloud.api import CloudDriver, CreateOrder
from nodemanager.core.model.world import CloudNode
from tests.live.proxy import Fate

HTTP_FATES = (
    Fate.REQUEST_CUT,
    Fate.REPLY_CUT,
    Fate.REPLY_LOST,
    Fate.REPLY_SPOILT,
    Fate.FOREIGN,
    Fate.MISSING,
    Fate.EMPTY,
    Fate.ANOTHER_API,
    Fate.THROTTLED,
)
RPC_FATES = (Fate.REQUEST_CUT, Fate.REPLY_CUT, Fate.REPLY_LOST, Fate.FOREIGN)


@dataclass(frozen=True)
class World:
    """A cloud, an adapter that has to go the way to it, and one that goes straight.

    `open` gives an adapter whose calls have so many seconds. `fates` are those that answer at once.
    """

    open: Callable[[float], CloudDriver]
    straight: CloudDriver
    meeting: Callable[[Callable[[str], Fate]], AbstractContextManager[None]]
    order: Callable[[], CreateOrder]
    by_hand: Callable[[], str]
    """Starts a node beside us, without a tag of ours; its id."""
    vanish: Callable[[str], object]
    """Takes a node away behind our back; the cloud knows nothing of it afterwards."""
    fates: tuple[Fate, ...] = HTTP_FATES
    pin: Callable[[CloudNode], object] = lambda node: None
    """Gives a node what outlives it, where its create does not."""
    ends_nothing: Callable[[], object] = lambda: None
    """From now on the cloud accepts every destroy, and no node ends."""
    learns: bool = False
    """What an adapter has seen before changes what it sends for a node: it knows where that is."""
    reconnects: bool = False
    """What went wrong before changes what an adapter sends: it has to make the one connection of
    all its calls again."""
    elsewhere: Callable[[], AbstractContextManager[None]] = nullcontext
    """The credentials, or the address, lead to another account meanwhile."""
    forget: Callable[[str], object] = lambda node_id: None
    """The cloud lists a node that has ended no more, as after an hour; others do so at once."""
