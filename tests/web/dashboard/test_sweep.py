"""The page of the windows: worked out by a process of its own, when somebody asks for it."""

from __future__ import annotations

import lzma
from pathlib import Path

import pytest

from nodemanager.web.dashboard import sweep
from nodemanager.web.dashboard.sweep import Sweeps
from tests.fakes.clock import ManualClock
from tests.journal.test_incident import INCIDENT
from tests.waiting import until
from tests.web.dashboard.console import READ_TOKEN, Console, small
from tests.web.dashboard.test_pages import section


def test_a_recording_is_worked_out_and_shown(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    journal = tmp_path / "journal.db"
    journal.write_bytes(lzma.decompress((INCIDENT / "journal.db.xz").read_bytes()))
    monkeypatch.setattr(sweep, "SPAN", "2000-01-01")
    console = Console(journal)
    console.decides(small().with_settings(node_stale_after=60.0))
    console.sign_in(READ_TOKEN)
    assert "Work it out" in console.get("/windows").text
    fields = {"form_token": console.form_token}
    assert console.post("/windows", {}).status_code == 403
    assert console.post("/windows", fields).status_code == 303
    assert console.server.site is not None
    sweeps = console.server.site.sweeps
    assert not sweeps.start(), "one is running"
    # Its process is a nice one: it waits for all others.
    until("the result", lambda: not sweeps.state.running, 120.0)
    assert sweeps.state.problem == ""
    console.decides(small().with_settings(node_stale_after=60.0))
    shown = console.get("/windows").text
    told = section(shown, "sweep")
    assert "228 decisions" in told
    assert "1 silence ended, the longest 48s (compute18, " in told
    assert "hits +1" in told
    assert 'data-label="evidence"' in shown, "a phone has no heads of columns"
    assert "the nodes cost, and for what" in told
    assert "0.0120" in told


def test_without_a_journal_nothing_is_worked_out(tmp_path: Path) -> None:
    without = Sweeps(None, ManualClock())
    assert not without.start()
    assert without.state.problem == "There is no journal."
    missing = Sweeps(tmp_path / "none.db", ManualClock())
    assert missing.start()
    until("the answer", lambda: not missing.state.running)
    assert "There is no journal" in missing.state.problem
    missing.stop()
