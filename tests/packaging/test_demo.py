"""`make run` starts from nothing and leaves nothing, however it ends.

The daemon and the local cloud here are a few lines that do what etc/demo/run.py relies on: hold a
lock file, start processes called nodes, sweep them.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from urllib.parse import parse_qsl

import pytest

from tests.cases import cases
from tests.packaging.conftest import TREE, environment, run
from tests.waiting import runs, until

DAEMON = """
    import fcntl, os, signal, subprocess, sys, pathlib
    state = pathlib.Path(os.environ["STATE_DIRECTORY"])
    def stop(number, frame):
        (state.parent / "stopped").write_text("yes")
        sys.exit(0)
    signal.signal(signal.SIGTERM, stop)
    lock = open(state / "lock", "w")
    fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    print(f"pid {os.getpid()} since 2026-11-21T02:00:00.000Z", file=lock, flush=True)
    print("found", sorted(p.name for p in state.iterdir()), flush=True)
    if "--config" in sys.argv and sys.argv[-1] == "wrong.cfg":
        sys.exit(2)
    (state / "local-cloud").mkdir()
    node = subprocess.Popen(["sleep", "600"], start_new_session=True)
    (state / "local-cloud" / "pid").write_text(str(node.pid))
    print("daemon.started", os.getpid(), node.pid, flush=True)
    signal.pause()
"""
LOCAL_CLOUD = """
    import os, pathlib, signal, sys
    for pid in pathlib.Path(sys.argv[2]).glob("pid"):
        try:
            os.kill(int(pid.read_text()), signal.SIGKILL)
            print("swept", pid.read_text(), flush=True)
        except ProcessLookupError:
            pass
"""


class Demo:
    """A running demo whose daemon has started."""

    def __init__(self, tree: Path, command: list[str]) -> None:
        # As a shell does it: a process group of its own, which a terminal's Ctrl-C reaches whole.
        self.process = subprocess.Popen(
            command,
            cwd=tree,
            env=environment(),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            process_group=0,
        )
        self.before: list[str] = []
        assert self.process.stdout is not None
        for line in self.process.stdout:
            if line.startswith("daemon.started"):
                break
            self.before.append(line.strip())
        else:
            raise AssertionError(f"the daemon did not start: {self.before}")
        self.daemon, self.node = (int(word) for word in line.split()[1:])

    def ended(self) -> tuple[int, str]:
        assert self.process.stdout is not None
        said = self.process.stdout.read()
        return self.process.wait(20), said


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A tree with the demo's script, a Makefile that calls it, and a daemon of a few lines."""
    files = {
        "nodemanager/__main__.py": DAEMON,
        "nodemanager/cloud/local/__main__.py": LOCAL_CLOUD,
        "Makefile": f"    run:\n    \t@exec {sys.executable} {TREE}/etc/demo/run.py start\n",
    }
    for name, text in files.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("\n".join(line.removeprefix("    ") for line in text.splitlines()) + "\n")
    return tmp_path


@pytest.fixture
def start(tree: Path) -> Iterator[Callable[..., Demo]]:
    demos: list[Demo] = []

    def started(command: list[str] | None = None) -> Demo:
        demos.append(Demo(tree, command or ["make", "run"]))
        return demos[-1]

    yield started
    for demo in demos:
        for pid in (demo.process.pid, demo.daemon, demo.node):
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                continue
        demo.process.wait()
        assert demo.process.stdout is not None
        demo.process.stdout.close()


def script(what: str = "start", *more: str) -> list[str]:
    return [sys.executable, str(TREE / "etc/demo/run.py"), what, *more]


def test_ctrl_c_ends_the_daemon_in_order_and_then_its_nodes(start, tree: Path):
    demo = start()

    os.killpg(demo.process.pid, signal.SIGINT)
    code, said = demo.ended()

    assert code in (0, -signal.SIGINT)
    assert "Error" not in said
    assert "Traceback" not in said
    assert (tree / "stopped").exists()
    assert not runs(demo.daemon)
    assert not runs(demo.node)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT])
def test_any_other_end_from_outside_is_as_orderly(start, tree: Path, number: signal.Signals):
    demo = start(script())

    demo.process.send_signal(number)
    code, _ = demo.ended()

    assert code == 0
    assert (tree / "stopped").exists()
    assert not runs(demo.daemon)
    assert not runs(demo.node)


def test_make_that_is_terminated_ends_it_all(start):
    demo = start()

    demo.process.terminate()
    demo.ended()

    until("the end of both", lambda: not runs(demo.daemon) and not runs(demo.node))


def test_a_daemon_that_dies_takes_its_nodes_along_and_is_a_failure(start):
    demo = start(script())

    os.kill(demo.daemon, signal.SIGKILL)
    code, _ = demo.ended()

    assert code == 128 + signal.SIGKILL
    assert not runs(demo.node)


def test_what_the_daemon_says_by_its_exit_code_is_passed_on(tree: Path):
    done = run(*script("start", "--config", "wrong.cfg"), cwd=tree)

    assert done.returncode == 2


def test_a_second_ctrl_c_does_not_wait_for_a_daemon_that_hangs(start, tree: Path):
    daemon = tree / "nodemanager" / "__main__.py"
    daemon.write_text(daemon.read_text().replace("SIGTERM, stop", "SIGTERM, signal.SIG_IGN"))
    daemon.write_text(daemon.read_text().replace("signal.pause()", "while True: signal.pause()"))
    demo = start(script())

    demo.process.send_signal(signal.SIGINT)
    with pytest.raises(subprocess.TimeoutExpired):
        demo.process.wait(0.5)
    demo.process.send_signal(signal.SIGINT)
    code, said = demo.ended()

    assert code == 0
    assert "SIGKILL" in said
    assert not runs(demo.daemon)
    assert not runs(demo.node)


def test_impatience_ends_it_all_though_nobody_reads_what_is_said(start, tree: Path):
    """O8: `make run | tee log`, where Ctrl-C ends tee as well."""
    daemon = tree / "nodemanager" / "__main__.py"
    daemon.write_text(daemon.read_text().replace("SIGTERM, stop", "SIGTERM, signal.SIG_IGN"))
    daemon.write_text(daemon.read_text().replace("signal.pause()", "while True: signal.pause()"))
    demo = start(script())

    demo.process.stdout.close()
    demo.process.send_signal(signal.SIGINT)
    with pytest.raises(subprocess.TimeoutExpired):
        demo.process.wait(0.5)
    demo.process.send_signal(signal.SIGINT)

    assert demo.process.wait(20) == 0
    assert not runs(demo.daemon)
    assert not runs(demo.node)


def test_each_start_is_a_first_start(start, tree: Path):
    demo = start()
    (tree / ".demo" / "registry.db").write_text("slots")
    os.killpg(demo.process.pid, signal.SIGINT)
    demo.ended()

    again = start()

    assert again.before[-1:] == ["found ['lock', 'nodemanager', 'run.lock']"]
    assert (tree / ".demo").stat().st_mode & 0o777 == 0o700


def test_the_next_start_ends_what_a_killed_one_left_running(start):
    first = start(script())
    first.process.kill()
    first.process.wait()
    assert runs(first.daemon)

    second = start(script())

    assert not runs(first.daemon)
    assert not runs(first.node)
    assert runs(second.node)
    assert f"Ending the daemon of an earlier run (pid {first.daemon}, SIGTERM)" in second.before
    assert f"swept {first.node}" in second.before


def test_a_second_start_ends_the_first_and_keeps_its_own_nodes(start):
    first = start(script())
    second = start(script())
    first.ended()

    assert not runs(first.daemon)
    assert not runs(first.node)
    assert runs(second.daemon)
    assert runs(second.node)


def test_a_stranger_who_now_has_the_pid_in_the_lock_file_is_left_alone(start, tree: Path):
    with subprocess.Popen(["sleep", "600"]) as stranger:
        (tree / ".demo").mkdir()
        for name in ("lock", "run.lock"):
            (tree / ".demo" / name).write_text(f"pid {stranger.pid} since 2026-11-21\n")

        start(script())

        assert stranger.poll() is None
        stranger.kill()


def test_end_ends_what_is_left_and_says_nothing_where_nothing_is(start, tree: Path):
    assert run(*script("end"), cwd=tree).stdout == ""
    left = start(script())
    left.process.kill()

    done = run(*script("end"), cwd=tree)

    assert done.returncode == 0
    assert not runs(left.daemon)
    assert not runs(left.node)


@pytest.fixture
def ping_server() -> Iterator[tuple[str, list[tuple[str, str]]]]:
    """Answers a POST with 200, and notes who sent which form."""
    from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
    from threading import Thread

    pings: list[tuple[str, str]] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"])).decode()
            pings.append((self.client_address[0], body))
            taken = "ping_secret=s3cret" in self.path
            self.send_response(200 if taken else 401)
            self.end_headers()
            if taken:
                self.wfile.write(b'{"drain": true, "drain_order": "00c0ffee", "uuid": "u"}')

        def log_message(self, format: str, *args: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}/ping?ping_secret=", pings
    server.shutdown()
    thread.join()
    server.server_close()


@cases(("secret", "expected"), {"taken": ("s3cret", 0), "refused": ("wrong", 4)})
def test_on_a_machine_without_curl_the_ping_script_works_with_the_stand_in(
    ping_server, tmp_path: Path, secret: str, expected: int
):
    url, pings = ping_server
    (tmp_path / "url").write_text(url + secret)
    bin_without_curl = tmp_path / "bin"
    bin_without_curl.mkdir()
    for name in ("sh", "env", "sed", "awk", "df", "getconf", "mkdir"):
        (bin_without_curl / name).symlink_to(f"/usr/bin/{name}")
    (bin_without_curl / "python3").symlink_to(sys.executable)
    hook = tmp_path / "drain"
    hook.write_text("#!/bin/sh\necho drained\n")
    hook.chmod(0o755)

    done = run(
        *(TREE / "etc/node/nodemanager-ping", "--url-file", tmp_path / "url", "--no-metadata"),
        *("--interface", "127.0.0.7", "--instance-id", "local-7", "--worker-state", "idle"),
        *("--drain-hook", hook, "--state-directory", tmp_path / "kept"),
        PATH=f"{TREE}/etc/demo/bin:{bin_without_curl}",
    )

    assert done.returncode == expected, done.stdout
    # One that is taken is told to drain by the answer, and says at once that it has (D12).
    told = [dict(parse_qsl(body)) for _, body in pings]
    assert {client for client, _ in pings} == {"127.0.0.7"}
    assert told[0].keys() >= {"total_cpu_cores", "total_ram_mb"}
    assert {one["instance_id"] for one in told} == {"local-7"}
    assert [one["worker_state"] for one in told] == (
        ["idle", "drained"] if not expected else ["idle"]
    )
