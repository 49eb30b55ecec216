"""Notices to systemd, against a real datagram listener in its place."""

from __future__ import annotations

import os
import socket
import time
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from nodemanager.lib import sdnotify
from tests.cases import cases


@pytest.fixture(params=["a-path", "an-abstract-name"])
def systemd(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[socket.socket]:
    abstract = request.param == "an-abstract-name"
    address = f"@nm-{uuid.uuid4()}" if abstract else str(tmp_path / "notify")
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listener:
        listener.bind("\0" + address[1:] if abstract else address)
        listener.settimeout(5)
        monkeypatch.setenv("NOTIFY_SOCKET", address)
        yield listener


def test_lines_arrive_as_one_message(systemd: socket.socket) -> None:
    assert sdnotify.notify("READY=1", "STATUS=4 nodes, ä")
    assert systemd.recv(4096).decode() == "READY=1\nSTATUS=4 nodes, ä"


def test_a_value_can_not_smuggle_in_a_line_of_its_own(systemd: socket.socket) -> None:
    sdnotify.notify("STATUS=error\nSTOPPING=1")
    assert systemd.recv(4096) == b"STATUS=error STOPPING=1"


def test_a_reload_carries_the_monotonic_time(systemd: socket.socket) -> None:
    before = time.clock_gettime(time.CLOCK_MONOTONIC) * 1e6
    assert sdnotify.reloading()
    first, second = systemd.recv(4096).decode().split("\n")
    after = time.clock_gettime(time.CLOCK_MONOTONIC) * 1e6
    assert first == "RELOADING=1"
    assert before - 1 <= int(second.removeprefix("MONOTONIC_USEC=")) <= after


@cases(
    "address",
    {
        "no-systemd": None,
        "empty": "",
        "of-another-family": "vsock:2:1234",
        "nobody-listens": "/nowhere/at/all",
        "too-long": "/" + "x" * 200,
    },
)
def test_without_a_listener_nothing_happens(
    address: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    if address is None:
        monkeypatch.delenv("NOTIFY_SOCKET", raising=False)
    else:
        monkeypatch.setenv("NOTIFY_SOCKET", address)
    assert sdnotify.notify("READY=1") is False


@cases(
    ("usec", "pid", "interval"),
    {
        "no-pid-means-us": ("30000000", None, 30.0),
        "our-pid": ("500000", "us", 0.5),
        "another-pid": ("30000000", "1", None),
        "none": (None, None, None),
        "zero": ("0", None, None),
        "no-number": ("soon", None, None),
    },
)
def test_the_watchdog_is_ours_only_when_it_names_us(
    usec: str | None, pid: str | None, interval: float | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in (("WATCHDOG_USEC", usec), ("WATCHDOG_PID", pid)):
        monkeypatch.delenv(name, raising=False)
        if value is not None:
            monkeypatch.setenv(name, str(os.getpid()) if value == "us" else value)
    assert sdnotify.watchdog_interval() == interval
