"""What the commands to a running daemon ask before they do it, and how they are refused."""

from __future__ import annotations

import io
import json
from typing import Any

import pytest

from nodemanager.commands import operate, waiting
from nodemanager.commands.client import ClientError
from nodemanager.core.operate.verbs import Verb
from tests.commands.conftest import Typed

ROW = {
    "host": "compute2",
    "node": "i-\x1b[2J2",
    "record": "r2",
    "size": "small",
    "state": "busy",
    "age_s": 171.0,
    "orders": ["drain"],
}


class Daemon:
    def __init__(self) -> None:
        self.told: list[tuple[Verb, str | None]] = []
        self.ordered: list[str] = []
        self.listed: list[str] = []
        self.looks = self.plans = 0
        self.reason = "busy"
        self.reloaded: dict[str, Any] = {}

    def node(self, id: str) -> dict[str, Any]:
        if id != "compute2":
            raise ClientError(f"nothing goes by {id!r}")
        return ROW

    def order(self, verb: Verb, id: str | None = None, **more: Any) -> dict[str, Any]:
        self.told.append((verb, id))
        if id == "refused":
            title, message = "refused", "it is on hold"
            return {"done": False, "result": "refused", "title": title, "message": message}
        if verb is Verb.CLEAN:
            message = "its clean is under way"
            return {"done": False, "result": "under_way", "message": message, "record": id}
        message = f"{id} is being shut down"
        return {"done": True, "result": "done", "message": message, "node": id}

    def get(self, what: str, *id: str) -> dict[str, Any]:
        if what == "nodes":
            return self.node(*id) if id else self.nodes()
        assert what == "explain"
        return self.explained()

    def status(self, *, with_names: bool) -> dict[str, Any]:
        """Each time somebody looks, one order more is carried out."""
        assert with_names
        shown = {"marks": [{"kind": "drain", "id": id} for id in self.ordered]}
        self.ordered = self.ordered[1:]
        return shown

    def nodes(self) -> dict[str, Any]:
        self.plans += 1
        rows = [{"node": id, "reason": self.reason} for id in self.listed]
        if self.reason in waiting.GOING and self.plans > 3:
            rows = []
        return {"plan": f"p{self.plans}", "nodes": rows}

    def explained(self) -> dict[str, Any]:
        self.looks += 1
        return {"record": {"state": "cleaned" if self.looks > 1 else "stale"}}

    def post(self, *path: str) -> dict[str, Any]:
        assert path == ("reload",)
        return self.reloaded


@pytest.fixture
def daemon(monkeypatch: pytest.MonkeyPatch) -> Daemon:
    made = Daemon()
    monkeypatch.setattr(operate, "client", lambda config: made)
    return made


@pytest.fixture
def run(daemon: Daemon, typed: Typed, monkeypatch: pytest.MonkeyPatch) -> Typed:
    """Types a command that waits for nothing between two looks."""
    monkeypatch.setattr(waiting, "LOOK_EVERY_S", 0.0)
    return typed


@pytest.fixture
def kill(run: Typed) -> Typed:
    return lambda *words: run("kill", *words, "--reason", "it hangs")


def answers(monkeypatch: pytest.MonkeyPatch, typed: str) -> None:
    monkeypatch.setattr(operate, "_can_ask", lambda: True)
    monkeypatch.setattr("sys.stdin", io.StringIO(typed))


def test_a_kill_says_on_a_terminal_whom_it_is_about_and_kills_that_very_node(
    daemon: Daemon, monkeypatch: pytest.MonkeyPatch, kill: Typed
) -> None:
    """O3, X9."""
    answers(monkeypatch, "y\n")
    code, _, said = kill("compute2")
    assert code == 0
    assert "kill compute2 i-\\x1b[2J2 (small, busy, 2m 51s old, with a standing drain)?" in said
    assert "\x1b" not in said
    assert daemon.told == [(Verb.KILL, ROW["node"])]


@pytest.mark.parametrize("line", ["\n", "n\n", ""], ids=["return", "no", "end-of-file"])
def test_anything_but_yes_kills_nothing(
    daemon: Daemon, monkeypatch: pytest.MonkeyPatch, line: str, kill: Typed
) -> None:
    answers(monkeypatch, line)
    assert kill("compute2")[0] == 1
    assert daemon.told == []


def test_a_name_that_nobody_has_is_not_asked_about(
    daemon: Daemon, monkeypatch: pytest.MonkeyPatch, kill: Typed
) -> None:
    answers(monkeypatch, "y\n")
    assert kill("compute3")[0] == 1
    assert daemon.told == []


def test_where_nobody_can_be_asked_a_kill_needs_yes(daemon: Daemon, kill: Typed) -> None:
    code, _, said = kill("compute2")
    assert code == 2
    assert "give --yes" in said
    assert daemon.told == []
    assert kill("compute2", "--yes")[0] == 0
    assert daemon.told == [(Verb.KILL, "compute2")]


# Several at once, and waiting.


def test_several_ids_are_several_commands_and_one_refusal_fails_the_whole(
    daemon: Daemon, run: Typed
) -> None:
    assert run("cordon", "i-1", "i-2")[0] == 0
    assert daemon.told == [(Verb.CORDON, "i-1"), (Verb.CORDON, "i-2")]
    code, out, error = run("drain", "i-1", "refused", "i-3")
    assert code == 1
    assert daemon.told[-1] == (Verb.DRAIN, "i-3"), "the others are ordered all the same"
    assert "nodemanager: refused: it is on hold" in error
    assert out.splitlines()[-1] == "i-3 is being shut down"


def test_a_command_without_an_id_says_so(run: Typed) -> None:
    code, _, error = run("drain")
    assert code == 2
    assert "Missing argument 'NODE...'" in error


def test_json_is_an_answer_or_a_list_of_them(run: Typed) -> None:
    assert json.loads(run("hold", "i-1", "--json")[1])["node"] == "i-1"
    told = json.loads(run("hold", "i-1", "i-2", "--json")[1])
    assert [one["node"] for one in told] == ["i-1", "i-2"]


def test_several_kills_are_confirmed_once(
    daemon: Daemon, monkeypatch: pytest.MonkeyPatch, kill: Typed
) -> None:
    answers(monkeypatch, "y\n")
    code, _, said = kill("compute2", "compute2")
    assert (code, said.count("compute2 i-\\x1b[2J2")) == (0, 2)
    assert len(daemon.told) == 2


def test_a_drain_waits_until_each_node_is_gone(daemon: Daemon, run: Typed) -> None:
    daemon.ordered = ["i-1", "i-2"]
    code, _, said = run("drain", "i-1", "i-2", "--wait", "15m")
    assert (code, said.splitlines()) == (0, ["i-1 is gone", "i-2 is gone"])


def test_a_drain_that_somebody_undoes_is_not_waited_for_any_longer(
    daemon: Daemon, run: Typed
) -> None:
    daemon.ordered, daemon.listed = ["i-1"], ["i-1"]
    code, _, said = run("drain", "i-1", "--wait", "15m")
    assert code == 1
    assert "called off: i-1 is listed" in said


def test_a_node_that_an_old_listing_still_shows_is_waited_for(daemon: Daemon, run: Typed) -> None:
    daemon.listed, daemon.reason = ["i-1"], "changed_since_listing"
    code, _, said = run("drain", "i-1", "--wait", "15m")
    assert (code, said, daemon.plans) == (0, "i-1 is gone\n", 4)


def test_waiting_ends_in_time_and_names_what_is_left(
    daemon: Daemon, monkeypatch: pytest.MonkeyPatch, run: Typed
) -> None:
    stands = {"marks": [{"kind": "drain", "id": "i-1"}]}
    monkeypatch.setattr(daemon, "status", lambda *, with_names: stands)
    code, _, said = run("drain", "i-1", "--wait", "0.05")
    assert code == 1
    assert "not done within 0.05 s: i-1; the order stands" in said


def test_ctrl_c_ends_the_waiting_and_says_that_the_order_stands(
    daemon: Daemon, monkeypatch: pytest.MonkeyPatch, run: Typed
) -> None:
    def interrupted(*, with_names: bool) -> dict[str, Any]:
        raise KeyboardInterrupt

    monkeypatch.setattr(daemon, "status", interrupted)
    code, _, told = run("drain", "i-1", "--wait", "15m")
    assert code == 1
    assert "not done until Ctrl-C: i-1; the order stands" in told
    assert "Aborted" not in told


@pytest.mark.parametrize("asked", [(), ("--json",)], ids=["text", "json"])
def test_what_was_ordered_before_the_daemon_went_is_told(
    daemon: Daemon, monkeypatch: pytest.MonkeyPatch, asked: tuple[str, ...], run: Typed
) -> None:
    orders = daemon.order

    def order(verb: Verb, id: str | None = None, **more: Any) -> dict[str, Any]:
        if id == "i-3":
            raise ClientError("the daemon is gone")
        return orders(verb, id, **more)

    monkeypatch.setattr(daemon, "order", order)
    code, out, error = run("drain", "i-1", "i-2", "i-3", *asked)
    assert code == 1
    if asked:
        told = [one["node"] for one in json.loads(out)]
    else:
        told = [line.split()[0] for line in out.splitlines()]
    assert told == ["i-1", "i-2"]
    assert "the daemon is gone" in error


def test_a_clean_that_is_under_way_is_waited_for(daemon: Daemon, run: Typed) -> None:
    assert run("clean", "r1")[0] == 0
    assert daemon.looks == 0
    code, _, said = run("clean", "r1", "--wait", "15m")
    assert (code, daemon.looks) == (0, 2)
    assert "r1 is clean" in said


def test_a_reload_shows_what_applies_and_what_waits_for_a_restart(
    daemon: Daemon, run: Typed
) -> None:
    limit = {"option": "[Daemon] max_nodes", "old": "3", "new": "5", "applied": True}
    port = {"option": "[Manage] port", "old": None, "new": "8990", "applied": False}
    daemon.reloaded = {"done": True, "problems": [], "changes": [limit, port]}
    code, out, _ = run("reload")
    assert code == 0
    assert out.splitlines() == [
        "[Daemon] max_nodes: 3 -> 5",
        "[Manage] port: unset -> 8990  (needs a restart)",
    ]
    daemon.reloaded = {"done": True, "problems": [], "changes": []}
    assert run("reload")[1] == "nothing changed\n"
    daemon.reloaded = {"done": False, "problems": ["pool.cfg:2: wrong"], "changes": []}
    assert run("reload") == (2, "", "pool.cfg:2: wrong\n")
