"""The operators' commands over real sockets: bodies, the token, and what each answer looks like."""

from __future__ import annotations

from typing import Any

import pytest
import requests

from nodemanager.app.management import OperatorCommands
from nodemanager.core.model.annotations import PAUSE, Mark, Marks
from nodemanager.core.model.reasons import Reason
from nodemanager.core.operate.replies import Command, Reply, Result
from nodemanager.core.operate.verbs import Verb
from tests.cases import cases
from tests.web.manager import WITH_TOKEN, Manager

ABOUT = ["hold", "release", "drain", "run", "kill", "clean"]
PATHS = [*(f"/api/{verb}/i-1" for verb in ABOUT), "/api/pause", "/api/resume", "/api/breaker/reset"]


@pytest.mark.parametrize("path", PATHS)
def test_a_command_is_given_with_all_that_was_said(path: str, manager: Manager) -> None:
    answer = manager.post(path, {"by": "ann", "reason": " it hangs "})
    assert answer.status_code == 200
    assert answer.json() == {
        "done": True,
        "result": "done",
        "message": "it is so",
        "record": "r-1",
        "node": "i-1",
    }
    (command,) = manager.daemon.heard
    verb = path.removeprefix("/api/").removesuffix("/i-1").replace("/", "_")
    about = "i-1" if path.endswith("/i-1") else None
    assert command == Command(Verb(verb), "ann", "it hangs", about)


def test_an_id_may_have_slashes(manager: Manager) -> None:
    """As some clouds give."""
    assert manager.post("/api/hold/zones/a/vm 7", {"unlisted": True}).status_code == 200
    (command,) = manager.daemon.heard
    assert command.id == "zones/a/vm 7"


def test_what_is_forced_and_unlisted_is_said_too(manager: Manager) -> None:
    body = {"by": "ann", "reason": "it burned", "force": ["C3", "C2", "C3"]}
    manager.post("/api/clean/r-1", body)
    manager.post("/api/hold/i-9", {"unlisted": True})
    assert manager.daemon.heard == [
        Command(Verb.CLEAN, "ann", "it burned", "r-1", forced=("C3", "C2")),
        Command(Verb.HOLD, "", "", "i-9", unlisted=True),
    ]


@cases(
    ("path", "body"),
    {
        "no-object": ("/api/hold/i-1", ["by"]),
        "unknown-key": ("/api/hold/i-1", {"who": "ann"}),
        "not-a-text": ("/api/hold/i-1", {"by": 7}),
        "too-long": ("/api/hold/i-1", {"reason": "x" * 1001}),
        "unlisted-is-no-text": ("/api/hold/i-1", {"unlisted": "yes"}),
        "nothing-to-force": ("/api/drain/i-1", {"force": ["C3"]}),
        "no-unlisted-drain": ("/api/drain/i-1", {"unlisted": True}),
        "a-long-id": (f"/api/drain/{'i' * 1001}", {}),
        "force-is-a-list": ("/api/clean/r-1", {"force": "C3", "reason": "x"}),
        "force-is-of-texts": ("/api/clean/r-1", {"force": [3], "reason": "x"}),
        "too-many": ("/api/clean/r-1", {"force": ["C3"] * 21, "reason": "x"}),
        "a-force-without-a-reason": ("/api/clean/r-1", {"force": ["C3"]}),
        "a-kill-without-a-reason": ("/api/kill/i-1", {"by": "ann"}),
        "a-kill-with-a-blank-one": ("/api/kill/i-1", {"reason": "  "}),
        "a-pause-without-a-reason": ("/api/pause", {}),
    },
)
def test_a_bad_body_is_400_and_nothing_is_done(path: str, body: Any, manager: Manager) -> None:
    answer = manager.post(path, body)
    assert (answer.status_code, answer.json()["title"]) == (400, "bad request")
    assert answer.json()["description"]
    assert manager.daemon.heard == []


def test_json_that_was_sent_as_a_form_is_told_which_header_it_lacks(manager: Manager) -> None:
    """`curl -d` does so."""
    form = {**WITH_TOKEN, "Content-Type": "application/x-www-form-urlencoded"}
    answer = requests.post(
        f"{manager.server.url}/api/pause", data='{"reason": "x"}', headers=form, timeout=5
    )
    assert answer.status_code == 400
    assert "Content-Type: application/json" in answer.json()["description"]
    assert manager.daemon.heard == []


@cases(
    ("path", "body"),
    {
        "no-json": ("/api/hold/i-1", "{"),
        "half-a-reason": ("/api/hold/i-1", '{"reason": "\\ud800"}'),
        "half-a-name": ("/api/hold/i-1", '{"by": "\\udfff"}'),
        "half-a-rule": ("/api/clean/r-1", '{"reason": "x", "force": ["\\ud800"]}'),
        "half-a-hostlist": ("/api/power/resume", '{"nodes": "\\ud800"}'),
        "nan": ("/api/hold/i-1", '{"reason": NaN}'),
        "deep": ("/api/hold/i-1", '{"a":' * 90 + "1" + "}" * 90),
        "too-deep-to-read": ("/api/hold/i-1", '{"a":' * 9000 + "1" + "}" * 9000),
    },
)
def test_json_that_can_not_be_kept_is_400_and_nothing_is_done(
    path: str, body: str, manager: Manager
) -> None:
    headers = {**WITH_TOKEN, "Content-Type": "application/json"}
    answer = requests.post(manager.server.url + path, data=body, headers=headers, timeout=5)
    assert answer.status_code == 400
    assert manager.daemon.heard == []


def test_an_answer_may_quote_what_is_no_text(manager: Manager) -> None:
    """As a name that somebody else's program gave to a node."""
    manager.daemon.reply = Reply(Result.UNKNOWN, "no \ud800", nearest="\udce9")
    answer = manager.post("/api/hold/%ED%A0%80")
    assert answer.json()["message"] == "no \ud800"
    assert [one.id for one in manager.daemon.heard] == ["\ufffd\ufffd\ufffd"]


@pytest.mark.parametrize(
    ("result", "status", "title"),
    [
        (Result.DONE, 200, None),
        (Result.ALREADY, 200, None),
        (Result.UNDER_WAY, 202, None),
        (Result.REFUSED, 409, "refused"),
        (Result.UNKNOWN, 404, "unknown id"),
        (Result.FAILED, 503, "not done"),
    ],
)
def test_each_result_has_its_status(
    result: Result, status: int, title: str | None, manager: Manager
) -> None:
    manager.daemon.reply = Reply(result, "so it is")
    answer = manager.post("/api/drain/i-1")
    assert answer.status_code == status
    told = answer.json()
    assert (told["result"], told["message"], told.get("title")) == (result, "so it is", title)
    assert told["done"] is (status == 200)


def test_a_refusal_has_reason_rule_and_measures_and_an_unknown_id_the_nearest(
    manager: Manager,
) -> None:
    measures = {"idle_s": 812.25049, "age_s": float("inf"), "nodes": ("i-1",), "state": None}
    manager.daemon.reply = Reply(
        Result.REFUSED, "no", reason=Reason.WITHIN_WINDOW, rule="C3", measures=measures
    )
    told = manager.post("/api/clean/r-1").json()
    assert (told["reason"], told["rule"]) == ("within_window", "C3")
    assert told["measures"] == {"idle_s": 812.25, "age_s": None, "nodes": ["i-1"], "state": None}
    manager.daemon.reply = Reply(Result.UNKNOWN, "no", nearest="i-1")
    assert manager.post("/api/drain/i-11").json()["nearest"] == "i-1"


def test_commands_are_posted(manager: Manager) -> None:
    assert manager.get("/api/pause", WITH_TOKEN).status_code == 405
    assert manager.daemon.heard == []


def test_before_the_daemon_runs_a_command_is_told_to_try_again() -> None:
    said = OperatorCommands().give(Command(Verb.PAUSE, "ann", "upgrade"))
    assert said.result is Result.FAILED
    assert "starting" in said.text


# What stands is shown.


def test_status_and_metrics_show_the_pause_and_the_orders(manager: Manager) -> None:
    mark = Mark("name-of-ann", 1_700_000_000.0, "name-of-reason")
    marks = Marks({"name-of-r": mark}, {"name-of-a": mark, "name-of-b": mark}, {}, {PAUSE: mark})
    hosts = {"name-of-b": "name-of-host"}
    manager.cycle(marks=marks, marked_at={PAUSE: 4.0}, hosts=hosts)

    shown = manager.get("/status.json")
    assert "name-of" not in shown.text
    assert shown.json()["orders"] == {"hold": 1, "cordon": 0, "drain": 2, "kill": 0}
    assert shown.json()["pause"]["paused"] is True
    told = manager.get("/status.json", WITH_TOKEN).json()
    who = {"by": "name-of-ann", "since": "2023-11-14T22:13:20.000Z", "reason": "name-of-reason"}
    assert {key: told["pause"][key] for key in who} == who
    assert {"kind": "drain", "id": "name-of-b", "host": "name-of-host", **who} in told["marks"]
    assert {"kind": "drain", "id": "name-of-a", "host": None, **who} in told["marks"]
    assert len(told["marks"]) == 3
    metrics = manager.get("/metrics").text
    assert "nodemanager_paused 1.0" in metrics
    assert 'nodemanager_orders{kind="drain"} 2.0' in metrics
    assert "name-of" not in metrics


def test_a_paused_daemon_is_healthy(manager: Manager) -> None:
    """Or systemd would restart it for having been told to stand still."""
    manager.cycle(marks=Marks(pool={PAUSE: Mark("a", 1)}))
    assert manager.get("/_health/ping", WITH_TOKEN).json() == {"health": "OK"}
    assert manager.get("/status.json").json()["pause"] == {"paused": True, "paused_s": None}
