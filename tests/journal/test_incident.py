"""The recorded incident of doc/incident: what happened, what was decided, and the same again."""

from __future__ import annotations

import lzma
import re
import sqlite3
import zlib
from pathlib import Path

import pytest

from nodemanager.core.model.reasons import Reason
from nodemanager.journal.reading import read
from nodemanager.journal.replay import replayed

pytestmark = pytest.mark.slow

INCIDENT = Path(__file__).parents[2] / "doc/incident"
TRUTH = re.compile(r"(compute\d+) \((local-[0-9a-f]+)\) (is killed|freezes|is back)")


@pytest.fixture(scope="module")
def journal(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("incident") / "journal.db"
    path.write_bytes(lzma.decompress((INCIDENT / "journal.db.xz").read_bytes()))
    return path


def told(what: str) -> set[str]:
    """The hosts to which that was done."""
    found = TRUTH.findall((INCIDENT / "truth.txt").read_text(encoding="utf-8"))
    return {host for host, _, done in found if done == what}


def test_the_recorded_settings_give_exactly_the_recorded_verdicts(journal: Path):
    """The first question to any replay: is it the daemon that we had?"""
    steps = list(replayed(read(journal)))

    assert len(steps) > 100
    assert [step.recorded.snapshot.plan_id for step in steps if not step.is_same] == []


def test_the_killed_nodes_records_were_cleaned_and_no_other(journal: Path):
    """C1-C12 in one run: who was cut off and came back kept its slot."""
    cleaned = set()
    for step in replayed(read(journal)):
        listed = step.snapshot.history.records
        hosts = {one.uuid: one.hostname for one in listed.items} if listed else {}
        stale = [order.uuid for order in step.plan.cleans if order.reason is Reason.STALE_SLOT]
        cleaned |= {hosts[uuid] for uuid in stale}

    assert cleaned == told("is killed")
    assert told("freezes") == told("is back")
    assert not cleaned & told("freezes")


def test_it_holds_no_secret(journal: Path):
    """Whoever reads the docs has this file: nothing in it opened a record to a ping."""
    connection = sqlite3.connect(journal)
    try:
        packed = connection.execute("SELECT body, verdicts FROM entries").fetchall()
        texts = [row[0] for row in connection.execute("SELECT body FROM pre_images")]
        texts += [str(row) for row in connection.execute("SELECT details, result FROM intents")]
    finally:
        connection.close()
    texts += [zlib.decompress(one).decode() for row in packed for one in row if one is not None]

    assert len(texts) > 100
    assert not [text for text in texts if "secret" in text]
    assert b"ping_secret" not in journal.read_bytes()
