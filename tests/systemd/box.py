"""A real systemd as the first process of namespaces of its own.

It sees this machine's files and can write none of them: /etc is a copy, and /opt, /run, /tmp and
/var are empty. It knows no unit but those that `make install` writes, and its own journal's.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sysconfig
from pathlib import Path
from types import TracebackType

import pytest

from tests.packaging.conftest import TREE, environment
from tests.waiting import until

CGROUPS = Path("/sys/fs/cgroup")
UNIT = "nodemanager@local"
LONGEST_S = 900
OWN = ("/run", "/tmp", "/var", "/opt", "/mnt")
"""What is empty inside; as in inside.sh."""


def out_of_sight(tree: Path) -> str | None:
    """Why the box can't see the clone `tree`; None where it can."""
    hides = next((own for own in OWN if tree.is_relative_to(own)), None)
    if hides is None:
        return None
    return f"{tree} can't be seen inside, where {hides} is empty: another clone is needed"


class Box:
    """Starts on entering, is killed with all that is in it on leaving."""

    def __init__(self, name: str) -> None:
        self._unified = (CGROUPS / "cgroup.controllers").exists()
        self._cgroup = (CGROUPS if self._unified else CGROUPS / "systemd") / name
        self._process: subprocess.Popen[bytes] | None = None
        self._init = 0

    def __enter__(self) -> Box:
        hidden = out_of_sight(TREE)
        if hidden is not None:
            pytest.fail(hidden, pytrace=False)
        self._cgroup.mkdir()
        kind = "v2" if self._unified else "v1"
        enter = f"echo $$ >{self._cgroup}/cgroup.procs && exec timeout -s KILL {LONGEST_S} " + (
            "unshare --fork --pid --mount --cgroup --uts --ipc --mount-proc --kill-child "
            f"{TREE}/tests/systemd/inside.sh {kind}"
        )
        self._process = subprocess.Popen(["sh", "-c", enter], start_new_session=True)
        try:
            self._init = until("its first process", self._first_process)
            until("systemd", lambda: self.run("systemctl", "is-active", "basic.target")[0] == 0)
        except BaseException:
            self.__exit__(None, None, None)
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        assert self._process is not None
        if self._init:
            # The first process of a namespace takes all others of it along.
            os.kill(self._init, signal.SIGKILL)
        self._process.wait(30)
        until("its processes' end", self._is_cleared)

    def _first_process(self) -> int:
        """The process below `unshare` that is number 1 in its own namespace."""
        assert self._process is not None
        ahead = [self._process.pid]
        while ahead:
            pid = ahead.pop()
            try:
                status = Path(f"/proc/{pid}/status").read_text()
                children = Path(f"/proc/{pid}/task/{pid}/children").read_text()
            except OSError:
                continue
            (numbers,) = (one for one in status.splitlines() if one.startswith("NSpid:"))
            if numbers.split()[-1] == "1" and len(numbers.split()) > 2:
                return pid
            ahead += map(int, children.split())
        return 0

    def _is_cleared(self) -> bool:
        for path in sorted(self._cgroup.rglob("*"), key=lambda one: -len(one.parts)):
            if path.is_dir():
                try:
                    path.rmdir()
                except OSError:
                    continue
        try:
            self._cgroup.rmdir()
        except FileNotFoundError:
            return True
        except OSError:
            return False
        return True

    def run(self, *command: str | Path, **env: str) -> tuple[int, str]:
        """The exit code and output of a command inside, as root."""
        done = subprocess.run(
            ["nsenter", f"--target={self._init}", "--all", "--", *map(str, command)],
            cwd="/",
            env=environment(HOME="/tmp", PYTHONDONTWRITEBYTECODE="", **env),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=300,
            check=False,
        )
        return done.returncode, done.stdout

    def ok(self, *command: str | Path, **env: str) -> str:
        code, said = self.run(*command, **env)
        assert code == 0, f"{command}: {said}"
        return said

    def write(self, path: str, text: str) -> None:
        self.ok("sh", "-c", f'mkdir -p $(dirname {path}) && printf %s "$TEXT" >{path}', TEXT=text)

    def install(self) -> None:
        """`make install` as it stands, with this environment's libraries instead of a download."""
        self.ok(
            *("make", "-C", TREE, "install", "NAME=local"),
            NM_NO_DEPS="1",
            PYTHON="/usr/bin/python3",
            BINDIR="/opt/bin",
            SHAREDIR="/opt/share",
        )
        libraries = sysconfig.get_path("purelib")
        place = "/opt/nodemanager/current/lib/python3*/site-packages"
        self.ok("sh", "-c", f"for at in {place}; do echo {libraries} >$at/libraries.pth; done")

    def show(self, name: str) -> str:
        return self.ok("systemctl", "show", UNIT, f"--property={name}", "--value").strip()

    def story(self) -> str:
        return self.ok("journalctl", "-u", UNIT, "--no-pager", "-o", "cat")
