"""A command on a terminal of its own: what it shows there, and keys typed at it."""

from __future__ import annotations

import fcntl
import os
import pty
import select
import subprocess
import termios
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from tests.waiting import DEADLINE_S

CTRL_C = "\x03"


class Terminal:
    """`words`, run on a pseudo-terminal of its own, of 120 columns and 40 lines."""

    def __init__(self, words: Sequence[str], *, cwd: Path, env: Mapping[str, str]) -> None:
        self._terminal, theirs = pty.openpty()
        termios.tcsetwinsize(theirs, (40, 120))
        self.process = subprocess.Popen(
            list(words),
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            cwd=cwd,
            env=dict(env),
            start_new_session=True,
            # So that Ctrl-C is a signal to it, as it is in a shell.
            preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),
        )
        os.close(theirs)
        self.all = ""
        self._seen = 0

    def type(self, text: str) -> None:
        os.write(self._terminal, text.encode())

    def shows(self, text: str) -> None:
        """Wait until it shows that, behind what was waited for before."""
        deadline = time.monotonic() + DEADLINE_S
        while (at := self.all.find(text, self._seen)) < 0:
            if not self._read(deadline):
                pytest.fail(
                    f"waited for {text!r}; it showed last {self.all[-2000:]!r}", pytrace=False
                )
        self._seen = at + len(text)

    def ended(self) -> int:
        """Its exit code, once it has ended and all it showed is read."""
        deadline = time.monotonic() + DEADLINE_S
        while self._read(deadline):
            pass
        return self.process.wait(max(0.0, deadline - time.monotonic()))

    def _read(self, deadline: float) -> bool:
        left = max(0.0, deadline - time.monotonic())
        if not select.select([self._terminal], [], [], left)[0]:
            return False
        try:
            new = os.read(self._terminal, 65536)
        except OSError:
            # Linux' word for the end: nobody has the other side open any more.
            return False
        self.all += new.decode(errors="replace")
        return bool(new)

    def close(self) -> None:
        os.close(self._terminal)
        self.process.kill()
        self.process.wait(DEADLINE_S)
