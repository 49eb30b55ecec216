"""How these tests type a command."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from nodemanager import cli

Typed = Callable[..., tuple[int, str, str]]


@pytest.fixture
def typed(capsys: pytest.CaptureFixture[str]) -> Typed:
    """Runs `nodemanager ...` in this process: its exit code, its output and its errors."""

    def run(*words: object) -> tuple[int, str, str]:
        code = 0
        try:
            cli.main(list(map(str, words)))
        except SystemExit as end:
            code = int(end.code or 0)
        said = capsys.readouterr()
        return code, said.out, said.err

    return run
