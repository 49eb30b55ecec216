"""The environment of a process that a test starts, from a thread of its own."""

from __future__ import annotations

import os
import threading

import pytest

from tests.live.harness import environment

NAME = "NODEMANAGER_TEST_COMES_AND_GOES"


def test_the_environment_may_change_while_it_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """pytest names the running test in it, and takes the name away, while a node farm pings."""
    monkeypatch.setenv(NAME, "1")
    over = threading.Event()

    def change() -> None:
        while not over.is_set():
            os.environ[NAME] = "1"
            os.environ.pop(NAME, None)

    changing = threading.Thread(target=change)
    changing.start()
    try:
        assert all(environment(MORE="1")["MORE"] == "1" for _ in range(3000))
    finally:
        over.set()
        changing.join()
