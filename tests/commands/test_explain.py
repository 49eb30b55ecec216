"""`nodemanager explain`: from a daemon, from a journal, plain, coloured, as JSON."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from rich.console import Console
from rich.text import Text

from nodemanager import cli
from nodemanager.commands.explain_screen import screen
from nodemanager.commands.show import say
from nodemanager.core.model.reasons import Event, Reason
from nodemanager.errors import NodeManagerError
from nodemanager.journal.explained import explanation, view_at
from nodemanager.journal.sqlite import SqliteJournal
from nodemanager.lib import control
from nodemanager.web.server import ManagementServer
from nodemanager.web.status import Board
from tests.cases import cases
from tests.core.build import EPOCH
from tests.fakes.clock import ManualClock
from tests.journal.random_world import recorded
from tests.web.manager import Manager

pytestmark = pytest.mark.slow

CONFIG = """\
[Daemon]
pool = main
max_nodes = 3
state_dir = {directory}/state
[Manage]
port = {port}
ManagementToken = correct-horse-battery
[Cloud]
provider = dummy
[Journal]
path = {directory}/journal.db
"""


@pytest.fixture
def journal(tmp_path: Path) -> Iterator[Path]:
    """A journal of thirty decisions; a record in it is `id_in`."""
    path = tmp_path / "journal.db"
    opened = SqliteJournal(path, pool="main", clock=ManualClock(), boot_id="boot-1")
    recorded(opened, 3, 30)
    yield path
    opened.close()


def id_in(journal: Path) -> str:
    records = view_at(journal).snapshot.history.records
    assert records is not None
    return next(one.uuid for one in records.items if one.hostname is not None)


@pytest.fixture
def server(journal: Path) -> Iterator[ManagementServer]:
    """What a daemon serves, of the journal's newest decision."""
    board = Board(ManualClock(), journal=journal)
    board.decision = view_at(journal)
    (journal.parent / "state").mkdir(mode=0o700, exist_ok=True)
    made = Manager(board, control_socket=journal.parent / "state" / control.NAME).server
    made.start()
    yield made
    made.stop()


def config(directory: Path, port: int) -> str:
    path = directory / "pool.cfg"
    path.write_text(CONFIG.format(directory=directory, port=port), encoding="utf-8")
    return str(path)


def typed(*args: str) -> Result:
    return CliRunner().invoke(cli.group, ["explain", *args])


def printed(*args: str) -> str:
    result = typed(*args)
    assert result.exception is None, result.output
    return result.stdout


def test_from_a_journal_in_a_pipe_each_rule_is_one_plain_line(journal: Path) -> None:
    id = id_in(journal)
    text = printed(id, "--journal", str(journal), "--all")
    lines = text.splitlines()
    assert id in lines[0]
    assert "\x1b" not in text
    for rule in ("C0", "C3", "C5", "B2", "C12", "C22"):
        assert any(line.startswith(f"{rule} ") for line in lines)
    assert any(line.startswith("blocking: ") for line in lines)
    assert any(line.startswith("earliest: ") for line in lines)


def test_the_answer_comes_first_and_then_only_what_blocks(journal: Path) -> None:
    """O7."""
    id = id_in(journal)
    lines = printed(id, "--journal", str(journal)).splitlines()
    shown = json.loads(printed(id, "--journal", str(journal), "--json"))
    verdict = shown["verdict"]
    assert f"{verdict['reason']}. {verdict['says']}" in lines[0]
    assert lines[1].startswith("earliest: ")
    assert any(line.startswith("blocking: ") for line in lines[2:6])
    blocks = {one["rule"] for one in shown["rules"] if one["status"] == "blocks"}
    first = {line.split()[0] for line in lines if " blocks " in line}
    assert first == blocks
    assert not any(" passed " in line for line in lines)
    assert "--all shows them" in lines[-1]


def test_json_is_what_the_journal_tells(journal: Path) -> None:
    id = id_in(journal)
    shown = json.loads(printed(id, "--journal", str(journal), "--json"))
    assert shown == explanation(view_at(journal), id, source=str(journal), journal=journal)


def test_at_a_time_it_is_the_decision_before_it(journal: Path) -> None:
    id, newest = id_in(journal), view_at(journal).snapshot.wall
    stamp = datetime.fromtimestamp(newest - 1.0).astimezone().isoformat()
    shown = json.loads(printed(id, "--journal", str(journal), "--at", stamp, "--json"))
    assert shown["wall"] <= newest - 1.0 + 0.001
    assert shown["source"] == str(journal)


@pytest.mark.socket
def test_a_running_daemon_answers_first(journal: Path, server: ManagementServer) -> None:
    given = config(journal.parent, server.port)
    shown = json.loads(printed(id_in(journal), "--config", given, "--json"))
    assert shown["source"] == "daemon"
    assert shown["history"]


@pytest.mark.socket
def test_at_a_time_the_configured_journal_is_read_beside_the_daemon(
    journal: Path, server: ManagementServer
) -> None:
    given = config(journal.parent, server.port)
    args = (id_in(journal), "--config", given, "--at", "now", "--json")
    assert json.loads(printed(*args))["source"] == str(journal)


@pytest.mark.socket
def test_without_a_daemon_its_journal_is_read_and_it_says_so(
    journal: Path, server: ManagementServer
) -> None:
    given = config(journal.parent, server.port)
    server.stop()
    result = typed(id_in(journal), "--config", given, "--json")
    assert result.exception is None
    assert json.loads(result.stdout)["source"] == str(journal)
    assert f"from its journal, {journal}" in result.stderr


@pytest.mark.socket
@cases("args", {"from-the-daemon": ("--json",), "from-its-journal": ("--at", "now")})
def test_an_unknown_id_names_what_there_is_near(
    args: tuple[str, ...], journal: Path, server: ManagementServer
) -> None:
    given = config(journal.parent, server.port)
    id = id_in(journal)
    error = typed(f"{id}x", "--config", given, *args).exception
    assert isinstance(error, NodeManagerError)
    assert f"near it: {id}" in str(error)
    assert "http" not in str(error)


def test_without_daemon_and_journal_it_says_how_to_start_one(tmp_path: Path) -> None:
    error = typed("r-1", "--config", config(tmp_path, 1)).exception
    assert isinstance(error, NodeManagerError)
    assert "nodemanager run --config" in str(error)


def test_before_the_journal_begins_nothing_is_known(journal: Path) -> None:
    stamp = datetime.fromtimestamp(EPOCH).astimezone().isoformat()
    error = typed("r-1", "--journal", str(journal), "--at", stamp).exception
    assert isinstance(error, NodeManagerError)
    assert "begins at" in str(error)


def test_on_a_terminal_it_is_coloured_and_fits_its_width(journal: Path) -> None:
    shown: dict[str, Any] = json.loads(printed(id_in(journal), "--journal", str(journal), "--json"))
    out = Console(force_terminal=True, width=80, color_system="standard")
    with out.capture() as captured:
        for part in screen(shown, terminal=True, now=shown["wall"] + 5.0):
            say(out, part)
    text = captured.get()
    assert "\x1b[" in text
    lines = Text.from_ansi(text).plain.splitlines()
    assert max(len(line) for line in lines) <= 80
    assert any("(5s ago)" in line for line in lines)


def test_the_first_line_says_when_its_node_was_lost_and_what_it_did(journal: Path) -> None:
    shown: dict[str, Any] = json.loads(printed(id_in(journal), "--journal", str(journal), "--json"))

    def first_line(*events: str) -> str:
        told = {"reason": None, "number": 1, "count": 1, "measures": {"was": "needed"}}
        history = [{**told, "event": one, "at": shown["at"]} for one in events]
        parts = screen({**shown, "node": None, "history": history}, terminal=False, now=0.0)
        return str(next(iter(parts)))

    assert "Its node was lost at" in first_line("node.created", "node.lost", "record.keep")
    assert first_line("node.lost").endswith(", idle")
    assert "lost at" not in first_line("node.lost", "node.created"), "it has another one"


def test_each_reason_says_what_it_means_by_which_rule() -> None:
    for reason in Reason:
        first, *more = printed(reason.value).splitlines()
        assert first == f"{reason.value}: {reason.doc}"
        assert reason.rule is None or any(
            line.split()[:2] == ["rule", f"{reason.rule},"] for line in more
        ), reason


def test_each_event_says_what_it_is_and_where_it_was_logged() -> None:
    for event in Event:
        first, *more = printed(event.value).splitlines()
        assert first == f"{event.value}: {event.doc}"
        assert more[-1] == f"see     nodemanager log --event {event.value}"


def test_a_word_is_known_as_a_line_of_the_log_has_it() -> None:
    assert printed("reason=within_window") == printed("within_window")
    assert printed("event=node.lost") == printed("node.lost")


def test_a_reason_names_the_options_that_it_depends_on_and_an_event_says_what_it_is() -> None:
    lines = printed("within_window").splitlines()
    assert any(line.startswith("option  [Daemon] node_stale_after: ") for line in lines)
    assert "nodemanager release" in printed("held")
    shown = json.loads(printed("at_max_nodes", "--json"))
    assert list(shown["options"]) == ["[Daemon] max_nodes"]
    assert printed("node.lost").startswith(f"node.lost: {Event.NODE_LOST.doc}")


def test_only_a_job_has_an_id_of_two_words(journal: Path) -> None:
    result = typed("node", "i-1", "--journal", str(journal))
    assert result.exit_code == 2
    assert "'node' is not `job`" in result.stderr
    error = typed("job", "nix", "--journal", str(journal)).exception
    assert "no waiting job has the id 'nix'" in str(error)
