"""Imports point down, and core is pure: import-linter's contracts, and that they can fail."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cases import cases

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[1]
LINT = """
import sys
from importlinter.cli import lint_imports
sys.exit(lint_imports(no_cache=True))
"""


def lint(where: Path) -> subprocess.CompletedProcess[str]:
    """Check the package in `where` against the contracts of its pyproject.toml."""
    return subprocess.run(
        [sys.executable, "-c", LINT],
        cwd=where,
        env={"PYTHONPATH": str(where), "PATH": "/usr/bin:/bin", "NO_COLOR": "1"},
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )


@pytest.fixture(scope="module")
def copied(tmp_path_factory: pytest.TempPathFactory) -> Path:
    where = tmp_path_factory.mktemp("layers")
    ignore = shutil.ignore_patterns("__pycache__", "*.pyc")
    shutil.copytree(ROOT / "nodemanager", where / "nodemanager", ignore=ignore)
    shutil.copy(ROOT / "pyproject.toml", where)
    return where


def test_imports_point_down_and_core_is_pure() -> None:
    found = lint(ROOT)
    assert found.returncode == 0, found.stdout + found.stderr


@cases(
    ("module", "line"),
    {
        "core-to-a-port": ("core/sly.py", "from nodemanager.cloud import api"),
        "core-to-threads": ("core/sly.py", "import threading"),
        "core-to-a-clock": ("core/sly.py", "import time"),
        "to-actors": ("cloud/sly.py", "from nodemanager.actors import messages"),
        "actors-to-wiring": ("actors/sly.py", "import nodemanager.app.wiring"),
        "a-module-that-no-arrow-leaves": ("errors_sly.py", None),
    },
)
def test_an_arrow_that_points_up_fails(copied: Path, module: str, line: str | None) -> None:
    sly = copied / "nodemanager" / module
    sly.write_text(f"{line}\n" if line is not None else "")
    try:
        found = lint(copied)
    finally:
        sly.unlink()
    assert (found.returncode != 0) is (line is not None), found.stdout + found.stderr
    if line is not None:
        assert "sly" in found.stdout
