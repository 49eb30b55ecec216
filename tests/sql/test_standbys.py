"""A PostgreSQL whose standby may lack what was committed is warned of."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from nodemanager.app.check import check
from nodemanager.sql import watch
from tests.contract.stores import Postgres
from tests.waiting import until

pytestmark = pytest.mark.server("postgresql")


@pytest.fixture(scope="module")
def primary() -> Iterator[Postgres]:
    server = Postgres()
    yield server
    server.stop()


def test_a_standby_that_no_commit_waits_for_is_warned_of(primary: Postgres, tmp_path: Path) -> None:
    url = primary.new_database()
    assert watch.lacking(url) is None, "it has no standby"
    standby = Postgres(follows=primary)
    try:
        until("a stream", lambda: primary.ask("SELECT count(*) FROM pg_stat_replication") == 1)
        config = tmp_path / "registry.cfg"
        config.write_text(f"[Registry]\ndatabase = {url}\nlisten = 127.0.0.1:8990\n", "utf-8")
        (warning,) = (one for one in check(config)[1] if "standby" in one)
        assert "synchronous_standby_names = ''" in warning
        for setting, warned in (
            ("synchronous_standby_names = '*'", False),
            ("synchronous_commit = 'local'", True),
        ):
            primary.ask(f"ALTER SYSTEM SET {setting}")
            primary.ask("SELECT pg_reload_conf()")
            until("the setting", lambda warned=warned: (watch.lacking(url) is None) != warned)
    finally:
        standby.stop()


def test_what_does_not_answer_or_is_none_is_not_warned_of(tmp_path: Path) -> None:
    assert watch.lacking(f"postgresql://nobody@/none?host={tmp_path}") is None
    assert watch.lacking("postgresql://nobody@:none/") is None
