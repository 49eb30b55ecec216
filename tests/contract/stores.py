"""The record stores that the contract suite runs over. One more adapter is one more entry."""

from __future__ import annotations

import atexit
import contextlib
import functools
import os
import pwd
import secrets
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import requests
import sqlalchemy as sa

from nodemanager.core.model.scheduling import seat_of
from nodemanager.core.model.world import Claim, Record
from nodemanager.httpserver.server import HttpServer
from nodemanager.lib.clock import Clock, SystemClock
from nodemanager.records.api import RecordStore
from nodemanager.records.arvados import ArvadosRecordStore
from nodemanager.records.schema import metadata
from nodemanager.records.slurm import SlurmRecordStore
from nodemanager.records.slurm_nodes import SlurmNodes
from nodemanager.records.sql import SqlRecordStore
from nodemanager.registry.app import build_app, registry_server
from tests.contract.models import MODELS, Answered
from tests.records.slurm_model import SLURMD_TIMEOUT_S, SlurmModel

TOKEN = "the-administrators-token"
HOSTNAME = "compute%(slot_number)d"
SLOTS = 8


@dataclass
class Backend:
    """One store under test, and what the tests do behind its back."""

    store: RecordStore
    reopen: Callable[[], RecordStore]
    """Another store over the same data."""
    database: str
    """SQLAlchemy's URL of the data, for writing what no API would."""
    server: HttpServer
    closing: list[Callable[[], None]] = field(default_factory=list)

    def ping(self, record: Record, **told: Any) -> requests.Response:
        return requests.post(self.store.ping_url(record), data=told, timeout=10)

    def write_by_hand(self, statement: str, **values: Any) -> None:
        engine = sa.create_engine(self.database)
        with engine.begin() as connection:
            connection.execute(sa.text(statement), values)
        engine.dispose()


def claim(pool: str = "main", incarnation: str | None = None, at: float = 1.5) -> Claim:
    return Claim(
        pool=pool,
        manager="manager-1",
        token=7,
        at=at,
        node_name="node-1",
        incarnation=incarnation or secrets.token_hex(16),
        size="small",
        price=0.1,
        window=2220.0,
    )


def open_sql(
    url: str, slots: int, public_url: str = "", *, clock: Clock | None = None
) -> SqlRecordStore:
    return SqlRecordStore(
        url,
        slots=slots,
        hostname=HOSTNAME,
        domain="example.org",
        public_url=public_url,
        clock=clock or SystemClock(),
        timeout=10.0,
    )


def open_arvados(url: str, slots: int) -> ArvadosRecordStore:
    return ArvadosRecordStore(
        url,
        TOKEN,
        timeout=10.0,
        insecure=False,
        slots=slots,
        ping_url=None,
        ca_file=None,
        clock=SystemClock(),
    )


class Served:
    """The registry's HTTP face on a database; it is served until the server is stopped."""

    def __init__(self, url: str, slots: int) -> None:
        self.url, self.slots = url, slots
        self.store = open_sql(url, slots)
        self.server = registry_server(build_app(self.store, TOKEN))
        self.server.start()
        self.database = url.replace("postgresql:", "postgresql+psycopg:")
        self._stores: dict[bool, RecordStore] = {}

    def empty(self) -> None:
        """Make the database as a new one is, another store's."""
        with self.store.db.writing(allots=True) as connection:
            for table in reversed(metadata.sorted_tables):
                connection.execute(sa.delete(table))
        self.store._introduce()

    @contextlib.contextmanager
    def backend(self, *, over_http: bool) -> Iterator[Backend]:
        """A store over HTTP, or straight on the database: one of each for all tests."""
        opened: list[RecordStore] = []

        def another() -> RecordStore:
            if over_http:
                return open_arvados(self.server.url, self.slots)
            return open_sql(self.url, self.slots, self.server.url)

        def reopen() -> RecordStore:
            opened.append(another())
            return opened[-1]

        if over_http not in self._stores:
            self._stores[over_http] = another()
        try:
            yield Backend(self._stores[over_http], reopen, self.database, self.server)
        finally:
            for store in opened:
                store.close()

    @property
    def stopped(self) -> bool:
        thread = self.server._thread
        return thread is None or not thread.is_alive()

    def close(self) -> None:
        self.server.stop()
        for store in (self.store, *self._stores.values()):
            store.close()


@functools.cache
def _kept(database: str) -> Served:
    """One for all tests of this process: to make a database and a server takes longer than what
    most tests do with them."""
    if database == "postgresql":
        url = running_postgres().new_database()
    else:
        folder = tempfile.mkdtemp(prefix="nodemanager-sqlite-")
        atexit.register(shutil.rmtree, folder, ignore_errors=True)
        url = f"sqlite:///{folder}/registry.db"
    served = Served(url, SLOTS)
    atexit.register(served.close)
    return served


def empty_store(database: str) -> Served:
    """That of this process, emptied; a new one where a test has stopped it."""
    if _kept(database).stopped:
        _kept.cache_clear()
    _kept(database).empty()
    return _kept(database)


class Postgres:
    """A PostgreSQL of our own on a unix socket, as its own user; a new database for each test.

    Only where it is `durable` does a commit wait for the disk. One that `follows` another is its
    hot standby, which streams from it.
    """

    def __init__(
        self, *, durable: bool = False, connections: int = 100, follows: Postgres | None = None
    ) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="nodemanager-pg-", dir="/tmp"))
        self._user = "postgres" if os.geteuid() == 0 else None
        if self._user:
            owner = pwd.getpwnam(self._user)
            os.chown(self.folder, owner.pw_uid, owner.pw_gid)
        self._data = str(self.folder / "data")
        if follows is None:
            self._run("initdb", "-D", self._data, "-A", "trust", "-U", "nodemanager", "--no-sync")
        else:
            to = ("-D", self._data, "-R", "--checkpoint=fast", "--no-sync")
            self._run("pg_basebackup", *to, "-h", str(follows.folder), "-U", "nodemanager")
        command = [_tool("postgres"), "-D", self._data, "-k", str(self.folder), "-h", ""]
        self._command = [*command, "-N", str(connections), *([] if durable else ["-F"])]
        self.start()
        self._admin = sa.create_engine(
            self.url("postgres").replace("postgresql:", "postgresql+psycopg:"),
            isolation_level="AUTOCOMMIT",
        )

    def start(self) -> None:
        """Start the server, and wait until its socket is there."""
        self._server = subprocess.Popen(
            self._command,
            user=self._user,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        deadline = time.monotonic() + 30
        while not (self.folder / ".s.PGSQL.5432").exists():
            assert self._server.poll() is None, "postgres ended"
            assert time.monotonic() < deadline, "postgres does not listen"
            time.sleep(0.02)

    def promote(self) -> None:
        """Make a standby the primary."""
        self._run("pg_ctl", "promote", "-D", self._data)

    def kill(self) -> None:
        """kill -9 of the server and of all that it started."""
        for pid in self.processes():
            os.kill(pid, signal.SIGKILL)
        self._server.wait(timeout=30)
        (self.folder / ".s.PGSQL.5432").unlink(missing_ok=True)
        self._admin.dispose()

    def ask(self, statement: str) -> Any:
        """The one value that the statement gives, if it gives one."""
        with self._admin.connect() as connection:
            found = connection.execute(sa.text(statement))
            return found.scalar() if found.returns_rows else None

    def _run(self, tool: str, *arguments: str) -> None:
        subprocess.run(
            [_tool(tool), *arguments],
            user=self._user,
            check=True,
            stdout=subprocess.DEVNULL,
            cwd=self.folder,
        )

    def url(self, database: str) -> str:
        return f"postgresql://nodemanager@/{database}?host={self.folder}"

    def new_database(self) -> str:
        name = f"t{secrets.token_hex(6)}"
        deadline = time.monotonic() + 30
        while True:
            try:
                with self._admin.connect() as connection:
                    connection.execute(sa.text(f"CREATE DATABASE {name}"))
                return self.url(name)
            except sa.exc.OperationalError:
                # The socket is there a moment before the server takes connections.
                assert time.monotonic() < deadline
                time.sleep(0.05)

    def processes(self) -> list[int]:
        """The server's process and those that it started."""
        root = self._server.pid
        children = Path(f"/proc/{root}/task/{root}/children").read_text(encoding="ascii").split()
        return [root, *map(int, children)]

    def stop(self) -> None:
        self._admin.dispose()
        # Without waiting for those who are still connected.
        if self._server.poll() is None:
            self._server.send_signal(signal.SIGINT)
        self._server.wait(timeout=30)
        shutil.rmtree(self.folder, ignore_errors=True)


def _tool(name: str) -> str:
    places = sorted(Path("/usr/lib/postgresql").glob(f"*/bin/{name}"))
    found = str(places[-1]) if places else shutil.which(name)
    if found is None:
        pytest.skip(f"PostgreSQL is not installed ({name}); `make test-deps` installs it")
    return found


@functools.cache
def running_postgres() -> Postgres:
    """One server for all tests of this process."""
    server = Postgres()
    atexit.register(server.stop)
    return server


REAL_CAS_STORES = [
    pytest.param("sqlite", id="sqlite"),
    pytest.param("postgresql", id="postgresql", marks=pytest.mark.server("postgresql")),
]
CAS_STORES = [*REAL_CAS_STORES, "fake", "simulated"]
"""Those that compare and set."""

REAL_FENCED_STORES = [pytest.param("arvados", id="arvados")]
FENCED_STORES = [*REAL_FENCED_STORES, "fake-fenced", "simulated-arvados"]
"""Those that fence: Arvados' client over a real socket, our registry's HTTP face behind it."""

REAL_STORES = [*REAL_CAS_STORES, *REAL_FENCED_STORES]
"""What has a database or a server behind it, for tests that reach there or use threads."""
STORES = [*CAS_STORES, *FENCED_STORES]
"""Every store whose nodes ping, for what each must do, the stand-ins of other tests with it."""

SEATED_STORES = [
    "slurm",
    pytest.param("slurm-postgresql", marks=pytest.mark.server("postgresql")),
]
"""Those whose records are the scheduler's nodes: none is made, and none pings. The real store on a
model of slurmctld; tests/records/test_slurm_records.py has it on a real one."""


def _each_of(stores: Sequence[Any]) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("backend", stores, indirect=True)


real_cas_stores, cas_stores = _each_of(REAL_CAS_STORES), _each_of(CAS_STORES)
fenced_stores = _each_of(FENCED_STORES)
real_stores, every_store = _each_of(REAL_STORES), _each_of(STORES)
seated_stores, any_store = _each_of(SEATED_STORES), _each_of([*STORES, *SEATED_STORES])


@dataclass
class Seats:
    """Seats named compute1, compute2 ... See Backend. A ping is a slurmd that registers."""

    store: RecordStore
    reopen: Callable[[], RecordStore]
    database: str
    slurm: SlurmModel
    clock: ShiftedClock

    def ping(self, record: Record, **told: Any) -> Answered:
        self.clock.forward(1.0)
        self.slurm.start_slurmd(str(seat_of(record)))
        self.clock.forward(1.0)
        return Answered(200)

    def write_by_hand(self, statement: str, **values: Any) -> None:
        Backend.write_by_hand(self, statement, **values)  # type: ignore[arg-type]  # its database


class ShiftedClock(SystemClock):
    """The system's, ahead by as many seconds as a test has let pass."""

    ahead = 0.0

    def forward(self, seconds: float) -> None:
        self.ahead += seconds

    def boottime(self) -> float:
        return super().boottime() + self.ahead

    def wall(self) -> float:
        return super().wall() + self.ahead


@contextlib.contextmanager
def seated_backend(url: str, slots: int) -> Iterator[Seats]:
    clock = ShiftedClock()
    # A slurmctld that runs for long: what it does not hear, it has missed.
    slurm = SlurmModel({f"compute{one}": "small" for one in range(1, slots + 1)}, clock.wall)
    clock.forward(2 * SLURMD_TIMEOUT_S)
    opened: list[RecordStore] = []

    def reopen() -> RecordStore:
        sql = open_sql(url, 1, clock=clock)
        opened.append(SlurmRecordStore(sql, SlurmNodes(10.0, call=slurm.run), clock))
        return opened[-1]

    try:
        yield Seats(
            reopen(), reopen, url.replace("postgresql:", "postgresql+psycopg:"), slurm, clock
        )
    finally:
        for store in opened:
            store.close()


@contextlib.contextmanager
def open_backend(
    kind: str, request: pytest.FixtureRequest, *, slots: int = SLOTS, anew: bool = False
) -> Iterator[Any]:
    """An empty store of that kind; `anew` beside the one that a test has already."""
    if kind in MODELS:
        yield MODELS[kind]()
        return
    if not (kind.startswith("slurm") or anew or slots != SLOTS):
        served = empty_store("postgresql" if kind == "postgresql" else "sqlite")
        with served.backend(over_http=kind == "arvados") as backend:
            yield backend
        return
    if kind.endswith("postgresql"):
        url = running_postgres().new_database()
    else:
        url = f"sqlite:///{request.getfixturevalue('tmp_path')}/anew.db"
    if kind.startswith("slurm"):
        with seated_backend(url, slots) as seats:
            yield seats
        return
    with (
        contextlib.closing(Served(url, slots)) as served,
        served.backend(over_http=kind == "arvados") as backend,
    ):
        yield backend


# What tests do with one.


def in_use(backend: Backend) -> list[Record]:
    """The records that hold something."""
    return [one for one in backend.store.list_records().items if one.holds_anything]


def read(backend: Backend, record: Record) -> Record:
    found = backend.store.read(record.uuid)
    assert found is not None
    return found


def pinged(backend: Backend, **told: str) -> Record:
    """A new record whose node pinged and said that."""
    record = backend.store.create(claim())
    assert backend.ping(record, **told).status_code == 200
    return read(backend, record)


def cleaned(backend: Backend) -> Record:
    return backend.store.clean(backend.store.create(claim()), "stale_slot")
