"""`nodemanager verify`: when it looks again, when it ends, with which code, and what it shows."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

import pytest

from nodemanager.commands import verify as command
from nodemanager.commands.client import ClientError
from nodemanager.commands.verify import FIRST_S, attempt
from nodemanager.core.explain.verify import NO_DECISION, verify
from nodemanager.journal.explained import plain
from tests.cases import cases
from tests.commands.conftest import Typed
from tests.core.build import World
from tests.core.explain.test_verify import booting, empty, pool, refused_as_wrong
from tests.core.explain.test_verify import look as look_at
from tests.web.manager import decision_on


def shown(made: World, *, allow_empty: bool = False) -> dict[str, Any]:
    """What the daemon answers of that world's newest decision."""
    told = verify(decision_on(made), made.now, allow_empty=allow_empty)
    answer: dict[str, Any] = json.loads(json.dumps(plain(told)))
    return answer


def boots() -> dict[str, Any]:
    made = pool()
    booting(made)
    return shown(made)


def broken() -> dict[str, Any]:
    made = pool()
    refused_as_wrong(made)
    return shown(made)


@dataclass
class Daemon:
    """Gives those answers in turn, the last one for ever; each takes `took_s` seconds.

    It is the clock, too. Like the client, it fails an answer that takes longer than it may.
    """

    answers: list[dict[str, Any] | ClientError]
    took_s: float = 0.1
    now: float = 1000.0
    asked_at: list[float] = field(default_factory=list)
    limits: list[float] = field(default_factory=list)

    def get(self, what: str, *, allow_empty: bool, within_s: float) -> dict[str, Any]:
        assert what == "verify"
        self.asked_at.append(self.now - 1000.0)
        self.limits.append(within_s)
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        self.now += min(self.took_s, within_s)
        if self.took_s > within_s:
            raise ClientError("unix:/x: TimeoutError")
        if isinstance(answer, ClientError):
            raise answer
        return answer

    def clock(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        assert seconds >= 0
        self.now += seconds


def look(daemon: Daemon, wait_s: float = 60.0, interval_s: float = 5.0) -> command.VerifyResult:
    return attempt(daemon, wait_s, interval_s, clock=daemon.clock, sleep=daemon.sleep)


def test_a_settled_pool_is_looked_at_once() -> None:
    daemon = Daemon([shown(pool())])
    told = look(daemon)
    assert (told.code, told.attempts, told.error) == (0, 1, None)


def test_a_settling_pool_is_looked_at_until_it_has_settled() -> None:
    daemon = Daemon([plain(NO_DECISION), boots(), boots(), shown(pool())])
    told = look(daemon)
    assert (told.code, told.attempts) == (0, 4)
    assert daemon.asked_at == pytest.approx([0.0, 5.1, 10.2, 15.3])


def test_a_pool_whose_first_node_is_still_to_come_is_told_in_numbers_too() -> None:
    """No node is listed, not even another pool's."""
    made = pool(nodes=0)
    look_at(made)
    wanted = {"open": [{"id": None, "reason": "wanted"}]}
    line = command._line(shown(made, allow_empty=True) | wanted)
    assert line == "0 up, 0 settling, 0 stuck; pool wanted"


def test_in_a_pipe_only_an_attempt_that_says_something_else_is_a_line(
    capsys: pytest.CaptureFixture[str],
) -> None:
    made = pool(nodes=0)
    look_at(made)
    first = shown(made, allow_empty=True) | {"open": [{"id": None, "reason": "wanted"}]}
    other = first | {"open": [{"id": "i-1", "reason": "booting"}]}
    with command.progress() as tell:
        for waited_s, one in enumerate((first, first, other, other, first)):
            tell(one, float(waited_s))
    told = [line.partition(":")[0] for line in capsys.readouterr().err.splitlines()]
    assert told == ["0s", "2s", "4s"]


def test_what_waiting_can_not_mend_ends_it_at_once() -> None:
    daemon = Daemon([boots(), broken(), shown(pool())])
    told = look(daemon)
    assert (told.code, told.attempts) == (3, 2)
    assert told.snapshot is not None
    assert told.snapshot["open"][0]["reason"] == "size_rests"


@pytest.mark.parametrize("took_s", [0.1, 4.0, 20.0])
def test_it_ends_by_the_clock_however_slow_the_answers_are(took_s: float) -> None:
    daemon = Daemon([boots()], took_s=took_s)
    told = look(daemon)
    assert told.code == 4
    assert 54.0 < told.waited_s <= 60.0
    assert told.snapshot is not None
    assert told.snapshot["open"][0]["id"] == "i-r9"


def test_the_last_look_is_right_before_the_deadline() -> None:
    daemon = Daemon([boots()])
    look(daemon, 12.0)
    assert daemon.asked_at == pytest.approx([0.0, 5.1, 10.2, 11.0])


def test_without_a_wait_it_looks_once_and_still_gives_the_answer_time() -> None:
    daemon = Daemon([boots()], took_s=3.0)
    told = look(daemon, 0.0)
    assert (told.code, told.attempts, daemon.limits) == (4, 1, [FIRST_S])


@pytest.mark.parametrize("before", [0, 2])
def test_an_error_of_the_api_fails_it_at_once_whenever_it_comes(before: int) -> None:
    daemon = Daemon([*[boots()] * before, ClientError("no daemon answers"), shown(pool())])
    told = look(daemon)
    assert (told.code, told.attempts, told.error) == (1, before + 1, "no daemon answers")
    assert (told.snapshot is None) == (before == 0)


@cases(
    "answer",
    {
        "another-program": {},
        "another-version": {"outlook": "splendid", "open": []},
        "a-part": {"outlook": "settled"},
        "settled-with-an-offender": {**boots(), "outlook": "settled"},
        "settling-with-none": {**boots(), "open": []},
    },
)
def test_an_answer_that_can_not_be_is_an_error_and_not_a_pass(answer: dict[str, Any]) -> None:
    told = look(Daemon([answer]))
    assert (told.code, told.attempts) == (1, 1)
    assert told.error is not None


# What it shows.


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, typed: Typed) -> Typed:
    def words(daemon: Daemon, *given: str) -> tuple[int, str, str]:
        monkeypatch.setattr(command, "client", lambda config: daemon)
        monkeypatch.setattr("time.sleep", daemon.sleep)
        return typed("verify", *given)

    return words


def test_in_a_pipe_each_attempt_is_a_line_and_the_end_names_the_offenders(run: Typed) -> None:
    code, out, err = run(Daemon([boots(), broken()]), "--interval", "0.2")
    assert code == 3
    assert err == "0s: 2 up, 1 settling, 0 stuck; i-r9 booting\n"
    heading, nodes, *_ = out.splitlines()
    assert heading.startswith("stuck     pool main  apply  plan p, 0s old, after ")
    assert heading.endswith("2 attempts")
    assert nodes == "nodes     2 up, 0 settling, 0 stuck"
    offender = out.splitlines()[-1].split()
    assert offender[:6] == ["stuck", "boot", "small", "-", "-", "size_rests"]
    assert "The cloud refused this size lately" in out
    assert "\x1b" not in out + err


def test_a_settled_pool_is_shown_in_numbers_alone(run: Typed) -> None:
    code, out, err = run(Daemon([shown(pool())]))
    assert (code, err) == (0, "")
    assert out.splitlines()[1:] == [
        "nodes     2 up, 0 settling, 0 stuck",
        "slots     2 held of 8, 0 leaked",
    ]


def test_json_has_the_last_snapshot_and_how_it_ended(run: Typed) -> None:
    code, out, _ = run(Daemon([boots(), broken()]), "--interval", "0.2", "--json")
    told = json.loads(out)
    assert code == 3
    assert told.keys() == {
        *("verified", "exit_code", "attempts", "waited_s", "error"),
        "snapshot",
    }
    assert (told["verified"], told["exit_code"], told["attempts"]) == (False, 3, 2)
    assert told["error"] is None
    assert told["snapshot"] == json.loads(json.dumps(broken()))
    assert told["snapshot"]["open"][0].keys() == {
        *("what", "outlook", "reason", "id", "host", "slot", "count", "measures"),
    }


def test_a_dead_daemon_is_an_error_and_json_says_so_too(run: Typed) -> None:
    dead = ClientError("no daemon answers at unix:/x")
    code, out, err = run(Daemon([dead]))
    assert (code, out, err) == (1, "", "nodemanager: no daemon answers at unix:/x\n")
    code, out, _ = run(Daemon([dead]), "--json")
    told = json.loads(out)
    assert (code, told["error"], told["snapshot"]) == (1, "no daemon answers at unix:/x", None)


def test_an_empty_pool_says_how_to_allow_it(run: Typed) -> None:
    code, out, _ = run(Daemon([shown(empty())]))
    assert code == 3
    assert "pool_empty" in out
    assert "--allow-empty" in out
    assert run(Daemon([shown(empty(), allow_empty=True)]))[0] == 0


@pytest.mark.parametrize("given", ["--wait=-1", "--wait=soon", "--interval=0"])
def test_a_wrong_time_is_wrong_usage(run: Typed, given: str) -> None:
    code, _, err = run(Daemon([shown(pool())]), given)
    assert code == 2
    assert "duration" in err


def test_names_from_a_cloud_can_not_move_the_cursor(run: Typed) -> None:
    evil = boots()
    evil["open"][0]["id"] = "\x1b[2Jevil"
    code, out, err = run(Daemon([evil]), "--wait", "0")
    assert code == 4
    assert "\x1b" not in out + err
