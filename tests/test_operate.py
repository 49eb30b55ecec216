"""The operators' commands as typed: what they print, what they refuse, and with what they exit."""

from __future__ import annotations

import getpass
import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from nodemanager.core.model.annotations import FORCIBLE, Mark
from nodemanager.core.model.reasons import Reason
from nodemanager.core.operate.replies import Command, Reply, Result
from nodemanager.core.operate.verbs import Verb
from nodemanager.lib import control
from tests.cases import cases
from tests.commands.test_cli import invoke
from tests.web.manager import TOKEN, Manager

pytestmark = pytest.mark.socket

MARK = Mark("ann", 1_700_000_000.0, "I am logged in")
ME = getpass.getuser()


class Served(Manager):
    """A daemon that answers what the test wants, and its configuration."""

    def __init__(self, directory: Path) -> None:
        super().__init__(control_socket=directory / "state" / control.NAME)
        self.heard = self.daemon.heard
        self.daemon.reply = Reply(Result.DONE, "i-1 is so")
        (directory / "state").mkdir(mode=0o700)
        self.server.start()
        self.config = directory / "pool.cfg"
        self.config.write_text(
            f"[Daemon]\nmax_nodes = 3\nstate_dir = {directory}/state\n[Cloud]\nprovider = dummy\n"
            f"[Manage]\nport = {self.server.port}\nManagementToken = {TOKEN}\n",
            encoding="utf-8",
        )

    def types(self, *words: str) -> tuple[int, str, str]:
        done = invoke(*words, "--config", self.config)
        return done.exit_code, done.stdout, done.stderr


@pytest.fixture
def served(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Served]:
    monkeypatch.delenv("NODEMANAGER_CONFIG", raising=False)
    made = Served(tmp_path)
    yield made
    made.server.stop()


@cases(
    ("words", "command"),
    {
        "hold": ("hold i-1 --reason why", Command(Verb.HOLD, ME, "why", "i-1")),
        "unlisted": ("hold i-1 --unlisted", Command(Verb.HOLD, ME, "", "i-1", unlisted=True)),
        "release": ("release i-1", Command(Verb.RELEASE, ME, "", "i-1")),
        "drain": ("drain i-1", Command(Verb.DRAIN, ME, "", "i-1")),
        "undrain": ("undrain i-1", Command(Verb.RUN, ME, "", "i-1")),
        "kill": ("kill i-1 --yes --reason why", Command(Verb.KILL, ME, "why", "i-1")),
        "clean": ("clean r-1", Command(Verb.CLEAN, ME, "", "r-1")),
        "forced-clean": (
            "clean r-1 --force C3 --force C2 --reason why",
            Command(Verb.CLEAN, ME, "why", "r-1", forced=("C3", "C2")),
        ),
        "pause": ("pause --reason why", Command(Verb.PAUSE, ME, "why")),
        "resume": ("resume", Command(Verb.RESUME, ME)),
        "breaker-reset": ("breaker reset", Command(Verb.BREAKER_RESET, ME)),
        "an-id-that-is-a-path": ("hold a/b?c", Command(Verb.HOLD, ME, "", "a/b?c")),
    },
)
def test_what_is_typed_is_what_the_daemon_hears(
    words: str, command: Command, served: Served
) -> None:
    code, out, err = served.types(*words.split())
    assert (code, err) == (0, "")
    assert out.startswith("i-1 is so")
    assert served.heard == [command]


@cases(
    ("words", "says"),
    {
        "kill": ("kill i-1", "--reason"),
        "pause": ("pause", "--reason"),
        "forced-clean": ("clean r-1 --force C3", "--reason"),
    },
)
def test_without_a_needed_reason_it_is_a_usage_error_and_nothing_is_sent(
    words: str, says: str, served: Served
) -> None:
    code, out, err = served.types(*words.split())
    assert (code, out) == (2, "")
    assert says in err
    assert served.heard == []


@pytest.mark.parametrize("result", [Result.REFUSED, Result.UNKNOWN, Result.FAILED])
def test_what_was_not_done_is_told_on_stderr_and_exits_1(result: Result, served: Served) -> None:
    served.daemon.reply = Reply(result, "held (C9)")
    code, out, err = served.types("drain", "i-1")
    assert (code, out) == (1, "")
    assert err.startswith("nodemanager: ")
    assert err.endswith(": held (C9)\n")


@pytest.mark.parametrize("result", [Result.ALREADY, Result.UNDER_WAY])
def test_what_needs_no_doing_or_goes_on_exits_0(result: Result, served: Served) -> None:
    served.daemon.reply = Reply(result, "i-1 is draining already, by ann")
    assert served.types("drain", "i-1") == (0, "i-1 is draining already, by ann\n", "")


def test_what_the_daemon_says_can_move_no_cursor(served: Served) -> None:
    served.daemon.reply = Reply(Result.ALREADY, "on hold: \x1b[2Jgone\u202e")
    _, out, _ = served.types("hold", "i-1")
    assert out == "on hold: \\x1b[2Jgone\\u202e\n"


@pytest.mark.parametrize(
    ("reply", "code"),
    [
        (Reply(Result.DONE, "it is", node="i-1"), 0),
        (Reply(Result.REFUSED, "no", reason=Reason.HELD, rule="C9"), 1),
    ],
    ids=["done", "refused"],
)
def test_as_json_it_prints_the_daemon_s_answer(reply: Reply, code: int, served: Served) -> None:
    served.daemon.reply = reply
    done, out, err = served.types("drain", "i-1", "--json")
    assert (done, err) == (code, "")
    told = json.loads(out)
    assert told["result"] == reply.result
    assert told.get("rule") == reply.rule


def test_the_help_of_clean_lists_what_may_be_broken_and_what_never(served: Served) -> None:
    text = invoke("clean", "--help").stdout
    for rule in FORCIBLE:
        assert f"  {rule} " in text
    for never in ("C4", "C11", "C12"):
        assert never in text


def test_a_path_that_is_not_there_is_no_node_to_run(tmp_path: Path) -> None:
    done = invoke("run", tmp_path / "missing.cfg")
    assert done.exit_code == 2
    assert "missing.cfg" in done.stderr


def test_without_a_daemon_it_says_how_to_start_one(served: Served) -> None:
    served.server.stop()
    code, _, err = served.types("drain", "i-1")
    assert code == 1
    assert "nodemanager run --config" in err
