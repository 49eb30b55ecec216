"""The pinned packages: those of installations apart from those that the tests alone need."""

from __future__ import annotations

import re
import shutil
import sys
from pathlib import Path

import pytest

from nodemanager.lib.extras import MODULES
from tests.packaging.conftest import TREE, run

PIN = re.compile(r"^([a-z0-9-]+)==[^\n]*\n((?: .*\n)*)", re.MULTILINE)
USERS = (TREE / "constraints.txt").read_text(encoding="utf-8")
TESTS = (TREE / "constraints-test.txt").read_text(encoding="utf-8")


@pytest.fixture
def shipped(tmp_path: Path) -> Path:
    """What an installation sees of this tree."""
    (tmp_path / "etc" / "install").mkdir(parents=True)
    for name in ("setup.py", "constraints.txt", "etc/install/pins.py"):
        shutil.copy(TREE / name, tmp_path / name)
    return tmp_path


def pinned(tree: Path, *extras: str) -> set[str]:
    done = run(sys.executable, tree / "etc" / "install" / "pins.py", *extras)
    assert done.returncode == 0, done.stdout
    return {name for name, _ in PIN.findall(done.stdout)}


def test_every_package_comes_with_a_hash_and_who_wants_it():
    pins = PIN.findall(USERS + TESTS)

    assert len(pins) > 150
    assert [name for name, lines in pins if "--hash=sha256:" not in lines] == []
    assert {name for name, _ in pins} == {name for name, lines in pins if "# via " in lines}


def test_the_file_for_installations_has_what_they_need_and_nothing_else(shipped: Path):
    needed = pinned(shipped, *MODULES) | pinned(shipped, "build")

    assert needed == {name for name, _ in PIN.findall(USERS)}


def test_an_installation_without_extras_is_as_small_as_the_manual_says(shipped: Path):
    manual = (TREE / "doc" / "install.rst").read_text(encoding="utf-8")

    assert f"The base is {len(pinned(shipped))} packages" in manual


def test_the_tests_use_the_versions_of_the_installations():
    assert {name for name, _ in PIN.findall(TESTS)} & {
        name for name, _ in PIN.findall(USERS)
    } == set()
    assert {"pytest", "ruff", "sphinx"} <= pinned(TREE, "test", "doc")
