"""`make install`, again as an upgrade, and `make uninstall`, in directories of the test's own.

The program that is installed is a copy of this tree, without its dependencies: those are the
business of pip.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.packaging.conftest import TREE, run

NOISY_UNIT = """[Service]
ExecStart=/bin/true
Restart=on-failur
"""


class Machine:
    """Where one installation goes, and the tree it comes from."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.tree = root / "tree"
        self.tree.mkdir(parents=True)
        for name in ("Makefile", "setup.py", "pyproject.toml", "README.rst", "LICENSE"):
            shutil.copy(TREE / name, self.tree)
        for name in ("nodemanager", "etc"):
            shutil.copytree(
                TREE / name, self.tree / name, ignore=shutil.ignore_patterns("__pycache__")
            )
        (self.tree / "etc" / "sample.cfg").write_text("[Cloud]\nprovider = dummy\n")
        self.prefix = root / "opt"
        self.config = root / "etc" / "nodemanager"
        self.state = root / "var" / "lib" / "nodemanager"
        self.units = root / "units"
        self.command = root / "bin" / "nodemanager"

    def make(self, target: str, **env: str) -> tuple[int, str]:
        settings = {
            "SYSCONFDIR": str(self.root / "etc"),
            "LOCALSTATEDIR": str(self.root / "var"),
            "UNITDIR": str(self.units),
            "BINDIR": str(self.root / "bin"),
            "NM_NO_USER": "1",
            "INSTALL_PIP_ARGS": "--no-deps",
            "PYTHON": sys.executable,
            **env,
        }
        done = run(
            "make", target, f"PREFIX={self.prefix}", "NAME=sample", cwd=self.tree, **settings
        )
        return done.returncode, done.stdout

    def install(self, **env: str) -> str:
        code, said = self.make("install", **env)
        assert code == 0, said
        return said

    def releases(self) -> list[str]:
        return sorted(path.name for path in (self.prefix / "releases").iterdir())


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Machine:
    """One installation that the tests below look at and leave as it is."""
    machine = Machine(tmp_path_factory.mktemp("installed"))
    machine.install()
    return machine


def mode(path: Path) -> int:
    return path.stat().st_mode & 0o7777


def test_configuration_and_state_are_for_the_service_alone(installed: Machine):
    assert mode(installed.config / "sample.cfg") == 0o640
    assert mode(installed.config) == 0o750
    assert mode(installed.state / "sample") == 0o700


def test_the_program_stands_under_prefix_with_its_samples_and_the_nodes_side(installed: Machine):
    shared = installed.prefix / "share" / "nodemanager"
    told = subprocess.run(
        [
            installed.prefix / "current" / "bin" / "python",
            "-c",
            "import nodemanager, sysconfig;"
            "print(nodemanager.__file__); print(sysconfig.get_path('data'))",
        ],
        cwd="/",
        check=True,
        capture_output=True,
        text=True,
    ).stdout.splitlines()

    assert installed.command.resolve() == (installed.prefix / "bin" / "nodemanager").resolve()
    assert os.access(installed.command, os.X_OK)
    assert Path(told[0]).is_relative_to(installed.prefix)
    assert Path(told[1], "share", "nodemanager").samefile(shared)
    assert (shared / "sample.cfg").is_file()
    for script in (TREE / "etc" / "node").glob("*"):
        assert mode(shared / "node" / script.name) & 0o111 == mode(script) & 0o111


def test_the_tree_that_was_installed_from_is_left_as_it_was(installed: Machine):
    assert sorted(path.name for path in installed.tree.iterdir()) == [
        *("LICENSE", "Makefile", "README.rst", "etc", "nodemanager", "pyproject.toml", "setup.py")
    ]


@pytest.mark.server("systemd")
@pytest.mark.parametrize("unit", ["nodemanager@.service", "nodemanager-registry.service"])
def test_systemd_has_nothing_to_say_about_the_installed_units(installed: Machine, unit: str):
    done = run("systemd-analyze", "verify", installed.units / unit)

    assert (done.returncode, done.stdout) == (0, "")


@pytest.mark.server("systemd")
def test_systemd_would_have_said_something(tmp_path: Path):
    (tmp_path / "noisy.service").write_text(NOISY_UNIT)

    assert "on-failur" in run("systemd-analyze", "verify", tmp_path / "noisy.service").stdout


@pytest.mark.parametrize("unit", ["nodemanager@.service", "nodemanager-registry.service"])
def test_the_units_name_the_places_that_were_installed_to(installed: Machine, unit: str):
    text = (installed.units / unit).read_text()

    assert f"ExecStart={installed.prefix}/bin/nodemanager " in text
    assert f"--config {installed.config}/" in text
    assert "/opt/nodemanager" not in text
    assert "=/etc/nodemanager" not in text


@pytest.mark.server("logrotate")
def test_logrotate_takes_its_file(installed: Machine, tmp_path: Path):
    # Its user need not be on this machine.
    text = (installed.root / "etc" / "logrotate.d" / "nodemanager").read_text()
    (tmp_path / "own").write_text(text.replace("nodemanager nodemanager", "root root"))

    done = run("/usr/sbin/logrotate", "--debug", "--state", tmp_path / "state", tmp_path / "own")

    assert done.returncode == 0
    assert "error" not in done.stdout
    assert f"rotating pattern: {installed.root}/var/log/nodemanager/*.log" in done.stdout


def test_without_a_sample_of_that_name_nothing_is_installed(tmp_path: Path):
    machine = Machine(tmp_path)
    (machine.tree / "etc" / "sample.cfg").rename(machine.tree / "etc" / "other.cfg")

    code, said = machine.make("install")

    assert code != 0
    assert "There is no sample etc/sample.cfg" in said
    assert "other" in said
    assert not machine.prefix.exists()


def test_a_prefix_that_others_use_is_refused(tmp_path: Path):
    machine = Machine(tmp_path)
    (machine.prefix / "share").mkdir(parents=True)

    code, said = machine.make("install")

    assert code != 0
    assert "PREFIX needs a directory of its own" in said


@pytest.fixture
def copy_of_installed(installed: Machine) -> Iterator[Machine]:
    """The same installation, for tests that change it; those run after the ones that only look."""
    return installed


class TestLaterOn:
    """What happens to one installation, in this order."""

    def test_again_is_an_upgrade_that_keeps_configuration_and_state(
        self, copy_of_installed: Machine
    ):
        machine = copy_of_installed
        (machine.config / "sample.cfg").write_text("[Cloud]\nprovider = local  # ours\n")
        (machine.state / "sample" / "registry.db").write_text("slots")
        (machine.units / "nodemanager@.service").write_text("from an older version")
        package = machine.tree / "nodemanager" / "__init__.py"
        package.write_text(package.read_text().replace('"0.1.0"', '"0.1.1"'))
        (before,) = machine.releases()

        said = machine.install()

        assert f"Kept {machine.config}/sample.cfg" in said
        assert "# ours" in (machine.config / "sample.cfg").read_text()
        assert (machine.state / "sample" / "registry.db").read_text() == "slots"
        assert "ExecStart=" in (machine.units / "nodemanager@.service").read_text()
        assert (machine.prefix / "current").resolve().name.startswith("0.1.1-")
        # A daemon that still runs has its files until it is restarted.
        assert before in machine.releases()

    def test_an_upgrade_that_fails_changes_nothing(self, copy_of_installed: Machine):
        machine = copy_of_installed
        releases, current = machine.releases(), (machine.prefix / "current").resolve()

        code, _ = machine.make("install", INSTALL_PIP_ARGS="--no-such-option")

        assert code != 0
        assert machine.releases() == releases
        assert (machine.prefix / "current").resolve() == current

    def test_uninstall_names_the_running_nodes_and_keeps_state_and_configuration(
        self, copy_of_installed: Machine
    ):
        machine = copy_of_installed
        cloud = machine.state / "sample" / "local-cloud"
        cloud.mkdir()
        (machine.config / "far.cfg").write_text(
            "[Cloud]\nprovider = ec2\n[Cloud Credentials]\nregion = eu-west-1\n"
        )
        node = subprocess.Popen(["sleep", "600"], cwd=cloud)
        try:
            code, said = machine.make("uninstall")
            assert node.poll() is None
        finally:
            node.kill()
            node.wait()

        assert code == 0, said
        assert f"process {node.pid}: sleep 600" in said
        assert "Name=tag:nodemanager-pool,Values=far" in said
        assert "eu-west-1" in said
        for gone in (machine.prefix, machine.command):
            assert not os.path.lexists(gone)
        assert list(machine.units.iterdir()) == []
        assert (machine.config / "sample.cfg").is_file()
        assert (machine.state / "sample" / "registry.db").is_file()
        assert str(machine.state) in said

    def test_uninstall_of_nothing_is_no_error(self, copy_of_installed: Machine):
        code, said = copy_of_installed.make("uninstall")

        assert code == 0, said


def test_a_staged_installation_speaks_of_where_it_will_stand(tmp_path: Path):
    machine = Machine(tmp_path)
    stage = tmp_path / "stage"
    machine.prefix = Path("/opt/nodemanager")

    machine.install(
        DESTDIR=str(stage),
        SYSCONFDIR="/etc",
        LOCALSTATEDIR="/var",
        BINDIR="/usr/bin",
        UNITDIR="/units",
    )

    script = (stage / "opt/nodemanager/bin/nodemanager").read_text()
    assert "/opt/nodemanager/releases/" in "".join(script.splitlines()[:2])
    assert str(stage) not in script
    assert (stage / "usr/bin/nodemanager").readlink() == Path("/opt/nodemanager/bin/nodemanager")
    assert "=/opt/nodemanager/bin/" in (stage / "units/nodemanager@.service").read_text()
    assert mode(stage / "etc/nodemanager/sample.cfg") == 0o640
