"""`nodemanager log` on a journal of its own: filters, forms, and what it says without one."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.shell_completion import ShellComplete

from nodemanager import cli
from nodemanager.commands.listing_screen import Folding
from nodemanager.commands.times import local
from nodemanager.core.model.reasons import Event
from nodemanager.journal.event import LoggedEvent
from nodemanager.journal.sqlite import SqliteJournal
from nodemanager.lib.log import ERROR, WARNING
from nodemanager.lib.logline import timestamp
from tests.cases import cases
from tests.commands.conftest import Typed
from tests.core.build import EPOCH
from tests.journal.test_story import Recorded

CONFIG = """\
[Daemon]
pool = main
max_nodes = 3
state_dir = {directory}
[Cloud]
provider = dummy
"""


@pytest.fixture
def made(tmp_path: Path) -> Recorded:
    """A pool that keeps the configured journal."""

    def opened(**given: object) -> SqliteJournal:
        return SqliteJournal(tmp_path / "journal.db", pool="main", boot_id="b", **given)  # type: ignore[arg-type]

    return Recorded(opened)


@pytest.fixture
def recorded(made: Recorded) -> Recorded:
    """Two pairs; a minute later the node of slot 7 is gone, and its record quiet."""
    for slot in (7, 8):
        made.world.add_record(f"zzzzz-7ekkf-{slot:015}", slot=slot)
        made.world.add_node(f"zzzzz-7ekkf-{slot:015}", id=f"i-{slot}", name=f"worker-{slot}")
    made.round()
    made.world.drop_node("i-7")
    made.round()
    made.journal.close()
    return made


@pytest.fixture
def run(tmp_path: Path, typed: Typed) -> Typed:
    """`nodemanager log ...` on the configured journal: exit code, output, errors."""
    config = tmp_path / "pool.cfg"
    config.write_text(CONFIG.format(directory=tmp_path))

    def command(*words: str, given: bool = True) -> tuple[int, str, str]:
        return typed("log", *words, *(("--config", config) if given else ()))

    return command


def events(printed: str) -> list[str]:
    return [one.split("event=")[1].split(" plan=")[0] for one in printed.splitlines()]


def test_in_a_pipe_it_is_lines_as_of_the_log_with_times_in_utc(
    recorded: Recorded, run: Typed
) -> None:
    code, printed, _ = run()
    assert code == 0
    assert events(printed)[0] == "daemon.started pool=main"
    kept = next(one for one in printed.splitlines() if "within_window" in one)
    assert (
        "event=record.keep reason=within_window record=zzzzz-7ekkf-000000000000007 slot=7 "
        "host=compute7 node=i-7 idle_s=" in kept
    )
    assert kept.startswith(f"ts={timestamp(EPOCH + recorded.world.now)} event=")


@pytest.mark.parametrize("id", ["compute7", "7", "i-7", "worker-7", "zzzzz-7ekkf-000000000000007"])
def test_a_record_is_asked_for_by_any_name_and_its_pair_comes_with_it(
    recorded: Recorded, run: Typed, id: str
) -> None:
    told = run(id)[1]
    assert [one.split()[0] for one in events(told)] == [
        *("node.paired", "node.keep", "node.unpaired", "record.keep", "node.unlisted"),
    ]
    assert "compute8" not in told


def test_the_beginning_of_an_id_will_do_and_one_of_two_ids_is_refused(
    made: Recorded, run: Typed
) -> None:
    """O9."""
    for number, id in enumerate(("local-4ad7", "local-4b22")):
        made.world.add_record(f"zzzzz-7ekkf-{number:015}", slot=number)
        made.world.add_node(f"zzzzz-7ekkf-{number:015}", id=id)
    made.round()
    made.tell(Event.OPERATOR_DRAIN, id="local-4a", node="local-4ad7", by="ann")
    made.journal.close()
    assert "operator.drain" in run("local-4a")[1]
    assert run("local-4a")[1] == run("local-4ad7")[1]
    code, printed, error = run("local-4")
    assert (code, printed) == (1, "")
    assert "local-4 may be" in error
    assert "local-4ad7" in error
    assert "local-4b22" in error


def test_since_and_until_bound_it_and_last_takes_the_end(recorded: Recorded, run: Typed) -> None:
    between = local(EPOCH + recorded.world.now - 30.0)
    later = run("--since", between)[1]
    sooner = run("--until", between)[1]
    assert "within_window" in later
    assert "within_window" not in sooner
    assert sooner + later == run()[1]
    assert run("--last", "1")[1] == run()[1].splitlines(keepends=True)[-1]


@cases(
    "words",
    {
        "in-order": "--since 1h --until 2h",
        "the-other-way-round": "--until 2h --since 1h",
        "nothing-between": "--since 2026-03-01 --until 2026-03-01",
    },
)
def test_a_range_that_ends_before_it_begins_is_refused(
    recorded: Recorded, run: Typed, words: str
) -> None:
    """`log --since 1h --until 2h` said that the journal has no such events."""
    code, printed, error = run(*words.split())
    assert (code, printed) == (2, "")
    assert "--until must be a time after --since" in error


def test_reasons_choose_and_an_unknown_one_gets_the_nearest(recorded: Recorded, run: Typed) -> None:
    told = run("--reason", "within_window", "--reason", "node_absent,held")[1]
    assert {one.split()[1] for one in events(told)} == {
        *("reason=within_window", "reason=node_absent"),
    }
    code, _, error = run("--reason", "within_windw")
    assert code == 2
    assert "did you mean 'within_window'?" in error


def test_json_is_an_object_a_line_by_the_same_keys(recorded: Recorded, run: Typed) -> None:
    told = [json.loads(one) for one in run("compute7", "--json")[1].splitlines()]
    assert [one["event"] for one in told][-1] == "node.unlisted"
    assert told[0]["slot"] == 7
    assert told[0]["ts"].endswith("Z")


def test_a_copy_is_read_wherever_it_lies_and_without_a_configuration(
    recorded: Recorded, run: Typed, tmp_path: Path
) -> None:
    apart = tmp_path / "apart"
    apart.mkdir()
    shutil.copy(tmp_path / "journal.db", apart / "copy.db")
    os.chmod(apart, 0o500)
    code, printed, _ = run("--journal", str(apart / "copy.db"), given=False)
    assert (code, printed) == (0, run()[1])


def test_a_name_that_nobody_has_is_told_from_one_of_which_nothing_is_to_tell(
    recorded: Recorded, run: Typed
) -> None:
    code, printed, error = run("compute77")
    assert (code, printed) == (1, "")
    assert "nothing goes by 'compute77'" in error
    assert "near it: compute7" in error
    code, printed, error = run("compute7", "--reason", "busy")
    assert (code, printed, error) == (0, "", "the journal has no such events\n")


def test_without_a_journal_it_says_which_file_and_what_to_do(run: Typed, tmp_path: Path) -> None:
    code, _, error = run()
    assert code == 1
    assert f"there is no journal {tmp_path}/journal.db" in error
    assert "--journal FILE" in error
    code, _, error = run("--journal", str(tmp_path / "none.db"))
    assert code == 1
    assert "none.db: give the file that a daemon wrote" in error


def test_what_is_no_journal_is_refused(run: Typed, tmp_path: Path) -> None:
    (tmp_path / "journal.db").write_text("no database\n" * 100)
    code, _, error = run()
    assert code == 1
    assert "can't be read" in error


def test_a_dry_runs_journal_is_read_where_there_is_no_other(
    recorded: Recorded, run: Typed, tmp_path: Path
) -> None:
    printed = run()[1]
    (tmp_path / "journal.db").rename(tmp_path / "journal-dry-run.db")
    assert run()[1] == printed


@pytest.fixture
def stranger(recorded: Recorded, run: Typed, tmp_path: Path) -> Iterator[None]:
    """Whoever may read the configuration, but not the daemon's state."""
    if os.geteuid() != 0:
        pytest.skip("only root becomes another user")
    before = {
        path: path.stat().st_mode for path in tmp_path.parents if path.stat().st_mode & 0o5 != 5
    }
    for path in before:
        path.chmod(0o755)
    state = tmp_path / "state"
    state.mkdir(mode=0o700)
    (tmp_path / "journal.db").rename(state / "journal.db")
    (tmp_path / "pool.cfg").write_text(CONFIG.format(directory=state))
    tmp_path.chmod(0o755)
    os.seteuid(65534)
    yield
    os.seteuid(0)
    for path, mode in before.items():
        path.chmod(mode)


@cases(
    "words",
    {
        "log": ["log"],
        "log-follow": ["log", "--follow"],
        "explain-at": ["explain", "compute7", "--at", "now"],
    },
)
def test_whoever_may_not_read_the_journal_is_told_whom_to_run_it_as(
    stranger: None, tmp_path: Path, typed: Typed, words: list[str]
) -> None:
    """O4, X17: members of the documented group."""
    code, _, said = typed(*words, "--config", tmp_path / "pool.cfg")
    assert code == 1
    assert "can't be read: Permission denied; run this as the user root" in said


def test_an_event_or_all_of_a_kind_is_chosen(recorded: Recorded, run: Typed) -> None:
    assert {one.split()[0] for one in events(run("--event", "node.paired")[1])} == {"node.paired"}
    kinds = {one.split()[0] for one in events(run("--event", "node,daemon.started")[1])}
    assert kinds == {"daemon.started", "node.paired", "node.keep", "node.unpaired", "node.unlisted"}
    code, _, error = run("--event", "node.pared")
    assert code == 2
    assert "did you mean 'node.paired'?" in error


def test_a_level_chooses_what_is_worse_and_the_line_says_it_as_the_log_does(
    made: Recorded, run: Typed
) -> None:
    made.tell(Event.BREAKER_OPENED, level=ERROR, cause="x")
    made.tell(Event.NODE_SETUP_FAILED, level=WARNING, size="small")
    made.tell(Event.BREAKER_CLOSED)
    made.journal.close()
    assert len(events(run()[1])) >= 3
    printed = run("--level", "warning")[1].splitlines()
    assert [one.split()[1:3] for one in printed] == [
        ["event=breaker.opened", "level=error"],
        ["event=node.setup_failed", "level=warning"],
    ]
    assert len(run("--level", "error")[1].splitlines()) == 1


def test_several_ids_are_completed_one_after_the_other(
    recorded: Recorded, run: Typed, tmp_path: Path
) -> None:
    given = ["drain", "--config", f"{tmp_path}/pool.cfg", "compute7"]
    assert completed(given, "compute") == ["compute7", "compute8"]


def test_follow_and_until_are_refused_together(recorded: Recorded, run: Typed) -> None:
    code, _, error = run("--follow", "--until", "now")
    assert code == 2
    assert "give one of them" in error


def completed(words: list[str], begun: str) -> list[str]:
    shell = ShellComplete(cli.group, {}, "nodemanager", "_NODEMANAGER_COMPLETE")
    return [one.value for one in shell.get_completions(words, begun)]


@cases(
    "words",
    {
        "log": ["log", "--config", "{}/pool.cfg"],
        "of-a-journal": ["log", "--journal", "{}/journal.db"],
        "explain": ["explain", "--config", "{}/pool.cfg"],
        "hold": ["hold", "--config", "{}/pool.cfg"],
    },
)
def test_a_name_is_completed_from_the_journal_alone(
    recorded: Recorded, run: Typed, tmp_path: Path, words: list[str]
) -> None:
    given = [word.format(tmp_path) for word in words]
    assert completed(given, "comp") == ["compute7", "compute8"]
    assert completed(given, "i-8") == ["i-8"]


def test_where_no_name_can_be_told_nothing_is_completed_nor_said(
    run: Typed, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert completed(["log", "--config", f"{tmp_path}/pool.cfg"], "") == []
    assert completed(["log", "--config", f"{tmp_path}/none.cfg"], "") == []
    (tmp_path / "pool.cfg").write_text("[Clod]")
    assert completed(["log", "--config", f"{tmp_path}/pool.cfg"], "") == []
    assert capsys.readouterr() == ("", "")


def test_a_terminal_folds_turns_between_busy_and_idle_until_something_else_happens() -> None:
    def turn(at: float, host: str) -> LoggedEvent:
        return LoggedEvent(at, "node.keep", "busy" if at % 2 else "needed", host=host)

    folding = Folding()
    other = LoggedEvent(50.0, "node.lost", "node_absent", host="compute1")
    news = [turn(1.0, "compute1"), turn(2.0, "compute2"), turn(3.0, "compute1"), other]
    first, second = folding.take(news)
    assert (first.at, first.host, first.more["times"]) == (1.0, "compute1 compute2", 3)
    assert second is other
    assert list(folding.take([turn(60.0, "compute2")])) == [], "more may come"
    (last,) = folding.rest()
    assert (last.at, last.reason) == (60.0, "needed"), "one alone is told as it is"
    assert list(folding.rest()) == []
