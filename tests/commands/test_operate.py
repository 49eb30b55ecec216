"""What the commands to a running daemon ask before they do it, and how they are refused."""

from __future__ import annotations

import io
from typing import Any

import pytest

from nodemanager import cli
from nodemanager.client import ClientError
from nodemanager.commands import operate
from nodemanager.core.operate.verbs import Verb

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

    def node(self, id: str) -> dict[str, Any]:
        if id != "compute2":
            raise ClientError(f"nothing goes by {id!r}")
        return ROW

    def order(self, verb: Verb, id: str | None = None, **more: Any) -> dict[str, Any]:
        self.told.append((verb, id))
        return {"done": True, "result": "done", "message": f"{id} is being shut down"}


@pytest.fixture
def daemon(monkeypatch: pytest.MonkeyPatch) -> Daemon:
    made = Daemon()
    monkeypatch.setattr(operate, "client", lambda config: made)
    return made


def kill(*words: str) -> int:
    try:
        cli.main(["kill", *words, "--reason", "it hangs"])
    except SystemExit as end:
        return int(end.code or 0)
    return 0


def answers(monkeypatch: pytest.MonkeyPatch, typed: str) -> None:
    monkeypatch.setattr(operate, "_can_ask", lambda: True)
    monkeypatch.setattr("sys.stdin", io.StringIO(typed))


def test_a_kill_says_on_a_terminal_whom_it_is_about_and_kills_that_very_node(
    daemon: Daemon, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """O3, X9."""
    answers(monkeypatch, "y\n")
    assert kill("compute2") == 0
    said = capsys.readouterr().err
    assert "kill compute2 i-\\x1b[2J2 (small, busy, 2m 51s old, with a standing drain)?" in said
    assert "\x1b" not in said
    assert daemon.told == [(Verb.KILL, ROW["node"])]


@pytest.mark.parametrize("typed", ["\n", "n\n", ""], ids=["return", "no", "end-of-file"])
def test_anything_but_yes_kills_nothing(
    daemon: Daemon, monkeypatch: pytest.MonkeyPatch, typed: str
) -> None:
    answers(monkeypatch, typed)
    assert kill("compute2") == 1
    assert daemon.told == []


def test_a_name_that_nobody_has_is_not_asked_about(
    daemon: Daemon, monkeypatch: pytest.MonkeyPatch
) -> None:
    answers(monkeypatch, "y\n")
    assert kill("compute3") == 1
    assert daemon.told == []


def test_where_nobody_can_be_asked_a_kill_needs_yes(
    daemon: Daemon, capsys: pytest.CaptureFixture[str]
) -> None:
    assert kill("compute2") == 2
    assert "give --yes" in capsys.readouterr().err
    assert daemon.told == []
    assert kill("compute2", "--yes") == 0
    assert daemon.told == [(Verb.KILL, "compute2")]
