"""`nodemanager nodes` and `slots`: what is chosen, in which order, and how it is shown (O1)."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from rich.console import Console

from nodemanager.commands import listing, show
from nodemanager.core.explain.jobs import JobState
from nodemanager.core.explain.lists import GROUPS, JOBS, NODES, SLOTS
from nodemanager.core.model.world import CloudState, Job, WorkerState
from nodemanager.core.plan.slots import Holder
from nodemanager.web import lists
from tests.cases import cases
from tests.commands.conftest import Typed
from tests.core.build import World, node, world
from tests.web.manager import decision_on


def pool() -> World:
    made = world(node_stale_after=7200.0)
    for slot, state in ((2, WorkerState.BUSY), (10, WorkerState.IDLE), (1, WorkerState.BUSY)):
        made.add_record(f"r{slot}", slot=slot, worker_state=state)
        made.add_node(f"r{slot}", age=5000.0 + slot, size="spot" if slot == 10 else "small")
    made.add_record("r3", slot=3, quiet=1000.0)
    made.nodes.append(node(id="i-others", name="\x1b[2Jevil", pool="others"))
    made.flags["slots"] = 64
    made.settle()
    return made


class Daemon:
    """Answers as the running daemon does, from one decision."""

    def __init__(self, made: World) -> None:
        self._decision = decision_on(made)

    def get(self, name: str) -> dict[str, Any]:
        made = lists.LISTS[name].answer(lists.ListRequest(self._decision))
        return json.loads(json.dumps(made))  # type: ignore[no-any-return]


@pytest.fixture
def made() -> World:
    return pool()


@pytest.fixture
def run(made: World, monkeypatch: pytest.MonkeyPatch, typed: Typed) -> Typed:
    monkeypatch.setattr(listing, "client", lambda config: Daemon(made))
    return typed


def column(printed: str, number: int) -> list[str]:
    return [line.split()[number] for line in printed.splitlines()[1:]]


def test_in_a_pipe_there_is_a_heading_and_a_line_for_each_node_by_slot(run: Typed) -> None:
    code, printed, error = run("nodes")
    assert (code, error) == (0, "")
    lines = printed.splitlines()
    assert lines[0].split() == ["host", "node", "size", "state", "age", "slot", "reason"]
    assert column(printed, 0) == ["compute1", "compute2", "compute10"]
    assert column(printed, 1) == ["i-r1", "i-r2", "i-r10"]
    assert column(printed, 3) == ["busy", "busy", "idle"]


@pytest.mark.parametrize("command", ["nodes", "slots", "jobs"])
def test_a_list_that_rests_on_an_old_answer_says_so_in_a_pipe_too(
    made: World, run: Typed, command: str
) -> None:
    assert "no answer" not in run(command)[2]
    made.advance(900.0)
    made.poll_records()
    made.plan()
    assert "; no answer from cloud for 15m" in run(command)[2]
    assert json.loads(run(command, "--json")[1])["stale"]["source"] == "cloud"


def test_a_list_without_any_answer_says_so_and_not_that_there_is_nothing(
    monkeypatch: pytest.MonkeyPatch, typed: Typed
) -> None:
    empty = world()
    empty.poll_records()
    empty.plan()
    monkeypatch.setattr(listing, "client", lambda config: Daemon(empty))
    assert "0 nodes; no answer from cloud yet" in typed("nodes")[2]


def test_slots_tell_what_holds_them_and_when_they_will_be_free(run: Typed) -> None:
    printed = run("slots")[1]
    assert column(printed, 0) == ["1", "2", "3", "10"]
    assert column(printed, 2) == ["listed_node", "listed_node", "no_node", "listed_node"]
    (leak,) = [line for line in printed.splitlines() if "no_node" in line]
    assert leak.split()[-1] == "within_window"


@cases(
    ("words", "hosts"),
    {
        "state": (["--state", "idle"], ["compute10"]),
        "both": (["--state", "idle,busy", "--size", "small"], ["compute1", "compute2"]),
        "reason": (["--reason", "busy"], ["compute1", "compute2"]),
        "oldest-first": (["--sort", "-age"], ["compute10", "compute2", "compute1"]),
        "2-before-10": (["--sort", "host"], ["compute1", "compute2", "compute10"]),
        "foreign-ones-last": (["--all"], ["compute1", "compute2", "compute10", "-"]),
    },
)
def test_what_is_asked_for_comes_in_the_order_asked_for(
    run: Typed, words: list[str], hosts: list[str]
) -> None:
    assert column(run("nodes", *words)[1], 0) == hosts


def test_an_empty_list_says_what_there_is_instead(run: Typed) -> None:
    code, printed, error = run("nodes", "--state", "down")
    assert (code, printed) == (0, "")
    assert "no node matches; there are 2 busy, 1 idle" in error


@pytest.mark.parametrize("command", ["nodes", "slots"])
def test_json_is_the_daemons_answer_with_the_rows_that_were_asked_for(
    run: Typed, command: str
) -> None:
    printed = run(command, "--json", "--sort", "-slot")[1]
    shown = json.loads(printed)
    assert shown["plan"]
    assert shown[command][0]["slot"] == 10
    assert run(command, "-o", "json", "--sort", "-slot")[1] == printed


def test_names_alone_are_for_other_commands(run: Typed) -> None:
    assert run("nodes", "-o", "name", "--state", "busy")[1].splitlines() == ["i-r1", "i-r2"]
    assert run("slots", "-o", "name", "--state", "no_node")[1] == "r3\n"


def test_watching_in_a_pipe_prints_the_list_again_and_again(
    run: Typed, monkeypatch: pytest.MonkeyPatch
) -> None:
    rounds = iter([None, None])

    def slept(seconds: float) -> None:
        assert seconds == 0.5
        if next(rounds, "over") == "over":
            raise KeyboardInterrupt

    monkeypatch.setattr("nodemanager.commands.watch.time.sleep", slept)
    code, printed, _ = run("nodes", "--watch", "0.5", "-o", "json", "--state", "idle")
    assert code == 0
    lines = printed.splitlines()
    assert len(lines) == 3
    assert [json.loads(line)["nodes"][0]["host"] for line in lines] == ["compute10"] * 3


def test_a_column_that_is_not_there_is_refused_with_the_nearest(run: Typed) -> None:
    code, _, error = run("nodes", "--sort", "agee")
    assert code == 2
    assert "did you mean 'age'?" in error


@cases(
    ("words", "says"),
    {
        "state": ("nodes --state dwon", "did you mean 'down'?"),
        "one-of-two": ("nodes --state busy,ilde -o name", "did you mean 'idle'?"),
        "slot": ("slots --state leakd", "did you mean 'leaked'?"),
        "reason": ("slots --reason stale_slt", "did you mean 'stale_slot'?"),
        "level": ("events --level warn", "did you mean 'warning'?"),
        "event": ("events --event node.lots", "did you mean 'node.lost'?"),
        "job": ("jobs --state served,wait", "'wait' is none of served"),
    },
)
def test_a_mistyped_word_does_not_seem_to_say_that_there_is_none(
    run: Typed, words: str, says: str
) -> None:
    """`slots --state leakd -o name | wc -l` said for ever that nothing leaks."""
    code, printed, error = run(*words.split())
    assert (code, printed) == (2, "")
    assert says in error


def test_each_word_that_a_row_may_have_can_be_asked_for() -> None:
    assert set(NODES.states) >= {*WorkerState, *CloudState, "booting", "unpaired", "shutdown"}
    assert set(SLOTS.states) == {*Holder, "leaked"}
    assert set(JOBS.states) == set(JobState)
    assert set(GROUPS.states) >= {"info", "warning", "error"}


@pytest.mark.parametrize("command", ["nodes", "slots"])
def test_on_a_phone_each_row_is_a_paragraph_and_no_word_is_cut(
    run: Typed, monkeypatch: pytest.MonkeyPatch, command: str
) -> None:
    monkeypatch.setattr(
        show, "console", lambda stderr=False: Console(stderr=stderr, force_terminal=True, width=44)
    )
    printed = re.sub(r"\x1b\[[0-9;]*m", "", run(command)[1])
    assert max(len(line.rstrip()) for line in printed.splitlines()) <= 44
    for host in ("compute1", "compute2", "compute10"):
        assert f"host {host}," in printed
    assert "state " in printed
    assert "reason " in printed


def test_what_a_cloud_wrote_moves_no_cursor(run: Typed) -> None:
    """X9."""
    printed = run("nodes", "--all", "-o", "wide")[1]
    assert "\\x1b[2Jevil" in printed
    assert "\x1b" not in printed


@pytest.mark.slow
@cases("terminal", {"pipe": False, "terminal": True})
def test_a_terminal_gets_the_first_rows_and_a_pipe_all(
    monkeypatch: pytest.MonkeyPatch, typed: Typed, terminal: bool
) -> None:
    made = pool()
    made.flags["demand"] = tuple(Job(f"job-{number}") for number in range(2003))
    made.settle()
    monkeypatch.setattr(listing, "client", lambda config: Daemon(made))
    monkeypatch.setattr(
        show,
        "console",
        lambda stderr=False: Console(stderr=stderr, force_terminal=terminal, width=150),
    )
    _, out, err = typed("jobs")
    assert [out.count(f"job-{number} ") for number in (0, 1999, 2000, 2002)] == [
        *(1, 1),
        *((0, 0) if terminal else (1, 1)),
    ]
    assert ("2003 jobs" in err) is terminal
    assert ("2000 are shown (--json, or a pipe, has them all)" in err) is terminal


def test_on_a_terminal_ids_are_as_short_as_they_may_be(
    run: Typed, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def terminal(*, stderr: bool = False) -> Console:
        return Console(stderr=stderr, force_terminal=True, width=100, highlight=False)

    monkeypatch.setattr(show, "console", terminal)
    _, printed, error = run("slots")
    assert "compute10" in printed
    assert "60 of 64 are free" in error
