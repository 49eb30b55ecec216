"""What an incident is recorded with: the cloud's faults, and a journal for everyone's eyes."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from nodemanager.cloud.api import CloudDriver, CreateOrder
from nodemanager.cloud.local.__main__ import sweep
from nodemanager.cloud.local.adapter import build_cloud
from nodemanager.core.model.world import Record, Tags
from nodemanager.errors import CloudError
from nodemanager.journal.api import Intent, IntentKind
from nodemanager.journal.sqlite import SqliteJournal
from nodemanager.lib.clock import SystemClock
from tests.cloud.cloud_config import cloud_config
from tests.live.faulty import DRIVER, Faults
from tests.live.incident import shareable

RECORD = "zzzzz-7ekkf-00000000000000"
NOBODY = "http://127.0.0.1:1/ping?ping_secret=none"


@pytest.fixture
def cloud(tmp_path: Path) -> Iterator[CloudDriver]:
    """Three nodes, which ping nobody."""
    made = build_cloud(
        cloud_config(
            pool="faulty",
            directory=tmp_path / "cloud",
            create={"boot_delay": "1h"},
            clock=SystemClock(),
            driver_class=DRIVER,
        )
    )
    size = made.list_sizes()[0]
    with closing(made):
        for number in range(3):
            tags = Tags(pool="faulty", record=f"{RECORD}{number}", incarnation="ab" * 16)
            made.create(CreateOrder(f"node-{number}", size, tags, f"token-{number}", NOBODY))
        yield made
        sweep(tmp_path / "cloud")


def listed(cloud: CloudDriver) -> list[str]:
    return [node.id for node in cloud.list_nodes().items]


def test_an_outage_a_short_list_and_a_lost_node_are_what_the_manager_gets(
    tmp_path: Path, cloud: CloudDriver
):
    faults, whole = Faults(tmp_path / "cloud"), listed(cloud)
    assert len(whole) == 3

    faults.set(outage=True)
    with pytest.raises(CloudError, match="503"):
        cloud.list_nodes()
    with pytest.raises(CloudError, match="503"):
        cloud.ask(whole[0])

    faults.set(outage=False, shown=1)
    assert listed(cloud) == whole[:1]
    assert cloud.ask(whole[2]) is not None

    faults.set(shown=None, lost=[whole[1]])
    assert listed(cloud) == [whole[0], whole[2]]
    assert cloud.ask(whole[1]) is None
    assert cloud.find_by_record(f"{RECORD}1") == ()

    faults.set(lost=[])
    assert listed(cloud) == whole


def test_a_copy_for_everyone_has_the_pre_images_without_their_secrets(tmp_path: Path):
    journal = SqliteJournal(tmp_path / "journal.db", pool="p", clock=SystemClock())
    before = Record(
        uuid=f"{RECORD}0", version="7", hostname="compute1", ping_secret="s3cr3t-of-the-node"
    )
    key = f"clean:{RECORD}0"
    journal.intend([Intent(IntentKind.CLEAN, key, "plan-1", f"{RECORD}0", pre_image=before)])
    journal.close()

    shareable(tmp_path / "journal.db", tmp_path / "copy.db")

    connection = sqlite3.connect(tmp_path / "copy.db")
    ((body,),) = connection.execute("SELECT body FROM pre_images").fetchall()
    connection.close()
    assert '"hostname":"compute1"' in body
    assert b"s3cr3t" in (tmp_path / "journal.db").read_bytes()
    assert b"s3cr3t" not in (tmp_path / "copy.db").read_bytes()
