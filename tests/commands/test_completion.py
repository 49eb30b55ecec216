"""The completion script, in the shell that it is for."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner

from nodemanager import cli
from nodemanager.commands.completion import SHELLS
from tests.live.terminal import Terminal

TREE = Path(__file__).parents[2]


@pytest.fixture
def bash(tmp_path: Path) -> Iterator[Terminal]:
    """An interactive bash that has `nodemanager` on its path, and its completion."""
    program = tmp_path / "nodemanager"
    program.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m nodemanager "$@"\n')
    program.chmod(0o755)
    (tmp_path / "pools.cfg").touch()
    told = {
        "PATH": f"{tmp_path}:{os.environ['PATH']}",
        "PYTHONPATH": str(TREE),
        "PS1": "ready> ",
        "TERM": "dumb",
        "INPUTRC": "/dev/null",
    }
    words = ["bash", "--norc", "--noprofile", "-i"]
    shell = Terminal(words, cwd=tmp_path, env=told)
    try:
        shell.shows("ready> ")
        shell.type('unset HISTFILE; eval "$(nodemanager completion bash)"; echo it is $?\n')
        shell.shows("it is 0")
        shell.shows("ready> ")
        yield shell
    finally:
        shell.close()


@pytest.mark.slow
def test_bash_completes_subcommands_options_reasons_and_files(bash: Terminal) -> None:
    bash.type("nodemanager check-con\t")
    bash.shows("nodemanager check-config ")
    bash.type("--config poo\t")
    bash.shows("pools.cfg ")
    bash.type("\x15nodemanager log --foll\t")
    bash.shows("--follow ")
    bash.type("--reason stale_\t")
    bash.shows("stale_slot ")
    bash.type("\x15nodemanager veri\t")
    bash.shows("verify ")
    bash.type("--allow-e\t")
    bash.shows("--allow-empty ")


@pytest.mark.parametrize("shell", SHELLS)
def test_each_shell_gets_a_script_that_names_the_command(shell: str) -> None:
    printed = CliRunner().invoke(cli.group, ["completion", shell], prog_name="nodemanager")
    assert printed.exit_code == 0
    assert f"_NODEMANAGER_COMPLETE={shell}_complete" in printed.stdout


def test_another_shell_is_refused_with_those_there_are() -> None:
    refused = CliRunner().invoke(cli.group, ["completion", "csh"], prog_name="nodemanager")
    assert refused.exit_code == 2
    assert "bash" in refused.output
