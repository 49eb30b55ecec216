"""Races pings against cleans: python -m tests.contract.race --races 10000.

Two registry processes serve one database. A race is one record: its node pings over HTTP while the
record is cleaned on what was read before. Never may a ping be acknowledged and the record be freed
on evidence from before it: one of them wins, and the other is told so (SAFETY.md A4, C12).
Ends with 1 when a race broke that.
"""

from __future__ import annotations

import argparse
import http.client
import json
import random
import secrets
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from urllib.parse import parse_qsl, urlencode, urlsplit

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from nodemanager.core.model import Record
from nodemanager.core.reasons import Reason
from nodemanager.core.records import CleanOrder, fenced_order
from nodemanager.errors import Conflict, StoreError
from nodemanager.records import wire
from nodemanager.records.api import RecordStore
from nodemanager.records.sql import SqlRecordStore
from tests.contract import loose
from tests.contract.stores import HOSTNAME, TOKEN, Postgres, claim, open_arvados, open_sql
from tests.live.harness import Daemon, end_all, write_config

PAIRS = 6
"""Races at the same time; each of them one after another on a record of its own."""
STEP_S = 0.0004
"""By so much the loser of a race gets a better start in the next one, so that both win often."""
SPREAD_S = 0.02
"""Within this of the last ping comes the next one of the same race."""
SLOTS = 4 * PAIRS
HEARD, LOCKED_OUT = 200, 401
EVERY_STEP = frozenset({"fence", "settle", "look"})
"""What C12 asks for before a store that can't compare may clear the fields."""


class Unfair(AssertionError):
    """A race that could not be judged: it proves nothing."""


@dataclass
class Arena:
    """Two registry processes on one database, and the stores that a manager would open."""

    database: str
    faces: tuple[Daemon, Daemon]
    direct: SqlRecordStore

    @property
    def urls(self) -> tuple[str, str]:
        first, second = (face.url_of("registry") for face in self.faces)
        return first, second


@contextmanager
def arena(home: Path, database: str, *, module: str = "nodemanager") -> Iterator[Arena]:
    """Both processes, serving; `module` is what they run."""
    faces: list[Daemon] = []
    with ExitStack() as closing:
        closing.callback(lambda: end_all(faces))
        for number in (1, 2):
            folder = home / f"registry-{number}"
            folder.mkdir(parents=True)
            registry = {"database": database, "listen": "127.0.0.1:0", "token": TOKEN}
            config = write_config(
                folder / "race.cfg",
                {
                    "Daemon": {"pool": "main"},
                    "Cloud": {"provider": "dummy"},
                    "Registry": {**registry, "slots": SLOTS, "hostname": HOSTNAME},
                },
            )
            log = folder / "race.log"
            faces.append(Daemon(config, folder, command="registry", log=log, module=module))
        urls = [face.url_of("registry") for face in faces]
        direct = open_sql(database, SLOTS, urls[0])
        closing.callback(direct.close)
        yield Arena(database, (faces[0], faces[1]), direct)


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
        self._told = {"local_ipv4": f"10.0.0.{number + 1}", "worker_state": "idle"}
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
            time.sleep(wait)
        parts = urlsplit(url)
        line = self._random.choice(self._lines)
        form = dict(parse_qsl(parts.query)) | self._told
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
    ) -> None:
        self._stores = stores
        self._direct = direct
        self._clean = clean
        self._random = own
        self.node = node
        self.record = self._judged(direct.create(claim()))
        self._lag = 0.0

    @property
    def store(self) -> RecordStore:
        """Any of those that the manager may use."""
        return self._random.choice(self._stores)

    def race(self, pings: int) -> Outcome:
        """One race, and its verdict. Raises Unfair."""
        judged = self.record
        # How much later than the node the cleaner starts.
        lag = self._lag + self._random.gauss(0.0, 2 * STEP_S)
        more = (self._random.uniform(0.0, SPREAD_S) for _ in range(pings - 1))
        under_way = self.node.pings(self._direct.ping_url(judged), max(0.0, -lag), *more)
        if lag > 0:
            time.sleep(lag)
        try:
            freed = self._clean(self)
        finally:
            done = under_way.result()
        self._lag += STEP_S if freed else -STEP_S
        broken = _what_broke(judged, done, freed=freed)
        now = _read(self._direct, judged.uuid)
        if broken is None and freed and now.holds_anything:
            broken = f"{judged.uuid} was freed and holds something"
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
            behind = fenced_order(_order(judged), judged, fenced)
            if behind is None:
                store.unfence(fenced, judged.ping_secret or "")
                return False
            if "settle" in steps:
                pair.node.settled()
            found = _read(store, judged.uuid) if "look" in steps else fenced
            if found.version != behind.version:
                store.unfence(fenced, judged.ping_secret or "")
                return False
            store.clean(found if "look" in steps else _read(store, judged.uuid), "stale_slot")
        except Conflict:
            return False
        except StoreError:
            # The fields were cleared, and then something was written.
            return True
        return True

    return clean


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


@dataclass
class Tally:
    """What so many races came to."""

    races: int = 0
    won: Counter[str] = field(default_factory=Counter)
    broken: list[str] = field(default_factory=list)
    seconds: float = 0.0

    def count(self, outcome: Outcome) -> None:
        self.races += 1
        self.won["clean" if outcome.freed else "ping"] += 1
        if outcome.broken is not None:
            self.broken.append(outcome.broken)

    def __str__(self) -> str:
        return (
            f"{self.races} races in {self.seconds:.0f} s: the ping won {self.won['ping']}, "
            f"the clean {self.won['clean']}, broken {len(self.broken)}"
        )


@dataclass(frozen=True)
class Kind:
    """A store to race over: what its registries run, and how it cleans."""

    name: str
    module: str = "nodemanager"
    clean: Clean = by_version
    pings: int = 1

    @contextmanager
    def arena(self, home: Path, postgres: Postgres | None = None) -> Iterator[Arena]:
        """On a new database: SQLite's, unless a PostgreSQL server is given."""
        database = f"sqlite:///{home}/race.db" if postgres is None else postgres.new_database()
        with arena(home, database, module=self.module) as ring:
            yield ring


KINDS = (
    Kind("sqlite"),
    Kind("postgresql"),
    Kind("arvados", loose.__name__, behind_a_fence(), 3),
)


def run(
    ring: Arena,
    kind: Kind,
    races: int,
    *,
    seed: int = 1,
    tick: Callable[[], None] = lambda: None,
    enough: Callable[[Tally], bool] = lambda _: False,
) -> Tally:
    """That many races, PAIRS at a time, or fewer when `enough` says so."""
    tally, began = Tally(), time.monotonic()
    left = iter(range(races))
    lock = threading.Lock()

    def work(pair: Pair) -> None:
        while True:
            with lock:
                if enough(tally) or next(left, None) is None:
                    return
            outcome = pair.race(kind.pings)
            with lock:
                tally.count(outcome)
            tick()

    with ExitStack() as closing:
        pairs = []
        for number in range(PAIRS):
            node = Node(ring.urls, number, seed)
            closing.callback(node.close)
            stores: tuple[RecordStore, ...] = (ring.direct,)
            if kind.name == "arvados":
                stores = tuple(open_arvados(url, SLOTS) for url in ring.urls)
            own = random.Random(f"{seed} {number} cleaner")
            pairs.append(Pair(stores, ring.direct, node, kind.clean, own))
        threads = closing.enter_context(ThreadPoolExecutor(PAIRS, "cleaner"))
        for done in [threads.submit(work, pair) for pair in pairs]:
            done.result()
    tally.seconds = time.monotonic() - began
    return tally


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--races", type=int, default=10_000, help="for each store (10000)")
    parser.add_argument("--seed", type=int, default=None, help="of its delays (a new one)")
    asked = parser.parse_args()
    seed = secrets.randbelow(1 << 32) if asked.seed is None else asked.seed
    console = Console()
    console.print(f"seed {seed}")
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
    )
    broken = 0
    for kind in KINDS:
        with ExitStack() as closing:
            home = Path(closing.enter_context(tempfile.TemporaryDirectory(prefix="nm-race-")))
            postgres = None
            if kind.name == "postgresql":
                postgres = Postgres()
                closing.callback(postgres.stop)
            ring = closing.enter_context(kind.arena(home, postgres))
            progress = closing.enter_context(Progress(*columns, console=console))
            task = progress.add_task(kind.name, total=asked.races)
            tally = run(ring, kind, asked.races, seed=seed, tick=partial(progress.advance, task))
        console.print(f"{kind.name}: {tally}", highlight=False)
        for wrong in tally.broken:
            console.print(f"  {wrong}", highlight=False)
        broken += len(tally.broken)
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
