"""Races pings against cleans: python -m tests.contract.race --races 10000.

Two registry processes serve one database. A race is one record: its node pings over HTTP while the
record is cleaned on what was read before. Never may a ping be acknowledged and the record be freed
on evidence from before it: one of them wins, and the other is told so (SAFETY.md A4, C12).
Ends with 1 when a race broke that.
"""

from __future__ import annotations

import argparse
import random
import secrets
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from nodemanager.records.api import RecordStore
from nodemanager.records.sql import SqlRecordStore
from tests.contract import loose
from tests.contract.duel import Clean, Node, Outcome, Pair, behind_a_fence, by_version
from tests.contract.stores import HOSTNAME, TOKEN, Postgres, open_arvados, open_sql
from tests.live.harness import Daemon, end_all, write_config

PAIRS = 6
"""Races at the same time; each of them one after another on a record of its own."""
SLOTS = 8 * PAIRS


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
    step_s: float = 0.0004

    @contextmanager
    def arena(self, home: Path, postgres: Postgres | None = None) -> Iterator[Arena]:
        """On a new database: SQLite's, unless a PostgreSQL server is given."""
        database = f"sqlite:///{home}/race.db" if postgres is None else postgres.new_database()
        with arena(home, database, module=self.module) as ring:
            yield ring


KINDS = (
    Kind("sqlite"),
    Kind("postgresql"),
    Kind("arvados", loose.__name__, behind_a_fence(), 3, 0.004),
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
            pairs.append(Pair(stores, ring.direct, node, kind.clean, own, kind.step_s))
        threads = closing.enter_context(ThreadPoolExecutor(PAIRS, "cleaner"))
        for done in [threads.submit(work, pair) for pair in pairs]:
            done.result()
    tally.seconds = time.monotonic() - began
    return tally


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--races", type=int, default=10_000, help="for each store (10000)")
    parser.add_argument("--seed", type=int, default=None, help="of its delays (a new one)")
    parser.add_argument(
        "--store", choices=[kind.name for kind in KINDS], help="this one only (all of them)"
    )
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
    for kind in KINDS if asked.store is None else [k for k in KINDS if k.name == asked.store]:
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
