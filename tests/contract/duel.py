"""One race of a ping against a clean, and what is wrong with how it ended (SAFETY.md A4, C12)."""

from __future__ import annotations

import http.client
import json
import random
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from urllib.parse import parse_qsl, urlencode, urlsplit

from nodemanager.core.model.reasons import Reason
from nodemanager.core.model.world import Record
from nodemanager.core.safety.orders import CleanOrder, fenced_order
from nodemanager.errors import Conflict, StoreError
from nodemanager.records import wire
from nodemanager.records.api import RecordStore
from nodemanager.records.sql import SqlRecordStore
from tests.contract.stores import claim

SPREAD_S = 0.02
"""Within this of the last ping comes the next one of the same race."""
HEARD, LOCKED_OUT = 200, 401
EVERY_STEP = frozenset({"fence", "settle", "look"})
"""What C12 asks for before a store that can't compare may clear the fields."""


class Unfair(AssertionError):
    """A race that could not be judged: it proves nothing."""


@dataclass(frozen=True)
class Ping:
    """How one ping went: the answer's status, and the stamp that it made."""

    status: int
    stamp: float | None

    def was_heard_after(self, judged: Record) -> bool:
        """Whether it was acknowledged, and is no part of what was judged."""
        if self.status != HEARD or self.stamp is None:
            return False
        return judged.last_ping_at is None or self.stamp > judged.last_ping_at


class Node:
    """The node of the record that it is told: it pings either process, from a thread of its own."""

    def __init__(self, urls: tuple[str, str], number: int, seed: int) -> None:
        self._random = random.Random(f"{seed} {number} node")
        # A first ping takes its address from every other record.
        self._told = {"local_ipv4": f"10.0.0.{number + 1}", "instance_id": f"i-{number}"}
        self._lines = [http.client.HTTPConnection(urlsplit(url).netloc, timeout=30) for url in urls]
        self._thread = ThreadPoolExecutor(1, "node")
        self._in_the_air = threading.Lock()

    def pings(self, url: str, *waits: float) -> Future[list[Ping]]:
        """A ping after each of these waits, in seconds; `url` with its secret."""
        return self._thread.submit(lambda: [self._ping(url, wait) for wait in waits])

    def settled(self) -> None:
        """Return when no ping that was sent before is in the air."""
        with self._in_the_air:
            pass

    def close(self) -> None:
        self._thread.shutdown()
        for line in self._lines:
            line.close()

    def _ping(self, url: str, wait: float) -> Ping:
        if wait > 0:
            # Nothing is waited for: the moments of a race are drawn by chance.
            time.sleep(wait)
        parts = urlsplit(url)
        line = self._random.choice(self._lines)
        state = self._random.choice(("idle", "busy"))
        form = dict(parse_qsl(parts.query)) | self._told | {"worker_state": state}
        with self._in_the_air:
            line.request(
                "POST",
                parts.path,
                urlencode(form),
                {"content-type": "application/x-www-form-urlencoded"},
            )
            answer = line.getresponse()
            body = json.loads(answer.read())
        stamp = body.get("last_ping_at")
        return Ping(answer.status, None if stamp is None else wire.parse_stamp(stamp))


Clean = Callable[["Pair"], bool]
"""Clean the pair's record as it was judged; whether it was freed."""


class Handicap:
    """How much later than the node the cleaner starts, so that both win often.

    The loser of a race starts earlier in the next one, by a step. The step doubles while one side
    loses AGAIN times in a row or more, up to MOST_STEPS of the least: on a slow machine it must
    grow to tens of milliseconds. It halves when the other side loses.
    """

    AGAIN = 3
    MOST_STEPS = 256

    def __init__(self, least_s: float) -> None:
        self.least_s = least_s
        self.lag_s = 0.0
        self._step_s = least_s
        self._freed: bool | None = None
        self._in_a_row = 0

    def tell(self, *, freed: bool) -> None:
        """Who won the last race: the cleaner, or the node."""
        if freed == self._freed:
            self._in_a_row += 1
        else:
            self._in_a_row = 1
            self._step_s = max(self.least_s, self._step_s / 2)
        self._freed = freed
        if self._in_a_row >= self.AGAIN:
            self._step_s = min(2 * self._step_s, self.MOST_STEPS * self.least_s)
        self.lag_s += self._step_s if freed else -self._step_s


@dataclass(frozen=True)
class Outcome:
    """Who won a race, and what is wrong with that."""

    freed: bool
    broken: str | None


class Pair:
    """A node and the cleaner of its record, race after race."""

    def __init__(
        self,
        stores: Sequence[RecordStore],
        direct: SqlRecordStore,
        node: Node,
        clean: Clean,
        own: random.Random,
        step_s: float,
    ) -> None:
        """`step_s`: the least that the loser of a race starts earlier in the next, in seconds."""
        self._stores = stores
        self._direct = direct
        self._clean = clean
        self._random = own
        self.node = node
        self.record = self._judged(direct.create(claim()))
        self._start = Handicap(step_s)

    @property
    def store(self) -> RecordStore:
        """Any of those that the manager may use."""
        return self._random.choice(self._stores)

    def race(self, pings: int) -> Outcome:
        """One race, and its verdict. Raises Unfair."""
        judged = self.record
        lag = self._start.lag_s + self._random.gauss(0.0, 2 * self._start.least_s)
        more = (self._random.uniform(0.0, SPREAD_S) for _ in range(pings - 1))
        under_way = self.node.pings(self._direct.ping_url(judged), max(0.0, -lag), *more)
        if lag > 0:
            # As with the pings: who comes first is drawn, not waited for.
            time.sleep(lag)
        try:
            freed = self._clean(self)
        finally:
            done = under_way.result()
        self._start.tell(freed=freed)
        broken = _what_broke(judged, done, freed=freed)
        now = _read(self._direct, judged.uuid)
        if broken is None and freed and now.holds_anything:
            broken = f"{judged.uuid} was freed and holds something"
        if broken is None and not freed and now.ping_secret != judged.ping_secret:
            broken = f"{judged.uuid} was kept, and its node is locked out"
        if broken is not None and now.holds_anything:
            now = self._direct.clean(now, "race")
        self.record = self._judged(now if now.holds_anything else self._direct.claim(now, claim()))
        return Outcome(freed, broken)

    def _judged(self, record: Record) -> Record:
        """The record as the store shows it that will clean it: versions are its own."""
        if self._stores[0] is self._direct:
            return record
        return _read(self.store, record.uuid)


def _what_broke(judged: Record, pings: list[Ping], *, freed: bool) -> str | None:
    strange = {ping.status for ping in pings} - {HEARD, LOCKED_OUT}
    if strange:
        raise Unfair(f"a ping of {judged.uuid} was answered {strange}")
    heard = any(ping.was_heard_after(judged) for ping in pings)
    if freed and heard:
        return f"{judged.uuid} was freed, and its node's ping was acknowledged"
    if not freed and not heard:
        return f"{judged.uuid} was not freed, though no ping came in between"
    return None


def by_version(pair: Pair) -> bool:
    """The clean of a store that compares: by the version judged."""
    try:
        pair.store.clean(pair.record, Reason.STALE_SLOT.value)
    except Conflict:
        return False
    return True


def behind_a_fence(steps: frozenset[str] = EVERY_STEP) -> Clean:
    """The clean of a store that can't compare, with these of C12's steps.

    The fence stands until no request from before it can still be under way. In production that is
    one time-out; here the node's own pings tell.
    """

    def clean(pair: Pair) -> bool:
        store, judged = pair.store, pair.record
        try:
            fenced = store.fence(judged) if "fence" in steps else judged
        except Conflict:
            return False
        except StoreError:
            return _lifted(store, judged, judged)
        behind = fenced_order(_order(judged), judged, fenced, 0.0)
        if behind is None:
            return _lifted(store, fenced, judged)
        if "settle" in steps:
            pair.node.settled()
        found = _read(store, judged.uuid) if "look" in steps else fenced
        if found.version != behind.version:
            return _lifted(store, fenced, judged)
        try:
            store.clean(found if "look" in steps else _read(store, judged.uuid), "stale_slot")
        except Conflict:
            return _lifted(store, fenced, judged)
        except StoreError:
            # The fields were cleared, and then something was written.
            return True
        return True

    return clean


def _lifted(store: RecordStore, fenced: Record, judged: Record) -> bool:
    """Let the node in again; nothing was freed."""
    store.unfence(fenced, judged.ping_secret or "")
    return False


def _order(judged: Record) -> CleanOrder:
    return CleanOrder(
        uuid=judged.uuid,
        reason=Reason.STALE_SLOT,
        plan_id="race",
        breaker_generation=0,
        not_after=float("inf"),
        version=judged.version,
        incarnation=judged.incarnation,
        instance_id=judged.instance_id,
    )


def _read(store: RecordStore, uuid: str) -> Record:
    found = store.read(uuid)
    assert found is not None
    return found
