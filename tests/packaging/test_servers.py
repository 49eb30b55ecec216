"""A test that needs a server is skipped by name without it, and under CI fails instead."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import pytest

from tests.packaging.conftest import TREE, run

NEEDS_CURL = """
    import pytest

    @pytest.mark.server("curl")
    def test_that_needs_curl():
        pass

    def test_that_needs_nothing():
        pass
"""
SKIPS_ITSELF = """
    import pytest

    @pytest.mark.server()
    def test_that_skips_itself():
        pytest.skip("no loopback here")
"""
UNKNOWN = """
    import pytest

    @pytest.mark.server("oracle")
    def test_that_needs_oracle():
        pass
"""


@pytest.fixture
def suite(tmp_path: Path):
    """Runs a suite of one file under our conftest, on a machine without any program."""
    shutil.copy(TREE / "tests" / "conftest.py", tmp_path)
    shutil.copy(TREE / "pyproject.toml", tmp_path)

    def pytest_on(text: str, require: str) -> tuple[int, str]:
        lines = [line.removeprefix("    ") for line in text.splitlines()]
        (tmp_path / "test_it.py").write_text("\n".join(lines))
        done = run(
            *(sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "test_it.py"),
            cwd=tmp_path,
            PATH="/nonexistent",
            NODEMANAGER_REQUIRE=require,
        )
        return done.returncode, done.stdout

    return pytest_on


def test_without_its_server_a_test_is_skipped_by_name_and_the_command_is_printed(suite):
    code, said = suite(NEEDS_CURL, require="")

    last = said.splitlines()[-6:]
    assert code == 0
    assert any("test_that_needs_curl" in line and "make test-deps" in line for line in last)
    assert "1 passed, 1 skipped" in last[-1]
    assert "    make test-deps" in said.splitlines()


def test_when_everything_is_required_a_missing_server_is_a_failure(suite):
    code, said = suite(NEEDS_CURL, require="all")

    assert code == 1
    assert "needs curl: make test-deps (NODEMANAGER_REQUIRE=all)" in said
    assert "skipped" not in said.splitlines()[-1]


def test_when_everything_is_required_a_server_test_may_not_skip_itself_either(suite):
    code, said = suite(SKIPS_ITSELF, require="all")

    assert code == 1
    assert "no loopback here (a server test may not be skipped" in said


def test_a_server_that_nobody_knows_is_an_error(suite):
    code, said = suite(UNKNOWN, require="")

    assert code == 4
    assert "SERVERS lacks oracle" in said
