"""The stream of a page's changes: server-sent events.

A stream ends by itself after STREAM_S seconds and the browser asks for the next one, with the
version that it has. So the server's time limit for an answer holds for a stream, too, and a
viewer that does not read is cut off by it.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager

from falcon.asgi import SSEvent

from nodemanager.core.operate.naming import UnknownIdError
from nodemanager.web.dashboard.source import Source
from nodemanager.web.dashboard.store import WHOLE, Address, Store

STREAM_S = 45.0
LOOK_S = 1.0
BEAT_S = 5.0
RETRY_MS = 1000
LATER_MS = 15_000
"""When a viewer beyond the cap asks again."""


class Viewers:
    """Counts the streams, so that they leave most of the server's connections to others."""

    def __init__(self, most: int, per_peer: int) -> None:
        self.most = most
        self.per_peer = per_peer
        self._peers: Counter[str] = Counter()

    def __len__(self) -> int:
        return self._peers.total()

    def has_room(self, peer: str) -> bool:
        return len(self) < self.most and self._peers[peer] < self.per_peer

    @contextmanager
    def counted(self, peer: str) -> Iterator[None]:
        self._peers[peer] += 1
        try:
            yield
        finally:
            self._peers[peer] -= 1
            if not self._peers[peer]:
                del self._peers[peer]


class Live:
    """Streams the changes of pages."""

    def __init__(self, source: Source, store: Store, viewers: Viewers) -> None:
        self._source = source
        self._store = store
        self._viewers = viewers

    async def stream(
        self, address: Address, version: str, peer: str, goes_on: Callable[[], bool]
    ) -> AsyncIterator[SSEvent]:
        """The events for a viewer who has that version, while `goes_on` says so.

        A viewer beyond the cap gets what changed until now, and is asked to come again later.
        """
        if not self._viewers.has_room(peer):
            version, changed = await self._change(address, version)
            yield self._beat(version, LATER_MS)
            if changed is not None:
                yield changed
            return
        with self._viewers.counted(peer):
            yield self._beat(version, RETRY_MS)
            loop = asyncio.get_running_loop()
            begin = beaten = loop.time()
            while loop.time() - begin < STREAM_S and goes_on():
                version, changed = await self._change(address, version)
                if changed is not None:
                    yield changed
                if loop.time() - beaten >= BEAT_S:
                    beaten = loop.time()
                    yield self._beat(version)
                await asyncio.sleep(LOOK_S)

    async def _change(self, address: Address, version: str) -> tuple[str, SSEvent | None]:
        """The newest version, and the event that leads to it, if anything changed."""
        try:
            page = await self._store.newest(address)
        except UnknownIdError:
            # What the page is about is gone: the page itself says so.
            return version, SSEvent(event="change", json=WHOLE)
        if page is None or page.version == version:
            return version, None
        told = self._store.since(address, version, page)
        if told is None:
            return page.version, None
        return page.version, SSEvent(event="change", event_id=page.version, json=told)

    def _beat(self, version: str, retry: int | None = None) -> SSEvent:
        """That the daemon is there, what time it is, and how old the newest decision is."""
        told = {
            "now": round(self._source.clock.wall(), 3),
            "age": round(self._source.board.age(), 1),
            "later": retry == LATER_MS,
        }
        return SSEvent(event="beat", event_id=version, retry=retry, json=told)
