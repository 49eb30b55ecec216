"""How these tests write a file and read it."""

from __future__ import annotations

import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from nodemanager.config import Config, load
from nodemanager.errors import ConfigError

Read = Callable[..., Config]
Refused = Callable[..., list[str]]


@pytest.fixture
def file(tmp_path: Path) -> Callable[..., Path]:
    """Write a file, by default with `[Cloud] provider = dummy` at its end."""

    def write(text: str, *, cloud: bool = True, name: str = "pool.cfg") -> Path:
        path = tmp_path / name
        tail = "[Cloud]\nprovider = dummy\n" if cloud else ""
        path.write_text(textwrap.dedent(text) + tail, encoding="utf-8")
        return path

    return write


@pytest.fixture
def read(file: Callable[..., Path]) -> Read:
    def read_text(text: str = "", *, cloud: bool = True, **options: Any) -> Config:
        options.setdefault("environ", {})
        return load(file(text, cloud=cloud), **options)

    return read_text


@pytest.fixture
def refused(file: Callable[..., Path]) -> Refused:
    """The problems of a file that must be refused, each without the file's path."""

    def problems(text: str, *, cloud: bool = True, **options: Any) -> list[str]:
        options.setdefault("environ", {})
        path = file(text, cloud=cloud)
        with pytest.raises(ConfigError) as caught:
            load(path, **options)
        assert all(problem.startswith(f"{path}:") for problem in caught.value.problems)
        return [problem.removeprefix(f"{path}:") for problem in caught.value.problems]

    return problems
