"""`make install` of the next version while the daemon of this one runs, with two working nodes."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from nodemanager import __version__
from tests.live.harness import Registry, claim_of, free_port
from tests.packaging.conftest import environment, run
from tests.packaging.machine import NEXT, Machine
from tests.waiting import until

TOKEN = "registry-token"
TWO_NODES = """\
[Daemon]
min_nodes = 2
max_nodes = 2
cloudlist_poll_time = 1
nodelist_poll_time = 1
[Cloud]
provider = local
[Cloud Create]
ping_interval = 1
work_for = 600
[Registry]
listen = 127.0.0.1:{port}
token = {token}
"""
LASTING = ("slot_number", "hostname", "first_ping_at")
"""What no ping changes of a record."""


class Service:
    """The installed daemon, started as its unit starts it."""

    def __init__(self, machine: Machine) -> None:
        self.command = machine.command
        self.state = machine.state / "sample"
        self.file = machine.config / "sample.cfg"
        self.log = machine.root / "log"
        port = free_port()
        self.file.write_text(TWO_NODES.format(port=port, token=TOKEN))
        self.registry = Registry(f"http://127.0.0.1:{port}", TOKEN)
        self.env = environment(STATE_DIRECTORY=str(self.state), PYTHONPATH="")

    @contextmanager
    def running(self) -> Iterator[None]:
        """It runs meanwhile, and ends well."""
        with self.log.open("a") as out:
            daemon = subprocess.Popen(
                [self.command, "run", "--config", self.file], cwd="/", env=self.env, stderr=out
            )
        try:
            yield
            daemon.terminate()
            assert daemon.wait(60) == 0, self.log.read_text()
        finally:
            daemon.kill()

    def ask(self, *words: str) -> dict[str, Any]:
        """What a command of the installed program answers, once the daemon does."""

        def answer() -> str:
            words_here = [self.command, *words, "--json", "--config", self.file]
            done = subprocess.run(
                words_here, cwd="/", env=self.env, capture_output=True, check=False, text=True
            )
            return "" if done.returncode else done.stdout

        found: dict[str, Any] = json.loads(until(" ".join(words), answer, told=self.log.read_text))
        return found

    def nodes(self) -> set[tuple[str, str, int]]:
        """Both nodes with their records and slots, once they work."""

        def working() -> set[tuple[str, str, int]]:
            rows = self.ask("nodes")["nodes"]
            found = {
                (row["node"], row["record"], row["slot"]) for row in rows if row["state"] == "busy"
            }
            return found if len(found) == 2 else set()

        return until("two nodes that work", working, told=self.log.read_text)

    def records(self) -> dict[str, Any]:
        """Whose each record is, and what no ping changes of it."""
        return {
            uuid: (claim_of(row), *(row[name] for name in LASTING))
            for uuid, row in self.registry.rows().items()
        }


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    made = Machine(tmp_path)
    made.install()
    made.give_dependencies()
    return made


@pytest.fixture
def service(machine: Machine) -> Iterator[Service]:
    made = Service(machine)
    yield made
    run(sys.executable, "-m", "nodemanager.cloud.local", "sweep", made.state / "local-cloud")


@pytest.mark.proof
@pytest.mark.live
@pytest.mark.slow
@pytest.mark.server("curl")
def test_an_upgrade_leaves_nodes_records_and_orders_as_they_were(
    machine: Machine, service: Service
):
    with service.running():
        nodes, records = service.nodes(), service.records()
        held, _, _ = min(nodes)
        service.ask("hold", held, "--reason", "mine")

        machine.is_now(NEXT)
        machine.install()
        machine.give_dependencies()
        version = run(machine.command, "--version", PYTHONPATH="")
        still = service.ask("status")
    with service.running():
        now = service.ask("status")
        after = service.nodes(), service.records()

    assert version.stdout == f"nodemanager, version {NEXT}\n"
    assert (still["Version"], now["Version"]) == (__version__, NEXT)
    assert after == (nodes, records)
    assert [(one["kind"], one["id"]) for one in now["marks"]] == [("hold", held)]
    story = service.log.read_text()
    assert story.count("event=node.created ") == 2
    assert "event=record.clean " not in story
    assert "Traceback" not in story
