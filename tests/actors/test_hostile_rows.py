"""A record of any content stops nothing: it is kept, and the next one's slot comes back."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from nodemanager.core.model.world import Job, Record
from nodemanager.errors import SchedulerError
from nodemanager.journal.sqlite import SqliteJournal
from nodemanager.records import wire
from nodemanager.schedulers.command import CommandScheduler
from nodemanager.schedulers.wishlist import WishlistCommand
from tests.actors.conftest import MakeRig
from tests.fakes.cloud import FakeCloud
from tests.hostile import VALUES

HOUR = 3600.0
FIELDS = ("slot_number", "hostname", "ip_address", "last_ping_at", "modified_at", "drain")
INSIDE = ("nodemanager_pool", "nodemanager_claim", "nodemanager_hold", "cloud_node", "note")
WORDS = (
    "ping_secret",
    "ec2_instance_id",
    "worker_state",
    "drain_hook",
    "drain_order",
    "notice",
    "note",
)
SPOILT = [*FIELDS, *(f"properties.{one}" for one in INSIDE), *(f"info.{one}" for one in WORDS)]


def record_with(number: int, where: str, value: Any) -> Record:
    """What a store reads where one field holds `value`."""
    properties: dict[str, Any] = {wire.POOL: "pool"}
    info: dict[str, Any] = {wire.PING_SECRET: "s"}
    fields: dict[str, Any] = {
        "uuid": f"zzzzz-7ekkf-9{number:014d}",
        "slot_number": None,
        "hostname": "odd",
        "ip_address": None,
        "first_ping_at": 1_000,
        "last_ping_at": 1_000,
        "modified_at": 1_000,
        "properties": properties,
        "info": info,
    }
    inside, _, key = where.rpartition(".")
    {"": fields, "properties": properties, "info": info}[inside][key] = value
    return wire.read(fields, version="7", when=float)


@pytest.mark.slow
@pytest.mark.parametrize("where", SPOILT)
def test_a_record_of_any_content_is_kept_and_stops_no_clean(
    make_rig: MakeRig, cloud: FakeCloud, tmp_path: Path, where: str
) -> None:
    journal = SqliteJournal(tmp_path / "journal.db", pool="pool", clock=cloud.clock)
    rig = make_rig(journal=journal, backlog="clean", absent_listings=2, poll_time=60)
    for number, value in enumerate(VALUES.values()):
        record = record_with(number, where, value)
        rig.store.rows[record.uuid] = record
    leaked = rig.store.add_leaked(5, quiet_for=3 * HOUR)
    rig.start()
    rig.turn(10 * 60.0)
    assert rig.deaths == []
    # A stamp of 1970 puts the store's clock in doubt: each window begins anew, and that is told.
    is_told = rig.lines("clock.doubted") and where in ("last_ping_at", "modified_at")
    assert rig.lines("record.cleaned", record=leaked.uuid) or is_told
    assert journal.failure is None
    journal.close()


JSON = {name: value for name, value in VALUES.items() if not isinstance(value, bytes)}


@pytest.mark.parametrize("value", JSON.values(), ids=JSON.keys())
@pytest.mark.parametrize("key", ["id", "cores", "ram_mb", "count", "features", "gres", "x"])
def test_a_line_of_a_wishlist_is_a_job_or_a_failed_poll(key: str, value: Any) -> None:
    line = json.dumps({"id": "1", "cores": 1, key: value}).encode()
    try:
        (job,) = WishlistCommand((), 1.0).read(line)
    except SchedulerError:
        return
    assert isinstance(job, Job)
    hash(job)


@pytest.mark.parametrize("value", JSON.values(), ids=JSON.keys())
@pytest.mark.parametrize("key", ["node", "state", "reason", "features", "weight", "draining"])
def test_a_node_of_a_schedulers_program_is_one_or_a_problem(
    key: str, value: Any, tmp_path: Path
) -> None:
    said = {"nodes": [{"node": "c2", "state": "idle"}, {"node": "c1", "state": "idle", key: value}]}
    answer = tmp_path / "answer"
    answer.write_text(json.dumps(said), encoding="utf-8")
    programs = {"nodes": ("cat", str(answer)), "queue": ("true",)}
    try:
        listed = CommandScheduler(programs, 20.0).nodes()
    except SchedulerError:
        # What is nested too deep is not read at all.
        assert isinstance(value, dict)
        return
    assert "c2" in {one.name for one in listed.items}
    assert listed.complete is (len(listed.items) == 2)
