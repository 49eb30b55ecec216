"""What the live tests start and ask: the daemon and the registry as processes, their log, HTTP.

Every wait polls with a deadline, says what it waited for, and shows the log's last lines when that
never came.
"""

from __future__ import annotations

import os
import random
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
import requests

from tests.forked import Forked, start
from tests.waiting import DEADLINE_S, until

TREE = Path(__file__).parents[2]
PING_SCRIPT = TREE / "etc/node/nodemanager-ping"
STOP_S = 10.0
"""An orderly end takes no longer (DESIGN.md, command line)."""
TAIL = 40

_FIELD = re.compile(r'([A-Za-z0-9_.-]+)=("(?:[^"\\]|\\.)*"|\S*)')
_ESCAPE = re.compile(r"\\(x[0-9a-f]{2}|u[0-9a-f]{4}|U[0-9a-f]{8}|.)")
_SHORT = {"n": "\n", "r": "\r", "t": "\t"}
_NOT_INHERITED = re.compile(
    r"(AWS_.*|NODEMANAGER_.*|PYTEST_.*|.*_proxy|.*_PROXY|NOTIFY_SOCKET|JOURNAL_STREAM"
    r"|WATCHDOG_.*|STATE_DIRECTORY)"
)

Wanted = object
"""A value to equal as text, or a function of the text (None where the key is absent)."""


class Line(dict[str, str]):
    """One line of the log by its keys; `number` is its place, from 0."""

    def __init__(self, fields: Mapping[str, str], number: int) -> None:
        super().__init__(fields)
        self.number = number

    def says(self, event: str | None, wanted: Mapping[str, Wanted]) -> bool:
        if event is not None and self.get("event") != event:
            return False
        return all(
            wish(self.get(key)) if callable(wish) else self.get(key) == str(wish)
            for key, wish in wanted.items()
        )


def parse_logfmt(text: str) -> dict[str, str]:
    """The keys and values of one line, as nodemanager.lib.logline writes them."""

    def plain(escape: re.Match[str]) -> str:
        code = escape[1]
        if len(code) > 1:
            return chr(int(code[1:], 16))
        return _SHORT.get(code, code)

    fields = {}
    for key, value in _FIELD.findall(text):
        fields[key] = _ESCAPE.sub(plain, value[1:-1]) if value.startswith('"') else value
    return fields


def free_port() -> int:
    """Below the ports that outgoing connections get: one of those would take it meanwhile."""
    for port in random.sample(range(10_000, 30_000), 100):
        with socket.socket() as probe, suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return port
    pytest.fail("no free port", pytrace=False)


def environment(**more: str) -> dict[str, str]:
    """This process' environment, without what could lead a daemon astray.

    Another thread may change it meanwhile: pytest does so between two tests.
    """
    found = {key: os.environ.get(key) for key in os.environ if not _NOT_INHERITED.fullmatch(key)}
    kept = {key: value for key, value in found.items() if value is not None}
    return {**kept, "PYTHONPATH": str(TREE), "PYTHONUNBUFFERED": "1", **more}


def write_config(path: Path, sections: Mapping[str, Mapping[str, object]]) -> Path:
    """An INI file of those sections."""
    text = "\n".join(
        "\n".join((f"[{name}]", *(f"{key} = {value}" for key, value in options.items()), ""))
        for name, options in sections.items()
    )
    path.write_text(text, encoding="utf-8")
    path.chmod(0o600)
    return path


class Daemon:
    """`nodemanager COMMAND --config FILE` as a process, and what it says.

    Its output goes to a file of its own, so that it can be read after a kill -9, too.
    """

    def __init__(
        self,
        config: Path,
        state: Path,
        *arguments: str,
        command: str = "run",
        log: Path,
        module: str = "nodemanager",
        told: Mapping[str, str] | None = None,
        files: int | None = None,
        patience_s: float = DEADLINE_S,
    ) -> None:
        """`told` is added to its environment; `files` is how many descriptors it may have.

        It is a fork of a process that has imported the program, unless it is told of a library to
        load before all others.
        """
        self.log = log
        self.command = command
        self._patience_s = patience_s
        self._lines: list[Line] = []
        self._read = 0
        with open(log, "wb") as output:
            words = (command, "--config", str(config), *arguments)
            env = environment(STATE_DIRECTORY=str(state), **(told or {}))
            self.process: subprocess.Popen[bytes] | Forked
            if "LD_PRELOAD" in env:
                self.process = subprocess.Popen(
                    [sys.executable, "-m", module, *words],
                    stdin=subprocess.DEVNULL,
                    stdout=output,
                    stderr=output,
                    cwd=log.parent,
                    env=env,
                    start_new_session=True,
                )
            else:
                self.process = start(
                    *words, module=module, env=env, cwd=log.parent, output=output, files=files
                )

    @property
    def running(self) -> bool:
        return self.process.poll() is None

    # What it said.

    def lines(
        self, event: str | None = None, *, after: Line | None = None, **wanted: Wanted
    ) -> list[Line]:
        """The lines so far, of that event and with those fields, behind `after`."""
        self._read_on()
        begin = 0 if after is None else after.number + 1
        return [line for line in self._lines[begin:] if line.says(event, wanted)]

    def wait_for(
        self,
        event: str,
        *,
        after: Line | None = None,
        within: float | None = None,
        count: int = 1,
        **wanted: Wanted,
    ) -> Line:
        """The first such line, or the `count`th; `within` is in place of its own patience."""

        def found() -> list[Line]:
            ended = not self.running
            lines = self.lines(event, after=after, **wanted)
            if len(lines) < count and ended:
                pytest.fail(f"it ended before {what}\n{self.told()}", pytrace=False)
            return lines if len(lines) >= count else []

        shown = {k: "(a condition)" if callable(v) else v for k, v in wanted.items()}
        what = f"{count} x event={event} {shown}" + (f" after line {after.number}" if after else "")
        return until(what, found, within or self._patience_s, told=self.told)[count - 1]

    def last(self) -> Line | None:
        """The newest line: what comes `after` it is news."""
        self._read_on()
        return self._lines[-1] if self._lines else None

    def told(self) -> str:
        """Whether it runs, and the last lines of its log."""
        code = self.process.poll()
        how = "runs" if code is None else f"ended with {code}"
        tail = self.log.read_text(encoding="utf-8", errors="replace").splitlines()[-TAIL:]
        return "\n".join((f"{self.log.name}: pid {self.process.pid} {how}; it said last:", *tail))

    def _read_on(self) -> None:
        with open(self.log, "rb") as file:
            file.seek(self._read)
            new = file.read()
        whole = new[: new.rfind(b"\n") + 1]
        self._read += len(whole)
        for text in whole.decode("utf-8", "replace").splitlines():
            self._lines.append(Line(parse_logfmt(text), len(self._lines)))

    def url_of(self, server: str) -> str:
        """Where one of its HTTP faces listens: `registry` or `management`."""
        return self.wait_for("server.started", name=server)["url"]

    # What is done to it.

    def signal(self, number: signal.Signals) -> None:
        self.process.send_signal(number)

    def reload(self, outcome: str = "applied") -> Line:
        """SIGHUP, and its line about it."""
        before = self.last()
        self.signal(signal.SIGHUP)
        return self.wait_for(
            "daemon.reloaded",
            after=before,
            outcome=lambda said: said is not None and outcome in said,
        )

    def ended(self, within: float = DEADLINE_S) -> int:
        """Its exit code, once it has ended by itself."""
        until("it to end", lambda: not self.running, within, told=self.told)
        return int(self.process.returncode)

    def terminate(self) -> int:
        """SIGTERM, and the exit code; fails when that takes longer than it may."""
        self.signal(signal.SIGTERM)
        return self.ended(STOP_S)

    def kill(self) -> None:
        """kill -9."""
        self.process.kill()
        self.process.wait(DEADLINE_S)


class Registry:
    """The registry over HTTP, as an administrator's client sees it."""

    def __init__(self, url: str, token: str) -> None:
        self.url = url
        self._session = requests.Session()
        self._session.trust_env = False
        self._session.headers["Authorization"] = f"OAuth2 {token}"

    def rows(self) -> dict[str, dict[str, Any]]:
        """Every record by its uuid."""
        items = self._asked("GET", "nodes", params={"limit": 1000})["items"]
        return {row["uuid"]: row for row in items}

    def row(self, uuid: str) -> dict[str, Any]:
        return self._asked("GET", f"nodes/{uuid}")

    def create(self, **attributes: Any) -> dict[str, Any]:
        return self._asked("POST", "nodes", json={"node": attributes})

    def delete(self, uuid: str) -> None:
        self._asked("DELETE", f"nodes/{uuid}")

    def states(self) -> dict[str, str]:
        """What the node of each record said last that it does."""
        return {uuid: str(row["info"].get("worker_state")) for uuid, row in self.rows().items()}

    def _asked(self, method: str, path: str, **how: Any) -> Any:
        answer = self._session.request(method, f"{self.url}/arvados/v1/{path}", timeout=10, **how)
        assert answer.ok, f"{method} {path}: {answer.status_code} {answer.text}"
        return answer.json()


def claim_of(row: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """The claim on a record as it stands in its properties (U4)."""
    found: Mapping[str, Any] | None = row["properties"].get("nodemanager_claim")
    return found


@contextmanager
def frozen(group: int) -> Iterator[None]:
    """That process group does nothing meanwhile."""
    os.killpg(group, signal.SIGSTOP)
    try:
        yield
    finally:
        os.killpg(group, signal.SIGCONT)


def end_all(daemons: Sequence[Daemon]) -> None:
    """No process outlives its test."""
    for daemon in daemons:
        if daemon.running:
            daemon.process.kill()
    for daemon in daemons:
        daemon.process.wait(DEADLINE_S)
