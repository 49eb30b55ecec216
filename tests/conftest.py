"""What every test has: servers that may be missing, actors that end, Hypothesis' profiles.

And what `make quick` leaves out, and how it notices a test that it should have left out.
"""

from __future__ import annotations

import gc
import importlib
import os
import shutil
import signal
import socket
import subprocess
import sys
import traceback
from collections.abc import Callable, Generator, Iterator
from glob import glob
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import hypothesis
import pytest

from nodemanager.config import Config, load

# What `@pytest.mark.server(NAME)` needs, as a program's name, as a pattern of its path, or as a
# module of Python. The Debian packages that bring them are in etc/install/test-deps.
SERVERS = {
    "chromium": "chromium",
    "curl": "curl",
    "gcc": "gcc",
    "haproxy": "/usr/sbin/haproxy",
    "libvirt": "import libvirt",
    "libvirtd": "/usr/sbin/libvirtd",
    "logrotate": "/usr/sbin/logrotate",
    "munge": "/usr/sbin/munged",
    "postgresql": "/usr/lib/postgresql/*/bin/postgres",
    "prometheus": "prometheus",
    "promtool": "promtool",
    "shellcheck": "shellcheck",
    "slurm": "/usr/sbin/slurmctld",
    "systemd": "systemd-analyze",
}

# By when the last file that waits has begun, as a share of the other files.
WAITS_BY = 0.6

TESTS = Path(__file__).parent
LONG = (TESTS, TESTS / "core" / "execute" / "explored", TESTS / "replay")
"""Where the longest files of those that compute are."""

# `--quick` leaves these out.
NOT_QUICK = {"live", "server", "slow", "socket"}

# A shell without job control starts what it puts in the background with SIGINT ignored, and every
# daemon started here would inherit that.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

hypothesis.settings.register_profile("dev", deadline=None)
hypothesis.settings.register_profile("ci", deadline=None, derandomize=True, print_blob=True)
hypothesis.settings.load_profile("ci" if os.environ.get("CI") == "true" else "dev")


_opened: list[str] = []
"""Where this process opened Internet sockets since the last test, under `--quick`."""
_begun: set[Path] = set()
"""The files of which a test was run."""


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--quick",
        action="store_true",
        help=f"leave out what is marked {', '.join(sorted(NOT_QUICK))}; "
        "fail any other test that opens an Internet socket",
    )


def pytest_configure(config: pytest.Config) -> None:
    # Until the tests are collected, all is made to stay.
    gc.disable()
    if config.getoption("--quick"):
        # urllib3 opens a socket where it is first imported, to see whether there is IPv6.
        importlib.import_module("urllib3.util.connection")
        sys.addaudithook(_note_socket)


def _note_socket(event: str, args: tuple[Any, ...]) -> None:
    if event == "socket.__new__" and args[1] in (socket.AF_INET, socket.AF_INET6):
        _opened.append("".join(traceback.format_stack()[-6:-1]))


def required() -> bool:
    """Nothing may be skipped for want of a server (set by .ci/run)."""
    return os.environ.get("NODEMANAGER_REQUIRE") == "all"


def servers_of(item: pytest.Item) -> list[str]:
    return [str(name) for mark in item.iter_markers("server") for name in mark.args]


def is_here(server: str) -> bool:
    where = SERVERS[server]
    if where.startswith("import "):
        return find_spec(where.removeprefix("import ")) is not None
    return bool(glob(where)) if where.startswith("/") else shutil.which(where) is not None


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    unknown = sorted({name for item in items for name in servers_of(item)} - SERVERS.keys())
    if unknown:
        raise pytest.UsageError(f"tests/conftest.py's SERVERS lacks {', '.join(unknown)}")
    items[:] = _in_turn(items)
    if config.getoption("--quick"):
        quick: list[pytest.Item] = []
        left_out: list[pytest.Item] = []
        for item in items:
            is_left_out = any(item.get_closest_marker(mark) for mark in NOT_QUICK)
            (left_out if is_left_out else quick).append(item)
        config.hook.pytest_deselected(items=left_out)
        items[:] = quick


def _in_turn(items: list[pytest.Item]) -> list[pytest.Item]:
    """The files in which a test waits, for nodes or for a server, spread among those that compute.

    So that the workers do not all wait at the same time, nor one of them for a long file at the
    end. Of those that wait, the ones that wait for a real Slurm come first, being the longest; of
    the others, those with the longest tests.
    """
    files: dict[Path, list[pytest.Item]] = {}
    for item in items:
        files.setdefault(item.path, []).append(item)
    waiting = [path for path, here in files.items() if any(map(_waits, here))]
    others = [path for path in files if path not in waiting]
    servers = {
        path: {name for item in files[path] for name in servers_of(item)} for path in waiting
    }
    waiting.sort(key=lambda path: "slurm" not in servers[path])
    others.sort(key=lambda path: path.parent not in LONG)
    turns = {path: WAITS_BY * turn / len(waiting) for turn, path in enumerate(waiting)}
    turns |= {path: turn / len(others) for turn, path in enumerate(others)}
    return [item for path in sorted(turns, key=turns.__getitem__) for item in files[path]]


def _waits(item: pytest.Item) -> bool:
    return any(item.get_closest_marker(mark) is not None for mark in ("live", "server"))


def pytest_sessionfinish() -> None:
    # A process that only handed the tests out, or collected them, has nothing to find at its end.
    if not _begun:
        gc.freeze()


def pytest_collection_finish() -> None:
    # Else each collection of garbage would look at the ten thousand tests and all that they import.
    gc.freeze()
    # An exploration keeps each of its scenes: it is not to be looked at again every 700 objects.
    gc.set_threshold(20_000)
    gc.enable()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(
    item: pytest.Item, nextitem: pytest.Item | None
) -> Generator[None, object, object]:
    """Between two files, what is there is taken out of the collector's sight.

    Not with `--quick`: its tests make little, and come from all files in turn.
    """
    if item.path not in _begun:
        is_first = not _begun
        _begun.add(item.path)
        if is_first or item.config.getoption("--quick"):
            return (yield)
        gc.collect()
        gc.freeze()
    return (yield)


def pytest_runtest_setup(item: pytest.Item) -> None:
    _opened.clear()
    missing = [name for name in servers_of(item) if not is_here(name)]
    if not missing:
        return
    reason = f"needs {' and '.join(missing)}: make test-deps"
    if required():
        pytest.fail(f"{reason} (NODEMANAGER_REQUIRE=all)", pytrace=False)
    pytest.skip(reason)


@pytest.hookimpl(trylast=True)
def pytest_runtest_teardown() -> None:
    where = "\n".join(_opened)
    _opened.clear()
    if where:
        pytest.fail(f"a quick test opens no socket: mark it `socket`\n{where}", pytrace=False)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    of_a_server = item.get_closest_marker("server") is not None
    if report.skipped and required() and of_a_server and not hasattr(report, "wasxfail"):
        why = report.longrepr[2] if isinstance(report.longrepr, tuple) else report.longrepr
        report.outcome = "failed"
        report.longrepr = f"{why} (a server test may not be skipped: NODEMANAGER_REQUIRE=all)"
    return report


def pytest_terminal_summary(terminalreporter: Any) -> None:
    skipped = terminalreporter.stats.get("skipped", [])
    if any("make test-deps" in str(report.longrepr) for report in skipped):
        terminalreporter.write_line("")
        terminalreporter.write_line("Some tests need servers that are not installed. For those:")
        terminalreporter.write_line("    make test-deps")


Configured = Callable[..., Config]


@pytest.fixture
def configured(tmp_path: Path) -> Configured:
    """Makes a configuration from the text below `[Cloud] provider`, of a pool named `pool`."""

    def config(text: str = "", *, provider: str = "dummy", daemon: str = "") -> Config:
        path = tmp_path / "pool.cfg"
        head = f"[Daemon]\nstate_dir = {tmp_path}/state\n{daemon}\n[Cloud]\nprovider = {provider}\n"
        path.write_text(head + text, encoding="utf-8")
        return load(path, environ={})

    return config


@pytest.fixture(scope="session")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, str]:
    """Of localhost and 127.0.0.1, and its key."""
    folder = tmp_path_factory.mktemp("tls")
    cert, key = str(folder / "cert.pem"), str(folder / "key.pem")
    subprocess.run(
        [
            *["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256"],
            *["-nodes", "-days", "2", "-subj", "/CN=localhost", "-keyout", key, "-out", cert],
            *["-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1"],
        ],
        check=True,
        capture_output=True,
    )
    return cert, key


@pytest.fixture(autouse=True)
def _no_actor_outlives_its_test() -> Iterator[None]:
    yield
    pykka = sys.modules.get("pykka")
    if pykka is not None:
        pykka.ActorRegistry.stop_all(timeout=10)
