"""`make install`, again as an upgrade, and `make uninstall`, in directories of the test's own."""

from __future__ import annotations

import os
import sys
import sysconfig
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.packaging.conftest import TREE, run
from tests.packaging.machine import NEXT, Machine

MANUAL = (Path("man/man1/nodemanager.1"), Path("man/man5/nodemanager.cfg.5"))
WORDS = (
    Path("bash-completion/completions/nodemanager"),
    Path("zsh/site-functions/_nodemanager"),
    Path("fish/vendor_completions.d/nodemanager.fish"),
)
NOISY_UNIT = """[Service]
ExecStart=/bin/true
Restart=on-failur
"""

LOCAL = "[Daemon]\nmin_nodes = 1\n[Cloud]\nprovider = local\n"
FAR = "[Cloud]\nprovider = ec2\nno_such_option = 1\n"
CREATE_NODE = """
import sys
from pathlib import Path
from nodemanager.app import adapters
from nodemanager.lib.clock import SystemClock
from nodemanager.cloud.api import CreateOrder
from nodemanager.config import load
from nodemanager.core.model.world import Tags

cloud = adapters.build_cloud(load(Path(sys.argv[1])), SystemClock())
tags = Tags(pool="sample", record="zzzzz-7ekkf-000000000000001", incarnation="ab" * 16)
order = CreateOrder("node-1", cloud.list_sizes()[0], tags, "token", "http://127.0.0.1:1/ping")
print(cloud.create(order).id)
"""


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
    program, data = installed.python(
        "import nodemanager, sysconfig;"
        "print(nodemanager.__file__); print(sysconfig.get_path('data'))"
    ).splitlines()

    assert installed.command.resolve() == (installed.prefix / "bin" / "nodemanager").resolve()
    assert os.access(installed.command, os.X_OK)
    assert Path(program).is_relative_to(installed.prefix)
    assert Path(data, "share", "nodemanager").samefile(shared)
    assert (shared / "sample.cfg").is_file()
    for script in (TREE / "etc" / "node").glob("*"):
        assert mode(shared / "node" / script.name) & 0o111 == mode(script) & 0o111


def test_the_tree_that_was_installed_from_is_left_as_it_was(installed: Machine):
    assert sorted(path.name for path in installed.tree.iterdir()) == [
        *("LICENSE", "Makefile", "README.rst", "constraints.txt", "etc", "nodemanager"),
        *("pyproject.toml", "setup.py"),
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


def test_where_a_file_needs_libvirt_nothing_is_installed_without_it(
    tmp_path: Path, program: Callable[[str, str], Path]
):
    machine = Machine(tmp_path)
    (machine.tree / "etc" / "sample.cfg").write_text("[Cloud]\nprovider = libvirt\n")
    place = program("pkg-config", "exit 1").parent

    code, said = machine.make("install", PATH=f"{place}:{os.environ['PATH']}")

    assert code != 0
    assert "apt-get install libvirt-dev pkg-config gcc python3-dev" in said
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
        machine.is_now(NEXT)
        assert not (machine.root / "share").exists()
        built = machine.tree / "doc" / "_build" / "man"
        built.mkdir(parents=True)
        for page in MANUAL:
            (built / page.name).write_text(f".TH {page.stem}\n")
        (before,) = machine.releases()

        said = machine.install(PYTHONPATH=sysconfig.get_path("purelib"))

        assert f"Kept {machine.config}/sample.cfg" in said
        assert "# ours" in (machine.config / "sample.cfg").read_text()
        assert (machine.state / "sample" / "registry.db").read_text() == "slots"
        assert "ExecStart=" in (machine.units / "nodemanager@.service").read_text()
        assert (machine.prefix / "current").resolve().name.startswith(f"{NEXT}-")
        # A daemon that still runs has its files until it is restarted.
        assert before in machine.releases()

    def test_manual_pages_that_were_built_are_installed_where_man_looks(
        self, copy_of_installed: Machine
    ):
        machine = copy_of_installed
        for page in MANUAL:
            link = machine.root / "share" / page
            assert link.readlink() == machine.prefix / "share" / page
            assert link.read_text() == f".TH {page.stem}\n"

    def test_shells_find_what_they_complete_by(self, copy_of_installed: Machine):
        for path in WORDS:
            link = copy_of_installed.root / "share" / path
            assert link.readlink() == copy_of_installed.prefix / "share" / path
            assert "_NODEMANAGER_COMPLETE=" in link.read_text()

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
        machine.give_dependencies()
        machine.keep()
        (machine.config / "sample.cfg").write_text(LOCAL)
        (machine.config / "far.cfg").write_text(FAR)
        (machine.state / "sample" / "registry.db").write_text("slots")
        cloud = machine.state / "sample" / "local-cloud"
        node = machine.python(CREATE_NODE, machine.config / "sample.cfg")
        try:
            code, said = machine.make("uninstall")
        finally:
            swept = run(sys.executable, "-m", "nodemanager.cloud.local", "sweep", cloud)

        assert code == 0, said
        assert f"    {node} node-1 (" in said
        assert "the cloud could not be asked: ConfigError" in said
        assert "Name=tag:nodemanager-pool,Values=far" in said
        assert f"ended node {node}" in swept.stdout
        for gone in (machine.prefix, machine.command):
            assert not os.path.lexists(gone)
        assert list(machine.units.iterdir()) == []
        assert not [
            path for path in MANUAL + WORDS if os.path.lexists(machine.root / "share" / path)
        ]
        assert (machine.config / "sample.cfg").read_text() == LOCAL
        assert (machine.state / "sample" / "registry.db").read_text() == "slots"
        assert str(machine.state) in said

    def test_uninstall_asks_as_the_services_user_what_lies_in_its_directories(
        self, copy_of_installed: Machine, program: Callable[[str, str], Path], tmp_path: Path
    ):
        """X7: as root it wrote through links that the service's user may have planted."""
        machine = copy_of_installed
        machine.restore()
        asked = tmp_path / "asked"
        program("id", "echo 0")
        program("systemctl", "exit 0")
        program("getent", "echo nodemanager:x:995:995::/var/lib/nodemanager:/usr/sbin/nologin")
        # Drops nothing here; says as whom, from where, and goes on with what it was given.
        shim = program("runuser", f'echo "$PWD $*" >> {asked}; shift 3; exec "$@"')
        (machine.config / "sample.cfg").write_text("[Cloud]\nprovider = dummy\n")

        path = f"{shim.parent}:{os.environ['PATH']}"
        code, said = machine.make("uninstall", NM_NO_USER="", PATH=path)

        assert code == 0, said
        line = asked.read_text()
        assert line.startswith("/ -u nodemanager -- env HOME=/var/lib/nodemanager ")
        assert line.count("\n") == 1
        assert "nodes that are left alone" in said
        assert "    no node" in said

    def test_uninstall_without_the_services_user_asks_nothing(
        self, copy_of_installed: Machine, program: Callable[[str, str], Path]
    ):
        """X7."""
        machine = copy_of_installed
        machine.restore()
        program("id", "echo 0")
        program("systemctl", "exit 0")
        shim = program("getent", "exit 2")
        path = f"{shim.parent}:{os.environ['PATH']}"
        code, said = machine.make("uninstall", NM_NO_USER="", PATH=path)
        assert code == 0, said
        assert "look for nodes by the tag nodemanager-pool" in said
        assert "left alone" not in said

    def test_uninstall_says_what_stays_of_a_cloud_s_own(self, copy_of_installed: Machine):
        machine = copy_of_installed
        machine.config.mkdir(parents=True, exist_ok=True)
        (machine.config / "sample.cfg").write_text("[Cloud]\nprovider = dummy\n")
        code, said = machine.make("uninstall")
        assert code == 0, said
        assert "libvirt" not in said
        assert "openstack" not in said
        (machine.config / "one.cfg").write_text("[Cloud]\nprovider = libvirt\n")
        (machine.config / "two.cfg").write_text("[Cloud]\nprovider: openstack\n")
        code, said = machine.make("uninstall")
        assert code == 0, said
        assert "apt-get remove libvirt-dev" in said
        assert "gpasswd --delete nodemanager libvirt" in said
        assert "openstack application credential delete" in said

    def test_uninstall_of_nothing_is_no_error(self, copy_of_installed: Machine):
        code, said = copy_of_installed.make("uninstall")

        assert code == 0, said


def test_a_staged_installation_speaks_of_where_it_will_stand(tmp_path: Path):
    machine = Machine(tmp_path)
    stage = tmp_path / "stage"
    machine.prefix = Path("/opt/nodemanager")
    # As Debian's, it has no pip of its own.
    made = run(sys.executable, "-m", "venv", "--without-pip", tmp_path / "bare")
    assert made.returncode == 0, made.stdout

    machine.install(
        PYTHON=str(tmp_path / "bare" / "bin" / "python"),
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
