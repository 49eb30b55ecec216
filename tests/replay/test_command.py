"""`nodemanager replay`, as a user runs it: tables, JSON, report, and what is wrong."""

from __future__ import annotations

import html
import json
import re
import shutil
import sqlite3
import zlib
from pathlib import Path

import pytest

from nodemanager.commands.replay_result import COLUMNS
from tests.cases import cases
from tests.replay.conftest import Incident, Run, window


@pytest.fixture
def copy(incident: Incident, tmp_path: Path) -> Path:
    """A copy of the incident's journal, to spoil."""
    path = tmp_path / "copy.db"
    shutil.copy(incident.path, path)
    return path


def text_of(report: Path) -> str:
    """The words of a report, without its lines and colours."""
    words = re.sub(r"<[^>]+>", "", report.read_text(encoding="utf-8"))
    return " ".join(html.unescape(words).split())


def rows_of(out: str, heading: str) -> dict[str, dict[str, str]]:
    """The comparison by its first column."""
    lines = out.splitlines()
    at = next(number for number, line in enumerate(lines) if line.startswith(heading))
    rows = {}
    for line in lines[at + 1 :]:
        cells = re.split(r"\s{2,}", line)
        if len(cells) != 1 + len(COLUMNS):
            break
        rows[cells[0]] = dict(zip(COLUMNS, cells[1:], strict=True))
    return rows


# What it says.


@pytest.mark.slow
def test_without_other_settings_it_says_that_all_decisions_are_the_same(
    incident: Incident, said: Run
) -> None:
    code, out, _ = said("replay", incident.path)
    assert code == 0
    assert f"{incident.outline.decisions} decisions" in out
    assert "all the same with the recorded settings" in out


def test_a_decision_that_differs_is_told_and_exits_1(copy: Path, run: Run) -> None:
    with sqlite3.connect(copy) as journal:
        seq, body = journal.execute(
            "SELECT seq, body FROM entries WHERE kind = 'cycle' ORDER BY seq DESC LIMIT 1"
        ).fetchone()
        data = json.loads(zlib.decompress(body))
        data["digest"] += 1
        packed = zlib.compress(json.dumps(data).encode("ascii"))
        journal.execute("UPDATE entries SET body = ? WHERE seq = ?", (packed, seq))
    code, out, _ = run("replay", copy)
    assert code == 1
    assert "1 of them differ with the recorded settings" in out
    assert "what was measured" in out
    code, out, _ = run("replay", copy, "--json")
    assert (code, json.loads(out)["differing"]) == (1, 1)


def test_windows_are_held_against_the_recorded_one(incident: Incident, run: Run) -> None:
    code, out, err = run(
        "replay", incident.path, "--node-stale-after", "24m", "--node-stale-after", "15m"
    )
    assert (code, err) == (0, "")
    rows = rows_of(out, "node_stale_after")
    assert list(rows) == ["30m (recorded)", "24m", "15m"]
    assert rows["30m (recorded)"]["slot-hours"] == "0.000"
    assert rows["24m"]["slot-hours"] == "+0.300"
    assert rows["24m"]["hits"] == "0"
    assert rows["15m"]["slot-hours"] in ("+0.733", "+0.750")
    assert rows["15m"]["hits"] == "1"
    (hit,) = [line for line in out.splitlines() if line.startswith(incident.napped.uuid)]
    assert str(incident.napped.instance_id) in hit
    assert hit.endswith("15m")
    assert "C11" in out


def test_several_options_are_set_together(incident: Incident, run: Run) -> None:
    settings = ("--set", "Cleaning.settle=2m", "--set", "node_stale_after=20m")
    code, out, _ = run("replay", incident.path, *settings)
    assert code == 0
    rows = rows_of(out, "settings")
    assert list(rows) == ["recorded", "settle=2m node_stale_after=20m"]
    assert rows["settle=2m node_stale_after=20m"]["sooner"] == "3"


def test_one_other_value_tells_each_slot_that_moves(incident: Incident, run: Run) -> None:
    code, out, _ = run("replay", incident.path, "--node-stale-after", "25m")
    assert code == 0
    (line,) = [one for one in out.splitlines() if one.startswith(incident.died[0].uuid)]
    assert line.split()[1] == str(incident.died[0].slot_number)
    assert "stale_slot" in line
    assert line.endswith("+5m 00s")


def test_a_sweep_has_the_recorded_value_among_its_own(incident: Incident, run: Run) -> None:
    code, out, err = run(
        "replay", incident.path, "--sweep", "node_stale_after=10m..2h", "--steps", "5"
    )
    assert code == 0
    rows = rows_of(out, "node_stale_after")
    assert list(rows) == ["10m", "20m", "30m (recorded)", "35m", "1h", "2h"]
    gains = [float(row["slot-hours"]) for row in rows.values()]
    assert gains == sorted(gains, reverse=True)
    assert "using poll_stale_after = 300" in err
    assert "\x1b" not in out, "a pipe gets plain text"
    assert not re.search("[─│┌⠉]", out)


def test_json_has_all_of_it_but_no_secret(incident: Incident, run: Run) -> None:
    code, out, _ = run("replay", incident.path, "--node-stale-after", "15m", "--json")
    assert code == 0
    told = json.loads(out)
    assert told["decisions"] == incident.outline.decisions
    assert (told["differing"], told["swept"], told["dry_run"]) == (0, None, False)
    (value,) = told["values"]
    assert value["settings"] == {"node_stale_after": 900.0}
    assert [hit["life"]["record"] for hit in value["hits"]] == [incident.napped.uuid]
    assert {move["life"]["record"] for move in value["moves"]} == {
        incident.died[0].uuid,
        incident.died[1].uuid,
        incident.hung.uuid,
    }
    assert value["slot_s"] == pytest.approx(0.742 * 3600, abs=36)
    assert told["notes"]
    secret = incident.died[0].ping_secret
    assert secret
    assert secret not in out


def test_every_output_says_the_pool_the_recorded_settings_and_an_advice(
    incident: Incident, run: Run, tmp_path: Path
) -> None:
    asked = ("--node-stale-after", "24m", "--node-stale-after", "15m")
    napped = incident.napped.hostname
    report = tmp_path / "report.html"
    _, out, _ = run("replay", incident.path, *asked, "--report", report)
    (pool,) = [line for line in out.splitlines() if line.startswith("pool ")]
    assert pool.startswith("pool pool, recorded with ")
    assert {"node_stale_after 30m", "max_nodes 12"} <= set(pool.partition(" with ")[2].split("; "))
    (advice,) = [line for line in out.splitlines() if line.startswith("Advice: ")]
    assert advice.startswith(
        "Advice: keep 30m (recorded). Stay away from 24m: slots 18m 00s sooner, waiting boots -2, "
        f"too close to the longest. Evidence: 1 silence ended, the longest 21m 00s ({napped}, "
    )
    page = text_of(report)
    assert " ".join(advice.split()[:20]) in page
    assert "pool pool, recorded with " in page
    told = json.loads(run("replay", incident.path, *asked, "--json")[1])
    assert told["pool"] == "pool"
    assert told["settings"]["node_stale_after"] == "30m"
    assert told["advice"] == {
        "counsel": "keep", "value": "30m (recorded)", "limit": "24m", "text": advice
    }  # fmt: skip


@cases(
    ("window", "said"),
    {
        "hits": ("15m", "keep 30m (recorded). Stay away from 15m: slots 4"),
        "later": ("1h", "keep 30m (recorded). Evidence: 1 silence"),
    },
)
def test_the_recorded_value_is_kept_where_no_other_is_better(
    incident: Incident, run: Run, window: str, said: str
) -> None:
    assert f"Advice: {said}" in run("replay", incident.path, "--node-stale-after", window)[1]


@pytest.mark.parametrize(
    "setting", ["node_stale_after=24m", "Cleaning.absent_listings=1"], ids=["a-window", "a-count"]
)
def test_a_shorter_window_among_other_settings_is_held_against_what_ended(
    incident: Incident, run: Run, setting: str
) -> None:
    out = run("replay", incident.path, "--set", setting, "--set", "max_nodes=40")[1]
    assert "Advice: keep recorded" in out
    assert f"({incident.napped.hostname}, " in out


def test_an_option_that_waits_for_nothing_is_advised_by_gain_and_hits(
    incident: Incident, run: Run
) -> None:
    out = run("replay", incident.path, "--set", "max_nodes=40")[1]
    assert "Advice: keep recorded. The recording has 1h 02m" in out


def test_without_other_settings_the_advice_is_what_to_try(
    incident: Incident, run: Run, said: Run
) -> None:
    out = said("replay", incident.path)[1]
    words = re.search(r"Advice: .*: (--sweep) (\S+)\. ", out)
    assert words is not None
    assert run("replay", incident.path, *words.groups(), "--steps", "2")[0] == 0


# The report.


@cases(
    "asked",
    {
        "a-sweep": ("--sweep", "node_stale_after=10m..2h", "--steps", "2"),
        "a-window": ("--node-stale-after", "15m"),
        "nothing-else": (),
    },
)
def test_the_report_is_one_page_that_fetches_and_runs_nothing(
    asked: tuple[str, ...], incident: Incident, run: Run, tmp_path: Path
) -> None:
    report = tmp_path / "report.html"
    code, _, err = run("replay", incident.path, *asked, "--report", report)
    assert (code, f"wrote {report}" in err) == (0, True)
    page = report.read_text(encoding="utf-8")
    assert "<script" not in page
    assert set(re.findall(r"https?://[^\"'\s<>)]+", page)) <= {"http://www.w3.org/2000/svg"}
    assert not re.search(r"(src|href)\s*=", page)
    assert '<meta name="color-scheme" content="light dark">' in page
    assert ("█" in page) == bool(asked)
    assert (incident.napped.uuid in page) == bool(asked)
    assert (incident.hung.uuid in page) == bool(asked)


def test_a_report_that_can_not_be_written_says_so(
    incident: Incident, run: Run, tmp_path: Path
) -> None:
    code, _, err = run("replay", incident.path, "--report", tmp_path / "none" / "report.html")
    assert code == 1
    assert "can't be written: No such file" in err


# What is wrong.


def test_no_journal_is_said_and_exits_1(run: Run, tmp_path: Path) -> None:
    code, _, err = run("replay", tmp_path / "none.db")
    assert code == 1
    assert "there is no journal" in err


def test_a_damaged_journal_is_said_and_exits_1(copy: Path, run: Run) -> None:
    with sqlite3.connect(copy) as journal:
        journal.execute(
            "UPDATE entries SET body = ? WHERE seq = (SELECT max(seq) FROM entries)", (b"junk",)
        )
    code, _, err = run("replay", copy)
    assert code == 1
    assert f"the journal {copy} is damaged" in err


def test_damage_found_by_another_process_is_said_too(
    copy: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("nodemanager.journal.sweep.ALONE", 0)
    with sqlite3.connect(copy) as journal:
        journal.execute(
            "UPDATE entries SET verdicts = ? WHERE verdicts IS NOT NULL AND seq = "
            "(SELECT max(seq) FROM entries WHERE verdicts IS NOT NULL)",
            (b"junk",),
        )
    code, _, err = run("replay", copy, "--node-stale-after", "25m", "--jobs", "2")
    assert code == 1
    assert f"the journal {copy} is damaged" in err


def test_the_error_of_one_process_is_said_while_another_is_still_at_work(
    incident: Incident, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The others are ended then, and their end is not what is said."""
    monkeypatch.setattr("nodemanager.journal.sweep.ALONE", 0)
    others = [window(60.0 * minutes) for minutes in range(10, 50)]
    with pytest.raises(TypeError, match="no_such_setting"):
        incident.under({"no_such_setting": 1.0}, *others, jobs=2)


def test_a_newer_programs_journal_is_refused(copy: Path, run: Run) -> None:
    with sqlite3.connect(copy) as journal:
        journal.execute("UPDATE alembic_version SET version_num = '9999'")
    code, _, err = run("replay", copy)
    assert code == 1
    assert "upgrade nodemanager" in err


def test_a_time_without_decisions_is_said_and_exits_1(incident: Incident, run: Run) -> None:
    code, _, err = run("replay", incident.path, "--until", "1999-01-01")
    assert code == 1
    assert "has no decision from that time" in err


@cases(
    ("words", "said"),
    {
        "unknown": (
            ("--set", "Daemon.node_stale_afer=5m"),
            (
                "--set:1: [Daemon] node_stale_afer = 5m: no such option; "
                "did you mean 'node_stale_after'?"
            ),
        ),
        "no-duration": (
            ("--node-stale-after", "soon"),
            "[Daemon] node_stale_after = soon: not a duration; write seconds, or 30m, 2h, 1d",
        ),
        "as-recorded": (
            ("--set", "Daemon.poll_time=5"),
            "[Daemon] poll_time = 5: a replay can't vary this: the recording has only the polls",
        ),
        "a-secret": (
            ("--set", "Arvados.token=abc"),
            "[Arvados] token = ***: a replay can't vary this",
        ),
        "contradiction": (("--set", "Daemon.min_nodes=99"), "asks for more nodes than"),
        "no-range": (("--sweep", "node_stale_after=5m"), "write OPTION=A..B"),
        "backwards": (("--sweep", "node_stale_after=4h..5m"), "begin with its lower end"),
        "not-a-number": (
            ("--sweep", "claim_expiry=on..off"),
            "can't vary such an option over a range",
        ),
        "both": (
            ("--sweep", "node_stale_after=5m..1h", "--node-stale-after", "5m"),
            "give one of them",
        ),
        "below-two-polls": (("--sweep", "node_stale_after=30s..1h"), "below two polls"),
    },
)
def test_a_bad_option_is_said_as_for_a_file_and_exits_2(
    words: tuple[str, ...], said: str, incident: Incident, run: Run
) -> None:
    code, out, err = run("replay", incident.path, *words)
    assert code == 2
    assert said in err
    assert "abc" not in err + out
