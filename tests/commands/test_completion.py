"""The completion script, in the shell that it is for."""

from __future__ import annotations

import os
import pty
import select
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner

from nodemanager import cli
from nodemanager.commands.completion import SHELLS

TREE = Path(__file__).parents[2]
DEADLINE_S = 20.0


class Bash:
    """An interactive bash on a terminal of its own, with `nodemanager` on its path."""

    def __init__(self, home: Path) -> None:
        program = home / "nodemanager"
        program.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m nodemanager "$@"\n')
        program.chmod(0o755)
        (home / "pools.cfg").touch()
        self._terminal, theirs = pty.openpty()
        self.process = subprocess.Popen(
            ["bash", "--norc", "--noprofile", "-i"],
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            cwd=home,
            env={
                "PATH": f"{home}:{os.environ['PATH']}",
                "PYTHONPATH": str(TREE),
                "PS1": "ready> ",
                "TERM": "dumb",
                "HISTFILE": "",
                "INPUTRC": "/dev/null",
            },
            start_new_session=True,
        )
        os.close(theirs)
        self.said = ""

    def type(self, text: str) -> None:
        os.write(self._terminal, text.encode())

    def shows(self, text: str) -> None:
        """Wait until it shows that, behind what it showed before."""
        deadline = time.monotonic() + DEADLINE_S
        while text not in self.said:
            left = deadline - time.monotonic()
            if left <= 0 or not select.select([self._terminal], [], [], left)[0]:
                pytest.fail(f"waited for {text!r}; bash showed {self.said!r}", pytrace=False)
            self.said += os.read(self._terminal, 4096).decode()
        self.said = self.said.split(text, 1)[1]

    def close(self) -> None:
        os.close(self._terminal)
        self.process.kill()
        self.process.wait(DEADLINE_S)


@pytest.fixture
def bash(tmp_path: Path) -> Iterator[Bash]:
    shell = Bash(tmp_path)
    try:
        shell.shows("ready> ")
        shell.type('eval "$(nodemanager completion bash)"; echo it is $?\n')
        shell.shows("it is 0")
        shell.shows("ready> ")
        yield shell
    finally:
        shell.close()


def test_bash_completes_subcommands_options_reasons_and_files(bash: Bash) -> None:
    bash.type("nodemanager check\t")
    bash.shows("nodemanager check-config ")
    bash.type("--config poo\t")
    bash.shows("pools.cfg ")
    bash.type("\x15nodemanager log --foll\t")
    bash.shows("--follow ")
    bash.type("--reason stale_\t")
    bash.shows("stale_slot ")


@pytest.mark.parametrize("shell", SHELLS)
def test_each_shell_gets_a_script_that_names_the_command(shell: str) -> None:
    printed = CliRunner().invoke(cli.group, ["completion", shell], prog_name="nodemanager")
    assert printed.exit_code == 0
    assert f"_NODEMANAGER_COMPLETE={shell}_complete" in printed.stdout


def test_another_shell_is_refused_with_those_there_are() -> None:
    refused = CliRunner().invoke(cli.group, ["completion", "csh"], prog_name="nodemanager")
    assert refused.exit_code == 2
    assert "bash" in refused.output
