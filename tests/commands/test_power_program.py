"""`nodemanager slurm-resume` and `slurm-suspend`: what is handed over, and the exit codes."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from socketserver import UnixStreamServer

import pytest

from nodemanager.commands import power_program
from nodemanager.lib import control

LATEST_S = 10


@pytest.fixture
def config(tmp_path: Path) -> Path:
    path = tmp_path / "slurm.cfg"
    # Options that SlurmUser could not read the secrets of are no hindrance.
    path.write_text(
        f"[Daemon]\nstate_dir = {tmp_path}\n[Manage]\nManagementToken_file = /no/such\n",
        encoding="utf-8",
    )
    return path


class Daemon:
    """Answers on the control socket with one status, and keeps what it was sent."""

    def __init__(self, place: Path, status: int) -> None:
        self.seen: list[tuple[str, object]] = []
        told = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                told.seen.append((self.path, json.loads(body)))
                self.send_response(status)
                self.send_header("Content-Length", "0")
                self.end_headers()

            def address_string(self) -> str:
                return "unix"

            def log_message(self, *_: object) -> None: ...

        self.server = UnixStreamServer(str(place), Handler)
        self.thread = threading.Thread(target=self.server.serve_forever, daemon=True)
        self.thread.start()

    def end(self) -> None:
        self.server.shutdown()
        self.server.server_close()
        self.thread.join(LATEST_S)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("command", "path"),
    [("slurm-resume", "/api/power/resume"), ("slurm-suspend", "/api/power/suspend")],
)
def test_slurms_list_is_handed_to_the_daemon(config: Path, command: str, path: str):
    daemon = Daemon(config.parent / control.NAME, 202)
    try:
        assert power_program.main(command, ["--config", str(config), "c[1-3],d7"]) == 0
    finally:
        daemon.end()
    assert daemon.seen == [(path, {"nodes": "c[1-3],d7"})]


@pytest.mark.slow
def test_a_list_of_any_length_is_handed_over(config: Path):
    daemon = Daemon(config.parent / control.NAME, 202)
    names = ",".join(f"compute{number}" for number in range(5000))
    try:
        assert power_program.main("slurm-resume", ["-c", str(config), names]) == 0
    finally:
        daemon.end()
    ((_, told),) = daemon.seen
    assert isinstance(told, dict)
    assert told["nodes"].startswith("compute0,compute1,")
    assert len(told["nodes"]) <= power_program.LONGEST


@pytest.mark.slow
def test_where_no_daemon_takes_it_that_is_said_and_exits_with_1(
    config: Path, capsys: pytest.CaptureFixture[str]
):
    assert power_program.main("slurm-resume", ["-c", str(config), "c1"]) == 1
    assert f"c1: no daemon answers at {control.place(config.parent, {})}" in (
        capsys.readouterr().err.replace("/run/nodemanager/slurm/control.sock nor at ", "")
    )
    daemon = Daemon(config.parent / control.NAME, 503)
    try:
        assert power_program.main("slurm-suspend", ["-c", str(config), "c1"]) == 1
    finally:
        daemon.end()
    assert "HTTP 503" in capsys.readouterr().err


@pytest.mark.parametrize("arguments", [[], ["--config"], ["c1", "c2"], [""], ["--what"]])
def test_wrong_usage_exits_with_2(arguments: list[str], capsys: pytest.CaptureFixture[str]):
    assert power_program.main("slurm-resume", arguments) == 2
    assert "usage" in capsys.readouterr().err


def test_a_list_that_is_not_utf_8_exits_with_2(capsys: pytest.CaptureFixture[str]):
    assert power_program.main("slurm-resume", ["node\udcff"]) == 2
    assert "node\\udcff is not UTF-8" in capsys.readouterr().err


def test_a_file_that_is_not_there_exits_with_2(tmp_path: Path):
    assert power_program.main("slurm-resume", ["-c", str(tmp_path / "none.cfg"), "c1"]) == 2


def test_it_imports_nothing_of_the_other_commands(config: Path):
    code = (
        "import sys; sys.argv = ['nodemanager', 'slurm-resume', '-c', sys.argv[1], 'c1']\n"
        "from nodemanager.__main__ import main\n"
        "try: main()\n"
        "except SystemExit as end: assert end.code == 1, end.code\n"
        "assert not {'click', 'requests', 'nodemanager.cli'} & set(sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(config)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
