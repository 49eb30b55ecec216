"""The wheel and the source distribution: what is in them, and that the program runs from them."""

from __future__ import annotations

import shutil
import signal
import subprocess
import sys
import sysconfig
import tarfile
import venv
import zipfile
from pathlib import Path

import pytest

from nodemanager import __version__
from nodemanager.lib.extras import DISTRIBUTION, MODULES
from tests.live.harness import free_port
from tests.packaging.conftest import TREE, environment, run
from tests.waiting import until

FILES = ("setup.py", "pyproject.toml", "MANIFEST.in", "README.rst", "LICENSE", "CHANGELOG.rst")
DATA = f"elastic_nodemanager-{__version__}.data/data/share"
QUICK_START = (TREE / "doc" / "quick-start.rst").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def dist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Both, built from a copy of this tree in which the manual pages were made."""
    root = tmp_path_factory.mktemp("dist")
    tree = root / "tree"
    for folder in ("nodemanager", "etc"):
        shutil.copytree(TREE / folder, tree / folder)
    for name in (*FILES, "constraints.txt", "Dockerfile", "Makefile"):
        shutil.copy(TREE / name, tree)
    pages = tree / "doc" / "_build" / "man"
    pages.mkdir(parents=True)
    for page in ("nodemanager.1", "nodemanager.cfg.5"):
        (pages / page).write_text(f".TH {page}\n")
    done = run(sys.executable, tree / "etc" / "install" / "dist.py", root / "built")
    assert done.returncode == 0, done.stdout
    return root / "built"


@pytest.fixture(scope="module")
def wheel(dist: Path) -> Path:
    (found,) = dist.glob("*.whl")
    return found


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The programs of a fresh environment with the wheel, and the libraries of this one."""
    place = tmp_path_factory.mktemp("fresh") / "venv"
    venv.create(place, with_pip=False)
    done = run(
        *(sys.executable, "-m", "pip", "--python", place / "bin" / "python", "install"),
        *("--no-deps", "--no-index", "--no-compile", wheel),
    )
    assert done.returncode == 0, done.stdout
    (site,) = (place / "lib").glob("python3*/site-packages")
    (site / "libraries.pth").write_text(sysconfig.get_path("purelib") + "\n")
    return place / "bin"


def test_the_wheel_has_every_file_of_the_package_and_its_data(wheel: Path):
    inside = set(zipfile.ZipFile(wheel).namelist())

    package = {
        str(path.relative_to(TREE))
        for path in (TREE / "nodemanager").rglob("*")
        if path.is_file() and path.suffix != ".pyc"
    }
    assert package - inside == set()
    assert {name for name in inside if name.startswith(("tests/", "etc/", "doc/"))} == set()
    samples = {f"{DATA}/nodemanager/{path.name}" for path in (TREE / "etc").glob("*.cfg")}
    assert samples - inside == set()
    for name in (
        *("nodemanager/node/nodemanager-ping", "nodemanager/iam/ec2.json"),
        *("nodemanager/prometheus/nodemanager.rules.yml", "nodemanager/grafana/nodemanager.json"),
        *("nodemanager/systemd/nodemanager@.service", "man/man1/nodemanager.1"),
        "man/man5/nodemanager.cfg.5",
    ):
        assert f"{DATA}/{name}" in inside


def test_the_source_distribution_has_what_an_installation_and_a_build_need(dist: Path):
    (sdist,) = dist.glob("*.tar.gz")
    with tarfile.open(sdist) as packed:
        inside = {name.split("/", 1)[-1] for name in packed.getnames()}

    wanted = {"Makefile", "constraints.txt", "Dockerfile", "etc/install/install", "etc/ec2.cfg"}
    assert wanted - inside == set()


@pytest.mark.proof
def test_the_wheel_of_the_tree_itself_has_the_same_files(wheel: Path, dist: Path, tmp_path: Path):
    """That of `make dist` is built from the source distribution: nothing got lost on that way."""
    tree = dist.parent / "tree"
    build = "import sys; from setuptools import build_meta as b; b.build_wheel(sys.argv[1])"
    done = run(sys.executable, "-c", build, tmp_path, cwd=tree)
    assert done.returncode == 0, done.stdout

    (direct,) = tmp_path.glob("*.whl")
    assert direct.name == wheel.name
    assert sorted(zipfile.ZipFile(direct).namelist()) == sorted(zipfile.ZipFile(wheel).namelist())


def test_its_extras_are_those_that_a_file_may_need(wheel: Path):
    with zipfile.ZipFile(wheel) as packed:
        (name,) = (one for one in packed.namelist() if one.endswith(".dist-info/METADATA"))
        told = packed.read(name).decode().splitlines()

    assert f"Name: {DISTRIBUTION}" in told
    assert {f"Provides-Extra: {extra}" for extra in MODULES} <= set(told)


def test_the_command_of_the_wheel_runs(installed: Path):
    program = installed / "nodemanager"
    share = installed.parent / "share" / "nodemanager"
    where = "import nodemanager; print(nodemanager.__file__)"

    def outside(*command: str | Path) -> subprocess.CompletedProcess[str]:
        return run(*command, cwd=Path("/"), PYTHONPATH="")

    version = outside(program, "--version")
    checked = outside(program, "check-config", share / "local.cfg")
    from_wheel = outside(installed / "python", "-c", where)

    assert version.stdout == f"nodemanager, version {__version__}\n"
    assert (checked.returncode, "fine" in checked.stdout) == (0, True), checked.stdout
    assert Path(from_wheel.stdout.strip()).is_relative_to(installed.parent)


@pytest.fixture
def stranger(wheel: Path, tmp_path: Path) -> Path:
    """A directory of somebody who has the wheel and nothing else of ours."""
    shutil.copy(wheel, tmp_path)
    return tmp_path


def commands_of(heading: str) -> list[str]:
    """The lines of a section's blocks in the quick start."""
    section = QUICK_START.split(f"\n{heading}\n---", 1)[1].split("\n---", 1)[0]
    return [line.strip() for line in section.splitlines() if line.startswith("    ")]


@pytest.mark.proof
@pytest.mark.live
@pytest.mark.slow
@pytest.mark.server("curl")
def test_a_stranger_boots_the_first_nodes_by_the_quick_start(stranger: Path):
    """Into an empty environment, with all that the wheel asks for from the package index."""
    *before, export, init, check, start, sweep = commands_of("From a wheel")
    # Others may run on this machine's usual ports.
    init += f" --set Registry.listen=127.0.0.1:{free_port()} --set Manage.port=0"
    assert export == "export STATE_DIRECTORY=$PWD/state"
    clean = {"PYTHONPATH": "", "STATE_DIRECTORY": str(stranger / "state")}

    def play(line: str) -> str:
        done = run("sh", "-ec", line, cwd=stranger, limit=300, **clean)
        assert done.returncode == 0, f"{line}\n{done.stdout}"
        return done.stdout

    for line in before:
        play(line)
    assert play("nm/bin/nodemanager --version") == f"nodemanager, version {__version__}\n"
    assert f"from {stranger}/nm/share/nodemanager/local.cfg" in play(init)
    assert "fine" in play(check)
    log = stranger / "log"
    with log.open("w") as out:
        daemon = subprocess.Popen(
            ["sh", "-c", f"exec {start}"], cwd=stranger, env=environment(**clean), stderr=out
        )
    try:
        until(
            "both nodes",
            lambda: log.read_text().count("event=node.paired ") == 2,
            told=log.read_text,
        )
        daemon.send_signal(signal.SIGTERM)
        code = daemon.wait(60)
    finally:
        daemon.kill()
        ended = play(sweep)

    assert (code, ended.count("ended node ")) == (0, 2)
    assert "Traceback" not in log.read_text()
