"""The Unix socket of the operators' commands (X6): who gets in, and where it is looked for."""

from __future__ import annotations

import getpass
import socket
import stat
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from nodemanager.commands.client import Client, ClientError, NobodyThereError
from nodemanager.config import reach
from nodemanager.core.operate.replies import Command
from nodemanager.core.operate.verbs import Verb
from nodemanager.errors import ConfigError, StartError
from nodemanager.lib import control
from nodemanager.web.server import ManagementServer
from tests.web.manager import TOKEN, Daemon, Manager

pytestmark = pytest.mark.socket

ME = getpass.getuser()


Serve = Callable[..., ManagementServer]


@pytest.fixture
def home(tmp_path: Path) -> Path:
    (tmp_path / "state").mkdir(mode=0o700)
    return tmp_path


@pytest.fixture
def daemon() -> Daemon:
    return Daemon()


@pytest.fixture
def serve(home: Path, daemon: Daemon) -> Iterator[Serve]:
    """Starts a management server; by default on the socket alone."""
    started = []

    def start(
        path: Path | None = None, port: int | None = None, *, takes_over: bool = True
    ) -> ManagementServer:
        manager = Manager(
            listen=("127.0.0.1", port),
            control_socket=path or home / "state" / control.NAME,
            takes_over=takes_over,
            commands=daemon,
        )
        manager.cycle()
        server = manager.server
        server.start()
        started.append(server)
        return server

    yield start
    for server in started:
        server.stop()


def client(home: Path, url: str | None = None, port: int | None = None) -> Client:
    path = home / "pool.cfg"
    ported = "" if port is None else f"port = {port}\n"
    path.write_text(
        f"[Daemon]\nstate_dir = {home}/state\n[Cloud]\nprovider = dummy\n"
        f"[Manage]\n{ported}ManagementToken = {TOKEN}\n",
        encoding="utf-8",
    )
    return Client(reach(path), url)


def test_a_command_over_the_socket_needs_no_token_and_is_by_whom_the_kernel_says(
    home: Path, serve: Serve, daemon: Daemon, monkeypatch: pytest.MonkeyPatch
) -> None:
    serve()
    client(home).order(Verb.HOLD, "zones/a/vm 7", reason="it hangs")
    monkeypatch.setenv("SUDO_USER", "ann")
    client(home).order(Verb.PAUSE, reason="an upgrade")
    assert daemon.heard == [
        Command(Verb.HOLD, ME, "it hangs", "zones/a/vm 7"),
        Command(Verb.PAUSE, f"ann as {ME}", "an upgrade"),
    ]
    assert client(home).status()["pool"] == "prod"
    assert "marks" in client(home).status(with_names=True)


def test_a_file_that_was_broken_meanwhile_keeps_nobody_from_the_daemon(
    home: Path, serve: Serve, daemon: Daemon
) -> None:
    """`pause` must work at night, whatever somebody has half written into the file."""
    serve()
    client(home)
    with (home / "pool.cfg").open("a", encoding="utf-8") as file:
        file.write("[Deamon]\nmin_nodes = two\n")
    Client(reach(home / "pool.cfg")).order(Verb.PAUSE, reason="an upgrade")
    assert daemon.heard == [Command(Verb.PAUSE, ME, "an upgrade")]


def test_where_nobody_answers_the_files_mistakes_are_told(home: Path) -> None:
    client(home)
    with (home / "pool.cfg").open("a", encoding="utf-8") as file:
        file.write("[Deamon]\n")
    with pytest.raises(ConfigError, match="no such section"):
        Client(reach(home / "pool.cfg")).status()
    with pytest.raises(ConfigError, match="no such section"):
        Client(reach(home / "pool.cfg"), "http://127.0.0.1:1").status()


def test_https_where_there_is_none_is_told_from_nobody(home: Path, serve: Serve) -> None:
    """`no daemon answers`, it said, with the command that starts one."""
    url = serve(port=0).url.replace("http:", "https:")
    with pytest.raises(ClientError, match=f"{url}: no TLS connection") as caught:
        client(home, url).status()
    assert not isinstance(caught.value, NobodyThereError)


def test_the_socket_is_its_groups_and_nobody_elses(home: Path, serve: Serve) -> None:
    serve()
    found = (home / "state" / control.NAME).stat()
    assert stat.S_ISSOCK(found.st_mode)
    assert stat.S_IMODE(found.st_mode) == 0o660


def test_a_path_longer_than_a_sockets_may_be_serves_all_the_same(
    home: Path, serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    """unix(7) has room for 108 bytes."""
    deep = home / ("d" * 100) / ("e" * 100)
    deep.mkdir(parents=True)
    serve(deep / control.NAME)
    monkeypatch.setenv("RUNTIME_DIRECTORY", f"{deep}:/elsewhere")
    assert client(home).status()["pool"] == "prod"


def test_whoever_took_the_port_while_the_daemon_was_down_gets_nothing(home: Path) -> None:
    """X6: not the token, and no connection."""
    with socket.create_server(("127.0.0.1", 0)) as thief:
        thief.settimeout(0.3)
        port = thief.getsockname()[1]
        with pytest.raises(NobodyThereError):
            client(home, port=port).order(Verb.PAUSE, reason="x")
        with pytest.raises(NobodyThereError):
            client(home, port=port).status()
        with pytest.raises(TimeoutError):
            thief.accept()


def test_over_tcp_it_goes_where_it_is_told_to_and_with_the_token(
    home: Path, serve: Serve, daemon: Daemon
) -> None:
    server = serve(port=0)
    client(home, server.url).order(Verb.PAUSE, reason="x")
    assert [command.by for command in daemon.heard] == [ME]
    assert client(home, f"{server.url}/").status(with_names=True)["pool"] == "prod"


def test_a_socket_that_a_killed_daemon_left_is_nobody_and_the_next_one_takes_it(
    home: Path, serve: Serve
) -> None:
    path = home / "state" / control.NAME
    left = control.listen(path, takes_over=True)
    assert left is not None
    left.close()
    assert path.exists()
    with pytest.raises(NobodyThereError):
        client(home).status()
    serve()
    assert client(home).status()["pool"] == "prod"


def test_a_dry_run_leaves_the_socket_to_the_daemon_that_has_it(home: Path, serve: Serve) -> None:
    serve()
    path = home / "state" / control.NAME
    before = path.stat().st_ino
    serve(takes_over=False)
    assert path.stat().st_ino == before
    assert client(home).status()["pool"] == "prod"


def test_a_file_in_the_sockets_place_is_left_alone_and_named(home: Path, serve: Serve) -> None:
    path = home / "state" / control.NAME
    path.write_text("notes", encoding="utf-8")
    with pytest.raises(StartError, match=control.NAME):
        serve()
    assert path.read_text(encoding="utf-8") == "notes"


def test_the_run_directory_comes_before_the_state_directory() -> None:
    state, config = Path("/var/lib/nodemanager/ec2"), Path("/etc/nodemanager/ec2.cfg")
    assert control.place(state, {}) == state / control.NAME
    assert control.place(state, {"RUNTIME_DIRECTORY": "/run/x"}) == Path("/run/x") / control.NAME
    assert control.places(config, state, {}) == [
        Path("/run/nodemanager/ec2") / control.NAME,
        state / control.NAME,
    ]


def test_who_may_not_use_the_socket_is_told_who_may(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def forbidden(path: Path, timeout: float) -> socket.socket:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(control, "connect", forbidden)
    with pytest.raises(ClientError, match="nodemanager"):
        client(home).status()


def test_a_flood_of_the_port_keeps_no_command_out(home: Path, serve: Serve) -> None:
    """X1: the socket's clients are peers of their own."""
    server = serve(port=0)
    opened = [socket.create_connection((server.address, server.port)) for _ in range(60)]
    answered = threading.Event()

    def ask() -> None:
        if client(home).status():
            answered.set()

    threading.Thread(target=ask, daemon=True).start()
    assert answered.wait(5)
    for one in opened:
        one.close()
