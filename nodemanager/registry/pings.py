"""The batching of pings: those that arrive together are committed together.

A commit waits for the disk and costs the same for one ping as for a hundred.
"""

from __future__ import annotations

import asyncio
from collections import deque

from nodemanager.errors import StoreError
from nodemanager.lib.workers import Workers
from nodemanager.records.pings import Ping, Pinged, WrongSecret
from nodemanager.records.resource import NodesResource, Outcomes

MOST = 256
GATHERS_S = 0.002
"""Seconds that a commit waits for as many pings as the last one answered, since those clients may
send their next pings now."""

ANSWER_S = 15.0
"""A ping that waited so long behind others gets a 503; so do those before it, from the database's
own time limit."""

PingOutcome = Pinged | Exception | None


class PingWriter:
    """Commits waiting pings together in one thread; `workers` handle those that must be alone.

    For use by one event loop.
    """

    def __init__(self, nodes: NodesResource, workers: Workers) -> None:
        self._nodes = nodes
        self._workers = workers
        self._thread = Workers("pings", 1)
        self._waiting: deque[tuple[Ping, asyncio.Future[PingOutcome]]] = deque()
        self._writing: asyncio.Task[None] | None = None
        self._enough: asyncio.Future[None] | None = None
        self._count = 0
        self.answered = 0
        """How many pings were taken so far."""

    async def ping(self, ping: Ping) -> Pinged:
        """The result of a ping, once it is on the disk. Raises what NodesResource.ping does."""
        future: asyncio.Future[PingOutcome] = asyncio.get_running_loop().create_future()
        self._waiting.append((ping, future))
        if self._writing is None:
            self._writing = asyncio.ensure_future(self._write())
        elif len(self._waiting) >= self._count:
            self._go_on()
        try:
            async with asyncio.timeout(ANSWER_S):
                outcome = await future
        except TimeoutError:
            # It may be written later: its sender pings again before anybody misses it.
            raise StoreError("the registry's database takes too long") from None
        if outcome is None:
            outcome = await self._workers.run(self._nodes.ping, ping)
        if isinstance(outcome, WrongSecret):
            await self._workers.run(self._nodes.remember_late, ping)
        if isinstance(outcome, Exception):
            try:
                raise outcome
            finally:
                # The error and this frame refer to each other, a cycle that only the garbage
                # collector would free.
                del outcome, future
        self.answered += 1
        return outcome

    async def _write(self) -> None:
        """Write batches until no ping waits; pings that arrive meanwhile form the next batch."""
        answered = 1
        try:
            while self._waiting:
                await self._gather(answered)
                batch = self._batch()
                pings = [ping for ping, _ in batch]
                outcomes: Outcomes
                try:
                    outcomes = await self._thread.run(self._nodes.ping_all, pings)
                except Exception as error:
                    outcomes = [error] * len(batch)
                # The next batch may have the clients answered now and those that wait already.
                answered = len(batch) + len(self._waiting)
                for (_, future), outcome in zip(batch, outcomes, strict=True):
                    if not future.done():
                        future.set_result(outcome)
        finally:
            self._writing = None

    async def _gather(self, count: int) -> None:
        """Wait for `count` pings, for GATHERS_S at most."""
        if len(self._waiting) >= count:
            return
        loop = asyncio.get_running_loop()
        self._enough, self._count = loop.create_future(), count
        late = loop.call_later(GATHERS_S, self._go_on)
        try:
            await self._enough
        finally:
            late.cancel()
            self._enough = None

    def _go_on(self) -> None:
        if self._enough is not None and not self._enough.done():
            self._enough.set_result(None)

    def _batch(self) -> list[tuple[Ping, asyncio.Future[PingOutcome]]]:
        """The next batch, with one ping per record: a second one depends on the first's write."""
        taken: dict[str, tuple[Ping, asyncio.Future[PingOutcome]]] = {}
        later = []
        while self._waiting and len(taken) < MOST:
            one = self._waiting.popleft()
            if one[0].uuid in taken:
                later.append(one)
            else:
                taken[one[0].uuid] = one
        self._waiting.extendleft(reversed(later))
        return list(taken.values())
