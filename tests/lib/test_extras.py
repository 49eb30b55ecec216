"""What works without the extras, and what says by name that it needs one."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from nodemanager.config import load
from nodemanager.errors import ConfigError
from nodemanager.lib import extras
from nodemanager.lib.extras import MODULES, NeededExtra, needs

pytestmark = pytest.mark.slow

TREE = Path(__file__).parents[2]
FOREIGN = (*MODULES.values(), "googleapiclient", "httplib2")
BARE = f"""
import sys
sys.modules.update(dict.fromkeys({FOREIGN!r}))
from nodemanager.cli import main
codes = []
for file in sys.argv[2:]:
    try:
        main([sys.argv[1], file])
    except SystemExit as ended:
        codes.append(ended.code)
sys.exit(max(codes))
"""
"""The command on one file after the other, where no extra can be imported; its highest code."""
ALL_NEEDED = """\
[Arvados]
host = arvados.example.org
token = x
[Daemon]
min_nodes = 1
[Cloud]
provider = ec2
[Cloud Credentials]
region = us-east-1
[Cloud Create]
image_id = ami-12345678
key_name = k
ping_host = registry.example.org
"""


def bare(name: str, *files: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", BARE, name, *map(str, files)]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)


def of(**values: str) -> list[NeededExtra]:
    """The needs of a file with these values, written `Section__option`."""
    given = {tuple(key.replace("_x_", " ").split("__", 1)): text for key, text in values.items()}
    return list(needs(lambda section, option: given.get((section, option), "")))


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        pytest.param({"Cloud__provider": "local"}, [], id="local"),
        pytest.param(
            {"Records__provider": "arvados", "Lease__database": "postgresql://db/x"},
            ["arvados", "postgres"],
            id="a-lease-beside-arvados",
        ),
        pytest.param({"Cloud__provider": "ec2"}, ["ec2"], id="ec2-by-the-chain"),
        pytest.param(
            {"Cloud__provider": "ec2", "Cloud_x_Credentials__key": "AKIA"}, [], id="ec2-by-a-key"
        ),
        *(
            pytest.param({"Cloud__provider": cloud}, [cloud], id=cloud)
            for cloud in ("azure", "gce", "openstack")
        ),
        pytest.param({"Cloud__provider": "libvirt"}, ["libvirt"], id="libvirt"),
        pytest.param(
            {"Cloud__provider": "dummy", "Records__provider": "arvados"}, ["arvados"], id="arvados"
        ),
        pytest.param(
            {"Registry__database": "postgresql://u@h/d"}, ["postgres"], id="registry-on-postgresql"
        ),
        pytest.param({"Registry__database": "sqlite:////x.db"}, [], id="registry-on-sqlite"),
    ],
)
def test_a_file_needs_what_it_uses_and_no_more(values: dict[str, str], expected: list[str]):
    assert [need.extra for need in of(**values)] == expected


def test_each_extra_that_is_missing_is_told_at_its_line_with_the_command(tmp_path: Path):
    file = tmp_path / "pool.cfg"
    file.write_text(ALL_NEEDED)

    done = bare("check-config", file)

    first, second = done.stderr.splitlines()
    assert done.returncode == 2
    assert first.startswith(f"{file}:1: [Records] provider = arvados: needs the extra arvados")
    assert second.startswith(f"{file}:7: [Cloud] provider = ec2: needs the extra ec2")
    assert second.endswith(f"{sys.executable} -m pip install 'elastic-nodemanager[ec2]'")


def test_the_daemon_and_the_registry_say_the_same_instead_of_failing_later(tmp_path: Path):
    pool, registry = tmp_path / "pool.cfg", tmp_path / "registry.cfg"
    pool.write_text(ALL_NEEDED)
    registry.write_text("[Registry]\ndatabase = postgresql://u:hush@127.0.0.1/d\n")

    for done in (bare("run", pool), bare("registry", registry)):
        assert done.returncode == 2
        assert "needs the extra" in done.stderr
        assert "Traceback" not in done.stderr
        assert "hush" not in done.stderr


def test_without_any_extra_a_sample_that_needs_none_is_fine():
    samples = [TREE / "etc" / f"{one}.cfg" for one in ("local", "dummy", "registry")]
    done = bare("check-config", *samples)

    assert done.returncode == 0, done.stderr
    assert done.stdout.count(": fine") == len(samples)


def test_a_file_is_read_for_a_client_command_whatever_its_daemon_needs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    (tmp_path / "pool.cfg").write_text(ALL_NEEDED)
    monkeypatch.setattr(extras, "is_installed", lambda extra: False)

    assert load(tmp_path / "pool.cfg").cloud.provider == "ec2"
    with pytest.raises(ConfigError):
        load(tmp_path / "pool.cfg", accepts=lambda provider: {})


def test_a_sample_of_a_cloud_without_its_extra_is_told_at_its_line():
    samples = ("azure", "gce", "openstack")
    done = bare("check-config", *(TREE / "etc" / f"{one}.cfg" for one in samples))

    assert done.returncode == 2
    for one in samples:
        assert f"[Cloud] provider = {one}: needs the extra {one}" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("module", "without"),
    [
        ("libvirt.adapter", ("azure", "google", "keystoneauth1", "botocore")),
        ("ec2.adapter", ("azure", "google", "keystoneauth1")),
        ("gce.adapter", ("azure", "keystoneauth1", "botocore")),
    ],
)
def test_a_cloud_imports_no_library_of_another_one(module: str, without: tuple[str, ...]):
    code = f"import sys, nodemanager.cloud.{module}; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert not set(without) & set(done.stdout.split())


def test_where_there_is_no_pip_make_install_is_what_adds_an_extra(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(extras, "find_spec", lambda name: None)

    assert "`make install` again" in extras.lacks("ec2")


def test_the_http_server_answers_on_the_standard_loop_as_well():
    code = (
        "import sys; sys.modules['uvloop'] = None\n"
        "import asyncio\n"
        "from nodemanager.httpserver import server\n"
        "print(type(server._new_loop()) is type(asyncio.new_event_loop()))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert done.stdout == "True\n"


@pytest.mark.parametrize(
    ("sample", "expected"),
    [
        ("ec2", ["ec2", "uvloop"]),
        ("arvados", ["arvados", "ec2", "uvloop"]),
        ("gce", ["gce", "uvloop"]),
        ("local", ["uvloop"]),
    ],
)
def test_make_install_takes_what_a_file_may_need_once_it_is_filled_in(
    sample: str, expected: list[str]
):
    done = subprocess.run(
        [sys.executable, "-B", "etc/install/needs.py", f"etc/{sample}.cfg", "etc/no-such.cfg"],
        cwd=TREE,
        capture_output=True,
        text=True,
        check=True,
    )

    assert done.stdout.split() == expected
