"""The stack's processes: each in a group of its own, with a log, and gone when this process is."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

from tests.live.harness import environment

START_S, STOP_S = 180.0, 5.0
TAIL = 30


class Broken(Exception):
    """A process of the stack failed; the text says which, and what it said last."""


class Processes:
    """Those that run, in the order of their start; `logs` has a file for each."""

    def __init__(self, logs: Path) -> None:
        self._logs = logs
        self._running: dict[str, subprocess.Popen[bytes]] = {}
        self._over = False
        logs.mkdir(parents=True)

    def start(self, name: str, command: Sequence[object], **env: str) -> None:
        if self._over:
            raise Broken(f"{name} is not started: everything ends")
        with open(self.log(name), "ab") as log:
            self._running[name] = subprocess.Popen(
                # When the thread that starts it is gone, the kernel ends it: also after a kill -9.
                ["setpriv", "--pdeathsig", "KILL", *map(str, command)],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd=self._logs.parent,
                # Some libraries of OpenStack keep a cache.
                env=environment(PYTHONPATH="", XDG_CACHE_HOME=str(self._logs.parent), **env),
                start_new_session=True,
            )

    def once(self, name: str, command: Sequence[object], **env: str) -> None:
        """Run it to its end; raises Broken when it fails."""
        self.start(name, command, **env)
        process = self._running[name]
        try:
            process.wait(START_S)
        except subprocess.TimeoutExpired:
            raise Broken(self.told(name, f"took more than {START_S:g} s")) from None
        del self._running[name]
        if process.returncode:
            raise Broken(self.told(name, f"ended with {process.returncode}"))

    def wait(self, name: str, ready: Callable[[], bool]) -> None:
        """Until it is `ready`; raises Broken when it ends before, or takes too long."""
        deadline = time.monotonic() + START_S
        while not ready():
            code = self._running[name].poll()
            if code is not None:
                raise Broken(self.told(name, f"ended with {code}"))
            if time.monotonic() > deadline:
                raise Broken(self.told(name, f"is not there after {START_S:g} s"))
            time.sleep(0.1)

    def log(self, name: str) -> Path:
        return self._logs / f"{name}.log"

    def told(self, name: str, what: str) -> str:
        lines = self.log(name).read_text(encoding="utf-8", errors="replace").splitlines()
        return "\n".join((f"{name} {what}; it said last:", *lines[-TAIL:]))

    def group(self, name: str) -> int:
        """The id of its process group."""
        return self._running[name].pid

    def end(self) -> None:
        """The last one first. One that does not end in time is killed with all it started."""
        self._over = True
        # Told to end while the schemas are made, other threads still start processes.
        running = tuple(reversed(self._running.values()))
        for process in running:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGCONT)
                os.killpg(process.pid, signal.SIGTERM)
        deadline = time.monotonic() + STOP_S
        for process in running:
            with suppress(subprocess.TimeoutExpired):
                process.wait(max(0.0, deadline - time.monotonic()))
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        self._running.clear()


def listens(port: int) -> bool:
    with socket.socket() as probe:
        probe.settimeout(1)
        return probe.connect_ex(("127.0.0.1", port)) == 0
