"""`nodemanager why` and `events`: how causes and groups are shown, to people and to machines."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from nodemanager.commands import listing
from nodemanager.commands import status as command
from nodemanager.commands.client import ClientError
from nodemanager.core.model.world import Job, WorkerState
from nodemanager.core.operate.naming import UnknownIdError
from nodemanager.journal.job import explain_job
from nodemanager.web import lists as answers
from nodemanager.web.lists import ListRequest, waiting
from tests.commands.conftest import Typed
from tests.core.build import World, world
from tests.web.manager import decision_on


class Daemon:
    """Answers as the running daemon does, from one decision."""

    def __init__(self, made: World) -> None:
        self._decision = decision_on(made)
        self.asked: list[tuple[float | None, float | None, str | None, bool]] = []

    def get(self, *path: str, **asked: Any) -> dict[str, Any]:
        match path:
            case ["why"]:
                found = answers.answer(self._decision, asked["size"])
            case ["jobs"]:
                found = waiting(ListRequest(self._decision))
            case ["jobs", id]:
                try:
                    found = explain_job(self._decision, id, source="daemon", journal=None)
                except UnknownIdError as error:
                    raise ClientError(str(error)) from error
            case _:
                assert path == ("events",)
                found = self._events(**asked)
        return json.loads(json.dumps(found))  # type: ignore[no-any-return]

    def _events(
        self, since: float | None, until: float | None, id: str | None, all: bool
    ) -> dict[str, Any]:
        self.asked.append((since, until, id, all))
        group = {
            "event": "node.gone",
            "level": "info",
            "reason": "node_down",
            "count": 5,
            "names": ["compute1"],
            "others": 2,
        }
        return {"since": 0.0, "groups": [{**group, "first_at": 1e9, "last_at": 1e9 + 60}]}


@pytest.fixture
def daemon() -> Daemon:
    made = world(max_nodes=3)
    for number in (1, 2):
        made.add_record(f"r{number}", worker_state=WorkerState.BUSY)
        made.add_node(f"r{number}", size="small")
    made.flags["demand"] = (Job("j", cores=1, ram_mb=1, scratch_mb=1, count=3),)
    made.settle()
    return Daemon(made)


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, typed: Typed, daemon: Daemon) -> Typed:
    for module in (command, listing):
        monkeypatch.setattr(module, "client", lambda config: daemon)
    return typed


def test_a_size_says_what_refuses_more_and_what_keeps_its_nodes(run: Typed) -> None:
    code, printed, _ = run("why")
    lines = [re.sub(" +", " ", line).strip() for line in printed.splitlines()]
    assert code == 0
    assert lines[0] == "small 2 busy; the queue wants 3; 2 not booted: at_max_nodes"
    assert lines[1] == "grows by 1 now"
    assert lines[2].startswith("not by 2: at_max_nodes (nodes 2, limit 3) `max_nodes` is reached.")
    assert lines[3].startswith("shrinks not by 2: busy ")


def test_a_size_that_is_asked_for_is_shown_though_it_does_nothing(run: Typed) -> None:
    printed = run("why", "large")[1]
    assert printed.startswith("large  no node; the queue wants 0")
    assert "no: nothing more is wanted" in printed


def test_a_size_that_does_not_exist_is_refused_with_the_nearest(run: Typed) -> None:
    code, _, error = run("why", "smal")
    assert code == 2
    assert "there is no size 'smal'; did you mean 'small'?" in error


def test_json_has_the_reasons_for_machines(run: Typed) -> None:
    shown = json.loads(run("why", "--json")[1])
    (small,) = shown["sizes"]
    assert [cause["reason"] for cause in small["grows"]] == ["at_max_nodes"]
    assert small["shrinks"][0]["nodes"] == ["i-r1", "i-r2"]


def test_events_in_a_pipe_are_a_row_a_group(run: Typed, daemon: Daemon) -> None:
    code, printed, error = run("events")
    assert (code, error) == (0, "")
    heading, row = printed.splitlines()
    assert heading.split() == ["last", "first", "count", "level", "event", "reason", "of"]
    assert row.split() == [
        *("2001-09-09T01:47:40.000Z", "2001-09-09T01:46:40.000Z"),
        *("5", "info", "node.gone", "node_down", "compute1", "..."),
    ]
    assert daemon.asked == [(None, None, None, False)]


def test_all_events_are_asked_for_since_then(run: Typed, daemon: Daemon) -> None:
    run("events", "--all", "--since", "2001-09-09T00:00:00Z")
    assert daemon.asked == [(999993600.0, None, None, True)]


def test_what_happened_to_one_is_asked_for_all_its_life_or_a_part_of_it(
    run: Typed, daemon: Daemon
) -> None:
    run("events", "compute1")
    run("events", "compute1", "--since", "2001-09-09T00:00:00Z", "--until", "2001-09-09T01:00:00Z")
    assert daemon.asked == [
        (0.0, None, "compute1", False),
        (999993600.0, 999997200.0, "compute1", False),
    ]


def test_jobs_in_a_pipe_are_a_row_a_job(run: Typed) -> None:
    code, out, _ = run("jobs")
    assert code == 0
    tail = ["reason", "ends_in"]
    head, row = (re.split(r"\s{2,}", line.strip()) for line in out.splitlines())
    assert head == ["job", "state", "count", "asks", "size", "nodes", "coming", *tail]
    assert row[:-3] == ["j", "waiting", "3", "1 core, 1 MB, scratch 1 MB", "small", "-"]
    assert row[-3:] == ["1", "at_max_nodes", "-"]


def test_jobs_are_chosen_as_other_rows_are(run: Typed) -> None:
    code, _, error = run("jobs", "--state", "impossible")
    assert code == 0
    assert "no job matches; there are 1 waiting" in error
    assert run("jobs", "-o", "name", "--size", "small", "--sort", "-job")[1] == "j\n"


def test_one_job_says_in_its_first_line_what_becomes_of_it(run: Typed) -> None:
    code, out, _ = run("jobs", "j")
    assert code == 0
    first, *more = out.splitlines()
    assert first.startswith("j  waiting: at_max_nodes (nodes 2, limit 3)")
    assert [line.strip() for line in more] == [
        "asks    3 nodes, 1 core, 1 MB, scratch 1 MB each",
        "has     1 coming",
        "lacks   2 nodes of size small",
    ]


def test_a_job_that_does_not_wait_is_told_with_those_that_do(run: Typed) -> None:
    code, _, err = run("jobs", "k")
    assert code == 1
    assert "no waiting job has the id 'k'; 1 wait" in err


def test_jobs_for_machines_have_each_reason_s_sentence(run: Typed) -> None:
    code, out, _ = run("jobs", "--json")
    assert code == 0
    (one,) = json.loads(out)["jobs"]
    assert (one["job"], one["state"], one["coming"]) == ("j", "waiting", 1)
    assert one["says"] == "`max_nodes` is reached."
