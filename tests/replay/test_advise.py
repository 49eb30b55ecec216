"""`nodemanager advise` and `nodemanager cost`, as a user runs them, on a recorded incident."""

from __future__ import annotations

import json
import math
import re
from dataclasses import replace
from pathlib import Path

import pytest
from rich.console import Console

from nodemanager.commands import show
from nodemanager.commands.advise_screen import COLUMNS, Advised
from nodemanager.config.deciding import varied
from nodemanager.core.replay import spending
from nodemanager.core.replay.spending import CostCause
from nodemanager.journal import sweep
from nodemanager.lib.logline import timestamp
from tests.journal.test_incident import INCIDENT
from tests.replay.conftest import NAP_S, NODES, POLL_S, Incident, Run

LIVES = 4
"""Those of the incident that end or are silent."""


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    def wide(*, stderr: bool = False) -> Console:
        return Console(stderr=stderr, force_terminal=True, width=160, highlight=False)

    monkeypatch.setattr(show, "console", wide)


def rows_of(out: str, first: str = COLUMNS[0]) -> dict[str, list[str]]:
    """The cells of a table by its first column."""
    lines = out.splitlines()
    at = next(number for number, line in enumerate(lines) if line.startswith(first))
    cells = [re.split(r"\s{2,}", line) for line in lines[at + 1 :]]
    return {one[0]: one[1:] for one in cells if len(one) > 2}


# Advice.


def test_a_long_silence_that_ended_is_named_and_a_shorter_window_refused(
    incident: Incident, said: Run
) -> None:
    code, out, err = said("advise", incident.path)
    assert (code, err) == (0, "")
    now, advice, evidence, shorter, longer = rows_of(out)["node_stale_after"]
    assert (now, advice) == ("30m", "keep")
    assert evidence.startswith(f"1 silence ended, the longest 21m 00s ({incident.napped.hostname}")
    # One of the others may wait for a poll, while the listing lacks the one that is hit.
    assert shorter.startswith(("15m: slots 44m 00s sooner", "15m: slots 45m 00s sooner"))
    assert shorter.endswith("hits +1, too close to the longest")
    assert longer.startswith("1h: slots ")
    assert "later" in longer
    assert "* The recording has 1h 02m: what happens less often is not in it." in out


def test_before_that_silence_ended_there_is_no_evidence(incident: Incident, run: Run) -> None:
    """A stretch without one silence that ended is never advised to be shorter."""
    until = timestamp(incident.outline.first + 600 + NAP_S - 60)
    code, out, _ = run("advise", incident.path, "--until", until)
    assert code == 0
    now, advice, evidence, shorter, _ = rows_of(out)["node_stale_after"]
    assert (now, advice, evidence) == ("30m", "keep: no evidence", "no silence ended")
    assert "sooner" in shorter
    assert shorter.endswith("no evidence")


def test_every_window_and_count_that_is_set_has_one_line(incident: Incident, said: Run) -> None:
    rows = rows_of(said("advise", incident.path)[1])
    assert list(rows) == [
        "node_stale_after",
        "boot_fail_after",
        "poll_stale_after",
        "settle",
        "absent_listings",
        "max_nodes",
        "consecutive_idle_count",
    ]
    now, advice, evidence, fewer, more = rows["max_nodes"]
    assert (now, advice) == (str(NODES), f"weigh {NODES + 1}")
    assert re.fullmatch(
        r"0\.\d hours at it with demand waiting, for 1 nodes more at most", evidence
    )
    assert re.match(r"11: saves 0\.\d+ \(0\.\d node-hours fewer\), \d+m \d+s of work later", fewer)
    assert re.match(r"13: costs 0\.\d+ \(0\.\d node-hours more\), \d+m \d+s of work sooner", more)
    assert rows["consecutive_idle_count"][1] == "keep: no evidence"
    assert re.match(r"[23] boots ended, the longest 30s \(compute", rows["boot_fail_after"][2])
    assert re.search("(19|20|21) listings", rows["absent_listings"][2])


def test_json_has_the_evidence_and_every_value_that_was_tried(
    incident: Incident, said: Run
) -> None:
    told = json.loads(said("advise", incident.path, "--json")[1])
    assert all(len(one["cells"]) == len(COLUMNS) for one in told["options"])
    by_option = {one["option"]: one for one in told["options"]}
    stale = by_option["node_stale_after"]
    assert stale["counsel"] == "keep"
    assert stale["ended"]["count"] == 1
    assert stale["ended"]["longest_s"] == pytest.approx(NAP_S + 60, abs=0.1)
    assert stale["ended"]["whose"] == incident.napped.hostname
    assert [one["value"] for one in stale["tried"]] == [900.0, 3600.0]
    assert [one["hits"] for one in stale["tried"]] == [1, 0]
    assert told["pool"] == "pool"
    assert told["decisions"] == incident.outline.decisions
    assert by_option["consecutive_idle_count"]["ended"] is None


def test_the_warnings_of_a_value_are_part_of_the_advice(incident: Incident) -> None:
    """The daemon would not take a settle below one poll as it stands."""
    found = Advised.of(incident.path, 0.0, math.inf, 1)
    made = varied(incident.outline.settings, ["settle=5"], poll_s=POLL_S, source="advise")
    assert made.warnings
    rows = [
        replace(row, tried=[replace(one, warnings=made.warnings) for one in row.tried])
        for row in found.rows
    ]
    (note, *others) = replace(found, rows=rows).notes
    assert note.startswith("[Cleaning] settle = 5: this is below [Daemon] poll_time")
    assert others == found.notes


def test_the_manuals_advice_keeps_the_window_for_the_longest_silence() -> None:
    """tests/packaging/test_docs.py holds the manual's text against the command."""
    out = (INCIDENT / "advise.txt").read_text(encoding="utf-8")
    _, advice, evidence, _, _ = rows_of(out)["node_stale_after"]
    assert advice == "keep"
    assert "the longest 48s (compute18, " in evidence


def test_of_a_long_recording_some_decisions_are_passed_over_and_that_is_said(
    incident: Incident, run: Run, said: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is ordered is decided all the same, so a gain is true to within these polls."""
    whole = json.loads(said("advise", incident.path, "--json")[1])
    monkeypatch.setattr(sweep, "MOST", incident.outline.size * 4)
    some = json.loads(run("advise", incident.path, "--json")[1])
    assert any("one in 3 was made again" in note for note in some["notes"])
    assert not any("was made again" in note for note in whole["notes"])
    for exact, thin in zip(whole["options"], some["options"], strict=True):
        assert thin["recorded"]["hits"] == exact["recorded"]["hits"]
        for one, other in zip(exact["tried"], thin["tried"], strict=True):
            assert one["hits"] == other["hits"]
            assert other["gain_s"] == pytest.approx(one["gain_s"], abs=LIVES * 3 * POLL_S)


@pytest.mark.usefixtures("terminal")
def test_on_a_terminal_it_is_a_table(incident: Incident, run: Run) -> None:
    early = timestamp(incident.outline.first + 600)
    out = run("advise", incident.path, "--until", early)[1]
    assert "\x1b[" in out
    assert "─" in out
    assert "node_stale_after" in out


def test_without_a_journal_it_says_so(run: Run, tmp_path: Path) -> None:
    for command in ("advise", "cost"):
        code, _, err = run(command, tmp_path / "none.db")
        assert (code, "there is no journal" in err) == (1, True)


def test_a_time_without_decisions_is_said(incident: Incident, run: Run) -> None:
    for command in ("advise", "cost"):
        code, _, err = run(command, incident.path, "--since", "2033-01-01")
        assert (code, "has no decision from that time" in err) == (1, True)


def test_without_journal_and_since_it_is_the_configured_one_of_the_last_week(
    incident: Incident, run: Run, tmp_path: Path
) -> None:
    path = tmp_path / "pool.cfg"
    path.write_text(
        f"[Daemon]\nmax_nodes = 3\nstate_dir = {tmp_path}\n[Cloud]\nprovider = dummy\n"
        f"[Journal]\npath = {incident.path}\n",
        encoding="utf-8",
    )
    code, _, err = run("cost", "--config", path)
    assert (code, "has no decision from that time" in err) == (1, True), "it is from 2023"
    assert run("cost", "--config", path, "--since", "2023-01-01")[0] == 0


# Cost.


def hours_of(incident: Incident) -> float:
    return (incident.outline.last - incident.outline.first) / 3600


def test_the_cost_is_told_by_cause_and_by_size(incident: Incident, said: Run) -> None:
    code, out, err = said("cost", incident.path)
    assert (code, err) == (0, "")
    causes = rows_of(out, "cause")
    assert "busy" in causes
    assert rows_of(out, "size").keys() == {"small"}
    assert " in all, " in out


def test_json_has_sums_that_agree_with_each_other(incident: Incident, said: Run) -> None:
    told = json.loads(said("cost", incident.path, "--json")[1])
    total = told["total"]["money"]
    for kind in ("cause", "size"):
        assert sum(one["money"] for one in told[kind].values()) == pytest.approx(total)
    by_hour = json.loads(said("cost", incident.path, "--by", "hour", "--json")[1])["hour"]
    assert sum(one["money"] for hour in by_hour for one in hour["cause"].values()) == (
        pytest.approx(total)
    )
    advised = json.loads(said("advise", incident.path, "--json")[1])
    assert advised["cost"] == told["cause"]
    assert told["cause"].keys() <= {one.value for one in CostCause}
    node_hours = told["total"]["hours"]
    assert 0 < node_hours <= NODES * hours_of(incident) + 0.1


@pytest.mark.parametrize("by", ["day", "hour"])
def test_the_cost_over_time_has_a_row_for_each_step(incident: Incident, run: Run, by: str) -> None:
    out = run("cost", incident.path, "--by", by)[1]
    rows = [line for line in out.splitlines() if re.match(r"\d{4}-\d\d-\d\d", line)]
    spans_hours = int(incident.outline.last // 3600 - incident.outline.first // 3600) + 1
    assert len(rows) == (spans_hours if by == "hour" else 1)


@pytest.mark.usefixtures("terminal")
def test_on_a_terminal_the_cost_has_bars(incident: Incident, run: Run) -> None:
    assert "█" in run("cost", incident.path)[1]


def test_hours_without_a_price_are_told_and_what_to_set(
    incident: Incident, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(spending, "_priced", lambda node, record, sizes: ("odd", None))
    out = run("cost", incident.path)[1]
    assert "node-hours have no known price, and are in no sum: set [Size] price of odd" in out
    assert rows_of(out, "size")["odd"][0] == "0"
    told = json.loads(run("cost", incident.path, "--json")[1])
    assert told["size"]["odd"]["unpriced_hours"] == pytest.approx(told["total"]["hours"])
