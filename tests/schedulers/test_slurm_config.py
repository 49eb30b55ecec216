"""`nodemanager slurm-config`: what it prints, and that a real Slurm takes it."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner

from nodemanager.cli import group
from nodemanager.commands.slurm_config import lines, sizes
from nodemanager.config import load
from nodemanager.errors import ConfigError
from nodemanager.lib.clock import SystemClock
from nodemanager.records.slurm import SlurmRecordStore
from nodemanager.records.slurm_nodes import SlurmNodes
from nodemanager.schedulers.slurm import conf
from nodemanager.schedulers.slurm.adapter import SlurmScheduler
from tests.contract.stores import claim, open_sql
from tests.schedulers.slurm_cluster import free_ports_in_a_row, on_this_machine, slurm_cluster
from tests.waiting import until

FILE = """\
[Daemon]
dispatcher = {dispatcher}
max_nodes = 4
[Cloud]
provider = local
[Registry]
slots = 8
hostname = n%(slot_number)02d
[Slurm]
partitions = fast, slow
[Size thin]
instance_type = small
cores = 1
ram = 900
price = 0.01
features = rack1
gres = license:site:4,gpu:2
[Size medium]
gres = license:site:2
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "slurm.cfg"
    path.write_text(FILE.format(dispatcher="slurm"), encoding="utf-8")
    return path


def printed(file: Path) -> list[str]:
    config = load(file, environ={"STATE_DIRECTORY": str(file.parent)})
    return list(lines(config, sizes(config)))


def test_a_slot_of_any_size_has_what_all_sizes_have(file: Path):
    (node,) = (line for line in printed(file) if line.startswith("NodeName="))
    assert node == (
        "NodeName=n[01-08] CPUs=1 RealMemory=900 TmpDisk=4000 "
        "Feature=instancetype=thin,instancetype=small,rack1,instancetype=medium "
        "Gres=license:site:2 Weight=10 "
        'State=DOWN Reason="nodemanager: no machine"'
    )


def test_partitions_and_kinds_of_resources_are_declared(file: Path):
    told = printed(file)
    assert "GresTypes=gpu,license" in told
    assert "ReturnToService=2" in told
    partitions = [line.split()[:2] for line in told if line.startswith("PartitionName=")]
    assert partitions == [
        ["PartitionName=fast", "Nodes=n[01-08]"],
        ["PartitionName=slow", "Nodes=n[01-08]"],
    ]


def recorded(tmp_path: Path) -> Path:
    """The file of a pool whose records are Slurm's own nodes."""
    file = tmp_path / "records.cfg"
    text = FILE.format(dispatcher="slurm").replace("fast, slow", "elastic")
    file.write_text(text + "[Records]\nprovider = slurm\n", encoding="utf-8")
    return file


def test_with_slurms_nodes_as_records_check_cloud_boots_none_and_says_what_to_do(tmp_path: Path):
    """Its own pool has no Slurm to want a node up."""
    told = CliRunner().invoke(group, ["check-cloud", "--boot", str(recorded(tmp_path))])
    assert told.exit_code == 2
    assert "scontrol update NodeName=NAME State=POWER_UP" in told.stderr


def test_with_slurms_nodes_as_records_each_size_has_nodes_of_its_own(tmp_path: Path):
    told = printed(recorded(tmp_path))
    assert [line for line in told if line.startswith(("NodeName=", "PartitionName="))] == [
        "NodeName=thin-[1-4] CPUs=1 RealMemory=900 TmpDisk=4000 "
        "Feature=instancetype=thin,instancetype=small,rack1 Gres=gpu:2,license:site:4 Weight=10 "
        "State=CLOUD",
        "NodeName=medium-[1-4] CPUs=2 RealMemory=3891 TmpDisk=16000 Feature=instancetype=medium "
        "Gres=license:site:2 Weight=40 State=CLOUD",
        "PartitionName=elastic Nodes=thin-[1-4],medium-[1-4] MaxTime=INFINITE State=UP",
    ]
    assert {"PrivateData=cloud", "ResumeTimeout=1800", "SuspendTime=1200"} <= set(told)
    assert "ResumeProgram=/etc/nodemanager/slurm-resume" in told


@pytest.mark.parametrize(
    ("pattern", "slots", "expected"),
    [
        ("compute%(slot_number)d", 64, "compute[1-64]"),
        ("c%(slot_number)04d", 12, "c[0001-0012]"),
        ("a%(slot_number)d", 1, "a1"),
        ("a%(slot_number)d-b", 3, "a1-b,a2-b,a3-b"),
    ],
)
def test_the_names_are_those_of_the_slots(pattern: str, slots: int, expected: str):
    assert conf.hosts(pattern, slots) == expected


def test_a_file_without_slurm_or_without_sizes_is_refused_with_both_reasons(tmp_path: Path):
    file = tmp_path / "other.cfg"
    file.write_text("[Daemon]\nmin_nodes = 1\n[Cloud]\nprovider = local\n", encoding="utf-8")
    with pytest.raises(ConfigError) as refused:
        printed(file)
    assert len(refused.value.problems) == 2
    assert "[Daemon] dispatcher = ping" in refused.value.problems[0]
    assert "[Size NAME]" in refused.value.problems[1]


def test_the_command_prints_them(file: Path):
    done = CliRunner(env={"STATE_DIRECTORY": str(file.parent)}).invoke(
        group, ["slurm-config", "-c", str(file)]
    )
    assert done.exit_code == 0, done.output
    assert done.output.splitlines()[1:] == printed(file)[1:]


@pytest.mark.server("slurm", "munge")
@pytest.mark.live
def test_a_real_slurm_keeps_the_records_of_a_file_with_them(tmp_path: Path):
    folder = tmp_path / "slurm"
    folder.mkdir()
    told = [re.sub("Program=.*", "Program=/bin/true", line) for line in printed(recorded(tmp_path))]
    own = on_this_machine(told, free_ports_in_a_row(8))
    with slurm_cluster(folder, nodes=(), nodes_conf=own) as slurm:
        sql = open_sql(f"sqlite:///{tmp_path}/seats.db", 1)
        store = SlurmRecordStore(sql, SlurmNodes(15.0, conf=str(slurm.conf)), SystemClock())
        assert len(store.list_records().items) == store.slots() == 8
        assert store.create(replace(claim(), size="medium")).hostname == "medium-1"
        slurm.submit("-p", "elastic", "-C", "instancetype=thin", "-w", "thin-2")
        power = SlurmScheduler(
            15.0, conf=str(slurm.conf), partitions=("elastic",), power_saving=True
        )
        power.power_up("medium-1")
        until("its node", lambda: [one.host for one in power.queue()] == ["medium-1", "thin-2"])
        assert [one.instance_type for one in power.queue()] == ["medium", "thin"]


@pytest.mark.server("slurm", "munge")
@pytest.mark.live
def test_a_real_slurm_starts_with_them(file: Path, tmp_path: Path):
    folder = tmp_path / "slurm"
    folder.mkdir()
    own = on_this_machine(printed(file), free_ports_in_a_row(8))
    with slurm_cluster(folder, nodes=(), nodes_conf=own) as slurm:
        nodes = SlurmScheduler(15.0, conf=str(slurm.conf)).nodes().items
        assert [one.name for one in nodes] == [f"n0{number}" for number in range(1, 9)]
        shown = slurm.client("scontrol", "show", "node", "n08")
        for said in ("CPUTot=1 ", "RealMemory=900 ", "Gres=license:site:2", "DOWN", "fast,slow"):
            assert said in shown


@pytest.mark.parametrize(
    ("kept", "suspend_time"),
    [
        ("min_nodes = 1", 604800),
        ("spare_nodes = 1", 604800),
        ("shutdown_windows = 54, 5, 1", 604800),
        ("shutdown_windows = 2, 999999", 300),
        ("shutdown_windows = 50, 999999", 3000),
    ],
)
def test_slurm_suspends_no_idle_nodes_that_the_daemon_is_told_to_keep(
    tmp_path: Path, kept: str, suspend_time: int
):
    file = recorded(tmp_path)
    section = {"min": "[Daemon]", "shu": "[Cloud]", "spa": "[Size thin]"}[kept[:3]]
    text = file.read_text(encoding="utf-8").replace(section, f"{section}\n{kept}")
    file.write_text(text, encoding="utf-8")
    assert f"SuspendTime={suspend_time}" in printed(file)
