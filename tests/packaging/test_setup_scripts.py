"""The scripts under `make run`, `make test` and .ci/run that set a machine up."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.packaging.conftest import TREE, run

Program = Callable[[str, str], Path]

# What an interpreter answers to the questions of etc/install/python.
INTERPRETER = """
case "$2" in
*sys.executable*) echo "$0" ;;
*"sys.version_info <"*) exit {too_old} ;;
*ensurepip*) exit {no_venv} ;;
*python%d.%d-venv*) echo python3.13-venv ;;
esac
"""


def find_python(*names: Path) -> tuple[int, str]:
    done = run("etc/install/python", PYTHON=" ".join(str(name) for name in names))
    return done.returncode, done.stdout


def test_the_first_python_that_will_do_is_taken(program: Program):
    old = program("python3", INTERPRETER.format(too_old=1, no_venv=0))
    bare = program("python3.11", INTERPRETER.format(too_old=0, no_venv=1))
    shim = program("python3.12", "echo not found >&2; exit 127")
    good = program("python3.13", INTERPRETER.format(too_old=0, no_venv=0))

    assert find_python(old, bare, shim, good) == (0, f"{good}\n")


def test_a_python_without_venv_names_the_package_that_has_it(program: Program):
    bare = program("python3.13", INTERPRETER.format(too_old=0, no_venv=1))

    code, said = find_python(bare)

    assert code == 1
    assert "apt-get install python3.13-venv" in said


def test_a_python_that_is_too_old_is_named(program: Program):
    old = program("python3", INTERPRETER.format(too_old=1, no_venv=0))

    code, said = find_python(old)

    assert code == 1
    assert "Python 3.11 or newer is needed" in said
    assert str(old) in said


@pytest.mark.proof
def test_the_environment_is_set_up_once_and_again_when_setup_py_changes(tmp_path: Path):
    tree = tmp_path / "tree"
    (tree / "etc").mkdir(parents=True)
    shutil.copytree(TREE / "etc" / "install", tree / "etc" / "install")
    shutil.copy(TREE / "Makefile", tree)
    (tree / "pyproject.toml").write_text("")
    (tree / "nodemanager.py").write_text("")
    setup = 'from setuptools import setup\nsetup(name="x", version="1", py_modules=["nodemanager"])'

    (tree / "setup.py").write_text("raise SystemExit('no such luck')")
    failed = run("make", "venv", cwd=tree)
    (tree / "setup.py").write_text(setup)
    first = run("make", "venv", cwd=tree)
    second = run("make", "venv", cwd=tree)
    (tree / "setup.py").write_text(setup.replace('version="1"', 'version="2"'))
    third = run("make", "venv", cwd=tree)

    assert failed.returncode != 0
    assert "no such luck" in failed.stdout
    assert first.stdout.splitlines()[-1:] == ["Installing into .venv: 1 packages"]
    assert "Successfully" not in first.stdout
    assert (second.returncode, second.stdout) == (0, "")
    assert third.stdout == "Installing into .venv: 1 packages\n"
    assert list((tree / ".venv").glob("lib/python3*/site-packages/x-2.dist-info"))


@pytest.fixture
def bare_machine(tmp_path: Path, program: Program) -> dict[str, str]:
    """A PATH with a shell's own tools, an apt-get that notes what it is asked, and no servers."""
    for name in ("env", "sh", "readlink"):
        os.symlink(f"/usr/bin/{name}", program("placeholder", "").parent / name)
    program("apt-get", f'echo "apt-get $DEBIAN_FRONTEND $*" >>{tmp_path}/asked')
    program("id", "echo 0")
    return {"PATH": str(tmp_path / "bin"), "PYTHON": "/nonexistent/python3"}


def test_what_the_tests_need_is_installed_without_a_question(
    bare_machine: dict[str, str], tmp_path: Path
):
    done = run("/bin/sh", "etc/install/test-deps", **bare_machine)

    asked = (tmp_path / "asked").read_text()
    assert done.returncode == 0, done.stdout
    assert asked.startswith("apt-get noninteractive install --yes --no-install-recommends")
    for package in ("git", "curl", "systemd", "python3-venv"):
        assert f" {package}" in asked


def test_package_lists_are_fetched_when_an_install_fails_and_only_then(
    bare_machine: dict[str, str], program: Program, tmp_path: Path
):
    program(
        "apt-get",
        f'echo "$1" >>{tmp_path}/asked; [ "$1" = update ] && : >{tmp_path}/listed; '
        f"[ -e {tmp_path}/listed ]",
    )

    done = run("/bin/sh", "etc/install/test-deps", **bare_machine)

    assert done.returncode == 0, done.stdout
    assert (tmp_path / "asked").read_text().split() == ["install", "update", "install"]


def test_an_ordinary_user_without_sudo_is_told_what_to_ask_root_for(
    bare_machine: dict[str, str], program: Program, tmp_path: Path
):
    program("id", "echo 1000")

    done = run("/bin/sh", "etc/install/test-deps", **bare_machine)

    assert done.returncode == 1
    assert "As root: apt-get install slurm-client curl git" in done.stdout
    assert not (tmp_path / "asked").exists()


@pytest.mark.server("curl", "logrotate", "munge", "postgresql", "shellcheck", "slurm", "systemd")
def test_where_everything_is_installed_nothing_is_done():
    done = run("etc/install/test-deps")

    assert (done.returncode, done.stdout) == (0, "")


@pytest.mark.server("shellcheck")
def test_shellcheck_has_nothing_to_say_about_the_shell_scripts():
    scripts = [path for path in (TREE / "etc" / "install").iterdir() if path.suffix != ".py"]

    done = run("shellcheck", "--external-sources", *scripts, TREE / ".ci" / "run")

    assert len(scripts) > 3
    assert (done.returncode, done.stdout) == (0, "")


def test_ci_requires_everything_and_runs_the_suite(program: Program, tmp_path: Path):
    make = program("make", 'echo "$CI $NODEMANAGER_REQUIRE $PWD $*"; echo "1 passed"; exit 3')

    done = run(TREE / ".ci" / "run", cwd=tmp_path, PATH=f"{make.parent}:{os.environ['PATH']}")

    assert done.returncode == 3
    told = "ARGS=--tb=short --show-capture=stderr"
    assert done.stdout == f"true all {TREE} --keep-going test {told}\n1 passed\n"
