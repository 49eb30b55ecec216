"""`nodemanager init` to a first node: its file as it is, with each kind of demand.

Slurm and the local cloud are real; the Arvados server is one that has a container waiting.
"""

from __future__ import annotations

import signal
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from click.testing import CliRunner

from nodemanager import cli
from nodemanager.cloud.local.__main__ import sweep
from nodemanager.commands.init_questions import DEMANDS
from tests.live.harness import Daemon, free_port
from tests.records.arvados_servers import TOKEN, ScriptedApi
from tests.schedulers.arvados_queues import QueueServer, container
from tests.schedulers.slurm_cluster import free_ports_in_a_row, on_this_machine, slurm_cluster

pytestmark = [pytest.mark.live, pytest.mark.server("curl")]

NODES = 2
SMALL = {"vcpus": 1, "ram": 2**28, "keep_cache_ram": 0}
"""What a node of the local cloud's smallest size has room for."""
LATEST_S = 60.0


class Wanted:
    """What waits for a node by each demand: its options for init, and how it comes to wait."""

    def __init__(self, home: Path, stack: ExitStack) -> None:
        self.home, self.stack = home, stack

    def none(self) -> list[str]:
        return []

    def command(self) -> list[str]:
        program = self.home / "wishlist"
        program.write_text("""#!/bin/sh\necho '{"id": "one", "cores": 1}'\n""", encoding="utf-8")
        program.chmod(0o700)
        return [f"wishlist_command={program}"]

    def arvados(self) -> list[str]:
        api = self.stack.enter_context(ScriptedApi())
        QueueServer(api).items["containers"] = [container(1, runtime_constraints=SMALL)]
        return [f"Arvados.host={api.url}", f"Arvados.token={TOKEN}"]

    def slurm(self) -> list[str]:
        (self.home / "slurm").mkdir()
        return [f"Slurm.conf={self.home}/slurm/slurm.conf"]

    def submitted(self, file: Path) -> None:
        """With Slurm: a job waits on the nodes of which init's next command tells."""
        told = invoke("slurm-config", str(file)).splitlines()
        nodes = on_this_machine(told, free_ports_in_a_row(2 * NODES))
        slurm = slurm_cluster(self.home / "slurm", (), nodes_conf=nodes)
        self.stack.enter_context(slurm).submit("-p", "elastic")


def invoke(*words: str) -> str:
    done = CliRunner().invoke(cli.group, words, prog_name="nodemanager")
    assert done.exit_code == 0, done.output
    return done.stdout


@pytest.fixture
def wanted(tmp_path: Path) -> Iterator[Wanted]:
    with ExitStack() as stack:
        yield Wanted(tmp_path, stack)


@pytest.mark.parametrize(
    "demand",
    [
        pytest.param(one, marks=pytest.mark.server("slurm", "munge") if one == "slurm" else ())
        for one in DEMANDS
    ],
)
def test_a_file_of_init_boots_its_first_node(
    demand: str,
    wanted: Wanted,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    record_property: Callable[[str, object], None],
) -> None:
    state, file = tmp_path / "state", tmp_path / "first.cfg"
    monkeypatch.setenv("STATE_DIRECTORY", str(state))
    # Others may run on this machine's usual ports.
    answers = [f"Registry.listen=127.0.0.1:{free_port()}", "Manage.port=0"]
    answers += getattr(wanted, demand)()
    begun = time.monotonic()
    told = invoke(
        *("init", "--cloud", "local", "--demand", demand, "--nodes", str(NODES), "--yes"),
        *(word for answer in answers for word in ("--set", answer)),
        *("--no-check", str(file)),
    )
    assert ("slurm-config" in told) == (demand == "slurm")
    if demand == "slurm":
        wanted.submitted(file)
    assert "fine" in invoke("check-config", str(file))
    daemon = Daemon(file, state, log=tmp_path / "log")
    try:
        daemon.wait_for("node.paired", within=LATEST_S)
    finally:
        daemon.signal(signal.SIGTERM)
        daemon.ended()
        sweep(state / "local-cloud")
    record_property("seconds_to_first_node", round(time.monotonic() - begun, 1))
