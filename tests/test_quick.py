"""`make quick` leaves out what is marked, and no other test may open an Internet socket."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
TESTS = """
import contextlib, socket, threading, pytest

def opens(family):
    socket.socket(family).close()

def test_opens_one():
    opens(socket.AF_INET)

def test_opens_one_in_a_thread():
    thread = threading.Thread(target=opens, args=(socket.AF_INET6,))
    thread.start()
    thread.join()

@pytest.fixture
def at_its_end():
    yield
    opens(socket.AF_INET)

def test_opens_one_at_its_end(at_its_end):
    pass

def test_opens_none():
    opens(socket.AF_UNIX)

@pytest.mark.socket
def test_says_so():
    opens(socket.AF_INET)

@pytest.mark.slow
def test_takes_long():
    raise AssertionError("it ran")
"""


@pytest.mark.slow
def test_a_quick_test_that_opens_an_internet_socket_fails(tmp_path: Path) -> None:
    (tmp_path / "test_some.py").write_text(TESTS, encoding="utf-8")
    options = ("-p", "tests.conftest", "-c", ROOT / "pyproject.toml", "--rootdir", tmp_path)
    words = (sys.executable, "-m", "pytest", "-rpE", "--quick", *options, tmp_path / "test_some.py")
    # In CI pytest tells each error once more in its summary.
    environ = {name: value for name, value in os.environ.items() if name != "CI"}
    found = subprocess.run(
        words, cwd=ROOT, env=environ, capture_output=True, text=True, timeout=60, check=False
    )

    assert "4 passed, 2 deselected, 3 errors" in found.stdout
    for name in ("test_opens_one", "test_opens_one_in_a_thread", "test_opens_one_at_its_end"):
        assert f"ERROR at teardown of {name} _" in found.stdout
    assert found.stdout.count("a quick test opens no socket: mark it `socket`\n") == 3
    # And where.
    assert found.stdout.count("socket.socket(family).close()\n") == 3
