"""Opening the registry's database, its schema's revisions, and what a failure of it becomes."""

from __future__ import annotations

import os
import shutil
import sqlite3
import stat
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor

import pytest
import sqlalchemy as sa

from nodemanager.core.model.world import WorkerState
from nodemanager.errors import StartError, StoreError
from nodemanager.lib import log
from nodemanager.records import wire
from nodemanager.records.pings import Ping
from nodemanager.records.sql import SqlRecordStore
from tests.cases import cases
from tests.contract.stores import claim
from tests.fakes.clock import ManualClock


def open_store(url, **changes):
    settings = {"slots": 4, "hostname": "compute%(slot_number)d", "domain": "d"} | changes
    settings = {"public_url": "http://127.0.0.1:1", "clock": ManualClock()} | settings
    return SqlRecordStore(url, **settings)


@pytest.fixture
def path(tmp_path):
    return tmp_path / "registry.db"


def test_the_file_is_its_owners_alone(path):
    mask = os.umask(0)
    try:
        store = open_store(f"sqlite:///{path}")
        store.create(claim())
    finally:
        os.umask(mask)
    files = sorted(path.parent.iterdir())
    assert [file.name for file in files] == ["registry.db", "registry.db-shm", "registry.db-wal"]
    assert {stat.S_IMODE(file.stat().st_mode) for file in files} == {0o600}
    store.close()


def test_a_file_that_others_may_read_is_put_right_and_said(path, caplog):
    """X13."""
    store = open_store(f"sqlite:///{path}")
    store.create(claim())
    store.close()
    wal = path.with_name("registry.db-wal")
    wal.touch()
    for file in (path, wal):
        file.chmod(0o644)
    caplog.set_level("WARNING", "nodemanager")
    store = open_store(f"sqlite:///{path}")
    files = sorted(path.parent.iterdir())
    assert {stat.S_IMODE(file.stat().st_mode) for file in files} == {0o600}
    said = [log.fields_of(record) for record in caplog.records]
    assert [line["event"] for line in said] == ["config.warning"] * 2
    assert f"other users could read or write {path} (mode 0644)" in said[0]["message"]
    store.close()
    caplog.clear()
    open_store(f"sqlite:///{path}").close()
    assert caplog.records == []


def test_an_acknowledged_write_survives_a_power_cut(path):
    store = open_store(f"sqlite:///{path}")
    with store.db.reading() as connection:
        assert connection.exec_driver_sql("PRAGMA journal_mode").scalar() == "wal"
        assert connection.exec_driver_sql("PRAGMA synchronous").scalar() == 2
        assert connection.exec_driver_sql("PRAGMA foreign_keys").scalar() == 1
    store.close()


def test_an_older_program_refuses_a_newer_file_and_leaves_it_alone(path):
    open_store(f"sqlite:///{path}").close()
    with sqlite3.connect(path) as connection:
        connection.execute("UPDATE alembic_version SET version_num = '9999'")
    with pytest.raises(StartError) as refused:
        open_store(f"sqlite:///{path}")
    for word in ("9999", "0001", "upgrade", str(path)):
        assert word in str(refused.value)
    with sqlite3.connect(path) as connection:
        assert connection.execute("SELECT version_num FROM alembic_version").fetchall() == [
            ("9999",)
        ]


@cases(
    ("url", "named"),
    {
        "no-url": ("nonsense", "[Registry] database"),
        "another-database": ("mysql://u:s3cret@h/d", "mysql"),
        "no-file": ("sqlite://", "no file"),
        "in-memory": ("sqlite:///:memory:", "no file"),
        "no-folder": ("sqlite:////nowhere/at/all/r.db", "/nowhere/at/all/r.db"),
        "nobody-there": ("postgresql://u:s3cret@127.0.0.1:1/d", "127.0.0.1:1"),
    },
)
def test_a_database_that_cant_be_used_is_named_without_its_password(url, named):
    with pytest.raises(StartError) as refused:
        open_store(url, timeout=2)
    assert named in str(refused.value)
    assert "s3cret" not in str(refused.value)


def test_a_file_that_is_no_database_is_named(path):
    path.write_text("not a database, but long enough to be looked at as one" * 100)
    with pytest.raises(StartError, match=r"registry\.db"):
        open_store(f"sqlite:///{path}")


@cases(
    ("changes", "named"),
    {
        "no-slots": ({"slots": 0}, "slots"),
        "one-name-for-all": ({"hostname": "compute"}, "hostname"),
        "unknown-name": ({"hostname": "compute%(slot)d"}, "hostname"),
        "no-pattern": ({"hostname": "compute%d%"}, "hostname"),
        "bad-prefix": ({"uuid_prefix": "Z"}, "prefix"),
    },
)
def test_settings_that_cant_work_are_refused(path, changes, named):
    with pytest.raises(StartError, match=named):
        open_store(f"sqlite:///{path}", **changes)


def test_a_locked_database_is_a_failure_within_the_time_out(path):
    store = open_store(f"sqlite:///{path}", timeout=0.2)
    record = store.create(claim())
    blocker = sqlite3.connect(path, isolation_level=None)
    blocker.execute("BEGIN IMMEDIATE")
    with pytest.raises(StoreError) as failed:
        store.clean(record, "stale_slot")
    assert not failed.value.definite
    assert record.ping_secret not in str(failed.value)
    assert store.read(record.uuid) == record
    blocker.execute("ROLLBACK")
    blocker.close()
    assert not store.clean(record, "stale_slot").holds_anything
    store.close()


def fill(store):
    for _ in range(399):
        store.clean(store.create(claim()), "x" * 4000)


def test_a_full_disk_is_a_failure_that_changes_nothing(path):
    store = open_store(f"sqlite:///{path}")
    record = store.create(claim())
    with store.db.reading() as connection:
        pages = connection.exec_driver_sql("PRAGMA page_count").scalar()

    def limit(connection, _record):
        connection.execute(f"PRAGMA max_page_count={pages}")

    sa.event.listen(store.db._engine, "connect", limit)
    store.db._engine.dispose()
    with pytest.raises(StoreError, match="full") as failed:
        fill(store)
    assert not failed.value.definite
    assert store.read(record.uuid) == record
    store.close()


def over_http(store, uuid):
    shown = store.resource.get(uuid)
    return wire.read(shown, version=shown["etag"], when=wire.parse_stamp)


@pytest.mark.parametrize("how", ["replaced", "removed"])
def test_a_file_that_is_not_the_opened_one_any_more_is_a_failure_until_it_is_back(path, how):
    """An older copy, or none: connections that are open would go on with the file that was there,
    and new ones with the other. Both are one store's answers to whoever asks."""
    store = open_store(f"sqlite:///{path}")
    store.create(claim())
    copy, aside = path.with_name("copy.db"), path.with_name("aside.db")
    shutil.copy(path, copy)
    store.create(claim())
    os.rename(path, aside)
    if how == "replaced":
        os.rename(copy, path)
    asks = (store.list_records, lambda: store.create(claim()), store.db._make_engine().connect)
    for ask in asks:
        with pytest.raises(StoreError, match=r"registry\.db was moved, removed or replaced"):
            ask()
    os.replace(aside, path)
    assert len(store.list_records().items) == 2
    store.create(claim())
    assert len(store.list_records().items) == 3
    store.close()


def test_the_same_row_means_the_same_over_http_and_in_sql(path):
    store = open_store(f"sqlite:///{path}")
    record = store.create(claim())
    said = {"ping_secret": record.ping_secret, "worker_state": "idle", "instance_id": "i-1"}
    store.resource.ping(Ping(record.uuid, said, "10.0.0.1"))
    assert over_http(store, record.uuid) == store.read(record.uuid)
    told = {"ping_secret": record.ping_secret, "slurm_state": "alloc"}
    store.resource.update(record.uuid, {"info": told})
    assert store.read(record.uuid).derived_state is WorkerState.BUSY
    assert over_http(store, record.uuid) == store.read(record.uuid)
    store.close()


@pytest.fixture
def reader(path):
    """Another program, which reads the new file: it is no write-ahead log as long as it does."""
    connection = sqlite3.connect(path, isolation_level=None)
    connection.execute("BEGIN")
    assert connection.execute("SELECT * FROM sqlite_master").fetchall() == []
    yield connection
    connection.close()


def test_a_program_that_starts_while_another_makes_the_file_waits_for_it(path, reader, monkeypatch):
    waits = []

    def wait(seconds):
        waits.append(seconds)
        reader.execute("ROLLBACK")

    monkeypatch.setattr(time, "sleep", wait)
    open_store(f"sqlite:///{path}", timeout=60.0).close()
    assert len(waits) == 1


@pytest.mark.usefixtures("reader")
def test_a_new_file_that_another_keeps_is_named(path):
    with pytest.raises(StartError, match=f"{path}: database is locked"):
        open_store(f"sqlite:///{path}", timeout=0.01)


def test_two_programs_opening_one_new_file_agree_on_its_id(path):
    with ThreadPoolExecutor(4) as threads:
        stores = list(threads.map(lambda _: open_store(f"sqlite:///{path}"), range(4)))
    assert len({store.store_id() for store in stores}) == 1
    for store in stores:
        store.close()


_ALLOT = """
import sys
from nodemanager.lib.clock import SystemClock
from nodemanager.core.model.world import Claim, WorkerState
from nodemanager.records.sql import SqlRecordStore
url, name = sys.argv[1:]
store = SqlRecordStore(url, slots=40, hostname="compute%(slot_number)d", domain="d",
                       public_url="", clock=SystemClock())
print("ready", flush=True)
sys.stdin.readline()
for n in range(20):
    print(store.create(Claim("main", name, 1, 1.0, "n", f"{name}{n:031x}")).slot_number)
"""


def test_two_processes_never_allot_one_slot_twice(path):
    url = f"sqlite:///{path}"
    running = [
        subprocess.Popen(
            [sys.executable, "-c", _ALLOT, url, name],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for name in "ab"
    ]
    for process in running:
        assert process.stdout.readline() == "ready\n"
    for process in running:
        process.stdin.write("go\n")
        process.stdin.flush()
    slots = [
        int(line) for process in running for line in process.communicate(timeout=60)[0].split()
    ]
    assert sorted(slots) == list(range(1, 41))


def test_a_link_to_nothing_is_no_database(path):
    """Whoever made it would choose where the nodes' secrets are written."""
    elsewhere = path.with_name("elsewhere.db")
    path.symlink_to(elsewhere)
    with pytest.raises(StartError, match="is a link to nothing"):
        open_store(f"sqlite:///{path}")
    assert not elsewhere.exists()
