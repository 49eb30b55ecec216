"""The daemon as a process: signals, supervision, and how it ends."""

from __future__ import annotations

import os
import re
import shlex
import signal
import socket
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO

import pytest
import requests

from tests import forked
from tests.forked import Forked
from tests.live.harness import free_port
from tests.waiting import until

pytestmark = pytest.mark.slow

WITHIN_S = 30.0
FILE = """\
[Daemon]
state_dir = {directory}/state
poll_time = 1
max_poll_time = 2
poll_stale_after = 10
node_stale_after = 60
max_nodes = 2
min_nodes = {min_nodes}
[Manage]
port = {port}
[Cloud]
provider = dummy
[Registry]
slots = 4
listen = 127.0.0.1:0
[Cleaning]
settle = 1
{more}
"""

Line = dict[str, str]
Environ = Mapping[str, str]
Python = Sequence[str]
PROGRAM = ("-m", "nodemanager")
"""As systemd's unit executes it."""


class Daemon:
    """A daemon process and the lines it wrote so far.

    A fork of a process that has imported the program; `python ARGUMENTS` where those are given.
    """

    def __init__(self, *words: str, environ: Environ | None = None, python: Python = ()) -> None:
        env = {**os.environ, "PYTHONPATH": os.getcwd(), **(environ or {})}
        self.process: subprocess.Popen[str] | Forked
        self._said: IO[str] | None
        if python:
            self.process = subprocess.Popen(
                [sys.executable, *python, *words],
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                env=env,
            )
            self._said = self.process.stdout
        else:
            self.process, self._said = forked.piped(*words, env=env)
        self.raw: list[str] = []
        self._news = threading.Condition()
        self._ended = False
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self._said is not None
        with self._said:
            for line in self._said:
                with self._news:
                    self.raw.append(line.rstrip("\n"))
                    self._news.notify_all()
        with self._news:
            self._ended = True
            self._news.notify_all()

    @property
    def lines(self) -> list[Line]:
        return [fields(line) for line in list(self.raw)]

    def waits_for(self, event: str, *, count: int = 1, **wanted: str) -> Line:
        """The line, once the process wrote that many of them; fails when it never does."""

        def found() -> list[Line]:
            return [
                line
                for line in self.lines
                if line.get("event") == event
                and all(line.get(key) == value for key, value in wanted.items())
            ]

        with self._news:
            self._news.wait_for(lambda: len(found()) >= count or self._ended, WITHIN_S)
        lines = found()
        assert len(lines) >= count, f"no {event} {wanted} in:\n" + "\n".join(self.raw)
        return lines[count - 1]

    def send(self, number: signal.Signals) -> None:
        self.process.send_signal(number)

    def ends(self, within: float = WITHIN_S) -> int:
        code = self.process.wait(within)
        self._reader.join(within)
        return code

    def kill(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait(10)
        self._reader.join(10)


def fields(line: str) -> Line:
    """A logfmt line's fields."""
    try:
        return dict(word.split("=", 1) for word in shlex.split(line) if "=" in word)
    except ValueError:
        return {}


@pytest.fixture
def write(tmp_path: Path) -> Callable[..., Path]:
    def written(
        *, port: int | str = -1, min_nodes: int | str = 0, more: str = "", name: str = "demo.cfg"
    ) -> Path:
        path = tmp_path / name
        text = FILE.format(directory=tmp_path, port=port, min_nodes=min_nodes, more=more)
        path.write_text(text, encoding="utf-8")
        return path

    return written


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[..., Daemon]]:
    started: list[Daemon] = []

    def daemon(*words: str | Path, python: Python = (), **environ: str) -> Daemon:
        made = Daemon(*map(str, words), environ=environ, python=python)
        started.append(made)
        return made

    yield daemon
    for one in started:
        one.kill()


Start = Callable[..., Daemon]
Write = Callable[..., Path]


def code_of(script: str) -> list[str]:
    """Words that run the daemon after a few lines of our own: a fault to be watched."""
    return ["-c", textwrap.dedent(script) + "\nfrom nodemanager.cli import main\nmain()"]


def test_it_says_what_it_runs_with_first_shows_no_secret_and_stops_clean_and_soon(
    write: Write, start: Start, tmp_path: Path
) -> None:
    path = write(min_nodes=1, port=0)
    daemon = start("--config", path, python=PROGRAM)
    daemon.waits_for("node.created")
    daemon.waits_for("cycle.done")
    began = time.monotonic()
    daemon.send(signal.SIGTERM)
    assert daemon.ends() == 0
    assert time.monotonic() - began < 10
    lines = daemon.lines
    events = [line["event"] for line in lines]
    assert events[0] == "lease.acquired"
    assert events.index("daemon.started") < events.index("list.ok")
    started, last = lines[events.index("daemon.started")], lines[-1]
    assert started["file"] == str(path)
    assert (started["pool"], started["node_stale_after_s"]) == ("demo", "60")
    assert (last["event"], last["reason"], last["code"]) == ("daemon.stopped", "SIGTERM", "0")
    assert not [line for line in lines if line.get("level") in ("warning", "error")]
    text = "\n".join(daemon.raw)
    for file in (tmp_path / "state").glob("*.token"):
        assert file.read_text(encoding="ascii").strip() not in text
    assert not re.search(r"ping_secret=(?!\*\*\*)", text)


def test_a_reload_of_a_wrong_file_changes_nothing_and_names_every_problem(
    write: Write, start: Start
) -> None:
    daemon = start("--config", write())
    daemon.waits_for("cycle.done")
    write(min_nodes="some", more="[Sise]\n")
    daemon.send(signal.SIGHUP)
    refused = daemon.waits_for("daemon.reloaded", level="error")
    assert "refused" in refused["outcome"]
    problems = " ".join(
        line["message"]
        for line in daemon.lines
        if line.get("level") == "error" and "message" in line
    )
    assert "[Daemon] min_nodes = some" in problems
    assert "[Sise]" in problems
    assert daemon.process.poll() is None
    write(min_nodes=1)
    daemon.send(signal.SIGHUP)
    daemon.waits_for("node.created")


def test_sigusr1_dumps_mailboxes_and_threads_and_sigquit_stops(write: Write, start: Start) -> None:
    """P7: SIGQUIT stops it as it did the forerunner."""
    daemon = start("--config", write())
    daemon.waits_for("cycle.done")
    daemon.send(signal.SIGUSR1)
    daemon.waits_for("daemon.dumped", actor="NodeManagerDaemonActor")
    assert "count" in daemon.waits_for("daemon.dumped", actor="RecordCleanerActor")
    daemon.waits_for("library", logger="pykka")
    assert daemon.process.poll() is None
    daemon.send(signal.SIGQUIT)
    assert daemon.ends() == 0
    last = daemon.lines[-1]
    assert (last["event"], last["reason"], last["code"]) == ("daemon.stopped", "SIGQUIT", "0")


def test_a_second_daemon_on_the_pool_refuses_and_names_the_first(
    write: Write, start: Start
) -> None:
    """PEERS.md, row: two daemons - 10 nodes for 5 jobs, 3 records given to two nodes each."""
    path = write()
    first = start("--config", path)
    first.waits_for("cycle.done")
    second = start("--config", path)
    assert second.ends() == 1
    assert f"pid {first.process.pid}" in second.raw[-1]
    assert "another daemon runs on this pool" in second.raw[-1]
    assert first.process.poll() is None


@pytest.mark.parametrize(
    ("was", "option"),
    [("port = -1", "[Manage] port"), ("listen = 127.0.0.1:0", "[Registry] listen")],
    ids=["management", "registry"],
)
def test_a_taken_port_is_named_with_its_option(
    write: Write, start: Start, was: str, option: str
) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        path = write()
        here = f"port = {port}" if "port" in was else f"listen = 127.0.0.1:{port}"
        path.write_text(path.read_text(encoding="utf-8").replace(was, here), encoding="utf-8")
        daemon = start("--config", path)
        assert daemon.ends() == 1
    assert str(port) in daemon.raw[-1]
    assert option in daemon.raw[-1]
    assert not [line for line in daemon.raw if "Traceback" in line]


def test_a_dry_run_leaves_the_registry_as_it_was(
    write: Write, start: Start, tmp_path: Path
) -> None:
    """S3, on the real registry: not even the heartbeat's stamp moves."""
    import sqlite3

    daemon = start("run", "--dry-run", write(min_nodes=2))
    daemon.waits_for("node.setup_started", mode="dry-run")
    database = tmp_path / "state" / "registry.db"

    def beats() -> list[tuple[int, int]]:
        with sqlite3.connect(f"file:{database}?mode=ro", uri=True) as opened:
            return list(
                opened.execute("select heartbeats, (select count(*) from nodes) from store")
            )

    before = beats()
    daemon.waits_for("list.ok", source="records")
    daemon.waits_for("cycle.done")
    daemon.send(signal.SIGTERM)
    assert daemon.ends() == 0
    assert before == beats() == [(0, 0)]
    assert not [line for line in daemon.lines if line.get("event") == "lease.acquired"]


class Systemd:
    """The service manager's end of NOTIFY_SOCKET."""

    def __init__(self, path: Path) -> None:
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.socket.bind(str(path))
        self.socket.settimeout(WITHIN_S)
        self.path = path
        self.heard: list[str] = []

    def hears(self, line: str) -> None:
        """Return once that line came; the ones before it are kept in `heard`."""
        while line not in self.heard:
            self.heard.extend(self.socket.recv(4096).decode().split("\n"))

    def hears_again(self, line: str, times: int) -> None:
        while self.heard.count(line) < times:
            self.heard.extend(self.socket.recv(4096).decode().split("\n"))


@pytest.fixture
def systemd(tmp_path: Path) -> Iterator[Systemd]:
    made = Systemd(tmp_path / "notify")
    yield made
    made.socket.close()


def test_systemd_hears_of_start_life_reload_and_end(
    write: Write, start: Start, systemd: Systemd
) -> None:
    path = write()
    daemon = start("--config", path, NOTIFY_SOCKET=str(systemd.path), WATCHDOG_USEC="1500000")
    systemd.hears("READY=1")
    systemd.hears_again("WATCHDOG=1", 3)
    daemon.waits_for("daemon.started")
    daemon.send(signal.SIGHUP)
    systemd.hears("RELOADING=1")
    systemd.hears_again("READY=1", 2)
    daemon.send(signal.SIGTERM)
    systemd.hears("STOPPING=1")
    assert daemon.ends() == 0
    assert systemd.heard.index("READY=1") < systemd.heard.index("RELOADING=1")


def test_a_watchdog_is_not_fed_once_an_actor_hangs(
    write: Write, start: Start, systemd: Systemd
) -> None:
    hang = """
        import threading
        from nodemanager.cloud.libcloud_base import LibcloudCloud
        LibcloudCloud.list_nodes = lambda self: threading.Event().wait()
    """
    path = write()
    path.write_text(
        path.read_text(encoding="utf-8").replace("[Manage]", "watchdog = 2\n[Manage]"),
        encoding="utf-8",
    )
    told = {"NOTIFY_SOCKET": str(systemd.path), "WATCHDOG_USEC": "1500000"}
    daemon = start("--config", path, python=code_of(hang), **told)
    stuck = daemon.waits_for("actor.stuck")
    assert stuck["actor"] == "CloudNodeListActor"
    assert daemon.ends(100) == 1
    assert daemon.lines[-1]["reason"] == "an actor is stuck"


def test_a_removed_lock_file_is_put_back_and_a_lease_that_another_took_ends_it(
    write: Write, start: Start
) -> None:
    """L6, N23: it was left without a lease, and without a word, until a restart."""
    path = write()
    daemon = start("--config", path)
    daemon.waits_for("cycle.done")
    lock = path.parent / "state" / "lock"
    lock.unlink()
    put_back = daemon.waits_for("lease.acquired", count=2)
    assert "removed" in put_back["detail"]
    assert lock.read_text().startswith(f"pid {daemon.process.pid} ")

    other = lock.with_name("other")
    other.write_text("pid 1 since then\n")
    other.rename(lock)
    assert daemon.ends() == 1
    lost = next(line for line in reversed(daemon.lines) if "error" in line)
    assert lost["event"] == "lease.lost"
    assert "another daemon has made a new one" in lost["error"]
    assert daemon.lines[-1]["reason"] == "the lease was taken"


def test_an_actor_that_dies_ends_the_process_with_a_clear_last_line(
    write: Write, start: Start
) -> None:
    fault = """
        from nodemanager.cloud.libcloud_base import LibcloudCloud

        def broken(self):
            raise AssertionError("a bug of ours")

        LibcloudCloud.list_nodes = broken
    """
    daemon = start("--config", write(), python=code_of(fault))
    assert daemon.ends() == 1
    died = daemon.waits_for("actor.died", actor="CloudNodeListActor")
    assert died["level"] == "error"
    assert "AssertionError" in died["error"]
    last = daemon.lines[-1]
    assert (last["event"], last["reason"]) == ("daemon.stopped", "CloudNodeListActor died")
    assert last["code"] == "1"


def test_sigterm_while_it_starts_is_heeded(write: Write, start: Start) -> None:
    daemon = start("--config", write())
    daemon.waits_for("lease.acquired")
    daemon.send(signal.SIGTERM)
    assert daemon.ends() == 0
    assert daemon.lines[-1]["event"] == "daemon.stopped"


def test_the_registry_on_its_own_takes_a_rotated_token_and_outlives_a_wrong_file(
    write: Write, start: Start
) -> None:
    path = write()
    text = path.read_text() + "[Registry]\nslots = 4\nlisten = 127.0.0.1:0\ntoken = one\n"
    text = text.replace("[Registry]\nslots = 4\nlisten = 127.0.0.1:0\n", "", 1)
    path.write_text(text)
    daemon = start("registry", path)
    url = daemon.waits_for("server.started", name="registry")["url"] + "/arvados/v1/nodes"
    assert answer_of(url, "one", "OAuth2") == 200
    path.write_text("[Sise]\n")
    daemon.send(signal.SIGHUP)
    daemon.waits_for("daemon.reloaded", level="error")
    assert answer_of(url, "one", "OAuth2") == 200
    path.write_text(text.replace("token = one", "token = two"))
    daemon.send(signal.SIGHUP)
    daemon.waits_for("daemon.reloaded", outcome="applied")
    assert answer_of(url, "two", "OAuth2") == 200
    assert answer_of(url, "one", "OAuth2") == 401


TAKES_THE_SIGNAL = """
import pathlib, signal, threading, time

def take():
    while not pathlib.Path({go!r}).exists():
        time.sleep(0.05)
    signal.pthread_kill(threading.get_ident(), signal.SIGTERM)

threading.Thread(target=take, daemon=True).start()
"""


def test_the_registry_on_its_own_heeds_a_signal_that_another_thread_took(
    write: Write, start: Start, tmp_path: Path
) -> None:
    """The kernel gives a process's signal to any of its threads, and the main one sleeps on."""
    go = tmp_path / "go"
    script = code_of(TAKES_THE_SIGNAL.format(go=str(go)))
    daemon = start("registry", "--config", write(), python=script)
    daemon.waits_for("server.started", name="registry")
    stat = Path(f"/proc/{daemon.process.pid}/stat")
    until("its main thread to sleep", lambda: stat.read_text().rpartition(")")[2][1] == "S")
    go.touch()
    assert daemon.ends() == 0
    assert daemon.lines[-1]["event"] == "daemon.stopped"


def answer_of(url: str, token: str, scheme: str = "Bearer") -> int:
    return requests.get(url, headers={"Authorization": f"{scheme} {token}"}, timeout=10).status_code


def test_no_order_is_taken_without_the_token_and_a_reload_takes_rotated_ones(
    write: Write, start: Start, tmp_path: Path
) -> None:
    port, secret = free_port(), tmp_path / "management"
    secret.write_text("the-first-one")
    more = "[Registry]\nslots = 4\nlisten = 127.0.0.1:0\ntoken = registry-one\n"
    path = write(port=port)
    text = path.read_text().replace(
        f"port = {port}\n", f"port = {port}\nManagementToken_file = {secret}\n"
    )
    path.write_text(text.replace("[Registry]\nslots = 4\nlisten = 127.0.0.1:0\n", more))
    daemon = start("run", path)
    records = daemon.waits_for("server.started", name="registry")["url"] + "/arvados/v1/nodes"
    api = f"http://127.0.0.1:{port}/api"
    status = f"{api}/nodes"
    daemon.waits_for("cycle.done")
    # What a plan found is shown right after its line.
    until("the nodes", lambda: answer_of(status, "the-first-one") == 200)
    assert answer_of(records, "registry-one", "OAuth2") == 200
    reset = f"{api}/breaker/reset"
    assert requests.post(reset, timeout=10).status_code == 401
    wrong = {"Authorization": "Bearer wrong"}
    assert requests.post(reset, headers=wrong, timeout=10).status_code == 403
    assert answer_of(reset, "the-first-one") == 405
    assert not [line for line in daemon.lines if line.get("event", "").startswith("operator.")]
    secret.write_text("the-second-one")
    path.write_text(path.read_text().replace("registry-one", "registry-two"))
    daemon.send(signal.SIGHUP)
    daemon.waits_for("daemon.reloaded", outcome="applied")
    for option in ("[Manage] ManagementToken", "[Registry] token"):
        assert daemon.waits_for("config.changed", option=option)["action"] == "applied"
    assert answer_of(status, "the-second-one") == 200
    assert answer_of(status, "the-first-one") == 403
    assert answer_of(records, "registry-two", "OAuth2") == 200
    assert answer_of(records, "registry-one", "OAuth2") == 401
    assert "the-second-one" not in "\n".join(daemon.raw)
