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

from nodemanager.lib.extras import DISTRIBUTION, MODULES
from tests.packaging.conftest import TREE, environment, run
from tests.waiting import until

FILES = ("setup.py", "pyproject.toml", "MANIFEST.in", "README.rst", "LICENSE", "CHANGELOG.rst")
DATA = "elastic_nodemanager-0.1.0.data/data/share"
SERVED = """\
[Daemon]
min_nodes = 1
cloudlist_poll_time = 1
nodelist_poll_time = 1
[Registry]
listen = 127.0.0.1:0
[Cloud]
provider = dummy
"""


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

    version = run(program, "--version", cwd=Path("/"))
    checked = run(program, "check-config", share / "local.cfg", cwd=Path("/"))
    from_wheel = run(installed / "python", "-c", where, cwd=Path("/"))

    assert version.stdout == "nodemanager, version 0.1.0\n"
    assert (checked.returncode, "fine" in checked.stdout) == (0, True), checked.stdout
    assert Path(from_wheel.stdout.strip()).is_relative_to(installed.parent)


@pytest.mark.live
def test_the_daemon_of_the_wheel_starts_answers_and_stops(installed: Path, tmp_path: Path):
    program, state = installed / "nodemanager", tmp_path / "state"
    config = tmp_path / "pool.cfg"
    config.write_text(SERVED)
    state.mkdir()
    env = {"STATE_DIRECTORY": str(state)}
    log = tmp_path / "log"
    with log.open("w") as out:
        daemon = subprocess.Popen(
            [program, "run", "--config", config], cwd="/", env=environment(**env), stderr=out
        )
    try:
        until("it answers", lambda: run(program, "status", "-c", config, **env).returncode == 0)
        daemon.send_signal(signal.SIGTERM)
        code = daemon.wait(60)
    finally:
        daemon.kill()

    assert code == 0, log.read_text()
    assert "Traceback" not in log.read_text()
