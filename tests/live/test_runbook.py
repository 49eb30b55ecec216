"""Every command of the runbook, typed in an incident of its alert: each finds what the page says.

A daemon, its nodes and its registry are real processes; the cloud is the local one, with faults.
What only a cloud with volumes has, and what is the machine's own, is found elsewhere.
"""

from __future__ import annotations

import os
import re
import shlex
import signal
import subprocess
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path

import pytest
import requests

from nodemanager import cli
from tests.live.cluster import LocalCluster
from tests.live.faulty import DRIVER, Faults
from tests.live.harness import TREE, Daemon, free_port
from tests.waiting import until

pytestmark = [pytest.mark.live, pytest.mark.server("curl"), pytest.mark.timeout(400)]

NODES, SLOTS = 3, 3
PAGE = TREE / "doc/runbook.rst"
MACHINE = ("systemctl", "journalctl -k", "ssh", "df", "cp")
"""Programs that ask the machine or a node, and know nothing of us."""
LOOKS = "grep|nodemanager (status|nodes|slots|orders|log|explain|check-|replay)"
ELSEWHERE = {
    "NodemanagerLeftovers": "tests/live/test_ec2_leftovers.py: the local cloud has no volumes",
}
"""Who finds what this incident has not."""


def sections() -> dict[str, list[str]]:
    """What the page says to type for each alert."""
    found: dict[str, list[str]] = {}
    for alert, text in re.findall(
        r"(?m)^(Nodemanager\w+)\n-+\n(.*?)(?=^Nodemanager\w+\n-|\Z)", PAGE.read_text(), re.DOTALL
    ):
        block = text.partition("**What to type.** ::")[2]
        found[alert] = [line.strip() for line in block.splitlines() if line.startswith("    ")]
    return found


SECTIONS = sections()


@dataclass
class Operator:
    """Types what the page says, and reads what comes; `done` are the alerts so far."""

    cluster: LocalCluster
    daemon: Daemon
    capsys: pytest.CaptureFixture[str]
    done: set[str] = field(default_factory=set)

    def reads(self, alert: str, finds: dict[str, str], **names: str) -> None:
        """Type all of that alert's section.

        `finds` says what the answer to a command with these words must have; every other one must
        have an answer. `names` are what the page's capital words stand for.
        """
        self.done.add(f"Nodemanager{alert}")
        known = {"NAME.cfg": str(self.cluster.config), "JOURNAL": str(self.journal), **names}
        unused = set(finds)
        for line in SECTIONS[f"Nodemanager{alert}"]:
            if line.startswith(MACHINE):
                continue
            wanted = [pattern for words, pattern in finds.items() if words in line] or ["."]
            unused -= {words for words in finds if words in line}
            self.finds(alert, line, wanted, known)
        assert not unused, f"{alert} says nowhere: {unused}"

    def finds(self, alert: str, line: str, wanted: list[str], known: dict[str, str]) -> None:
        """Type it; what only looks is typed again until the next cycle's picture has it."""
        answers: list[str] = []

        def found() -> bool:
            answers.append(self.greps(line) if "grep" in line else self.types(line, known))
            return all(re.search(one, answers[-1]) for one in wanted)

        if re.search(LOOKS, line):
            until(f"{alert}: {line}: {wanted}", found, 15.0, told=lambda: answers[-1])
        else:
            assert found(), f"{alert}: {line}: {wanted}\n{answers[-1]}"

    @property
    def journal(self) -> Path:
        return self.cluster.state / "journal.db"

    def types(self, line: str, known: dict[str, str]) -> str:
        if line.startswith("journalctl"):
            return self.daemon.log.read_text(encoding="utf-8")
        words = [known.get(word, word) for word in shlex.split(line)]
        assert words.pop(0) == "nodemanager", line
        self.capsys.readouterr()
        with pytest.raises(SystemExit) as end:
            cli.main(words)
        told = self.capsys.readouterr()
        assert end.value.code in (0, 1, None), (line, told)
        assert "no daemon answers" not in told.err, told.err
        return told.out + told.err

    def greps(self, line: str) -> str:
        """What the page's grep finds in the daemon's log."""
        words = shlex.split(line)
        begin = words.index("grep")
        end = words.index("|", begin) if "|" in words[begin:] else len(words)
        return subprocess.run(
            [*words[begin:end], str(self.daemon.log)], capture_output=True, text=True, check=False
        ).stdout


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[LocalCluster]:
    made = LocalCluster(
        tmp_path / "cluster",
        {
            "Daemon": {"min_nodes": NODES, "max_nodes": NODES, "boot_fail_after": 12},
            "Cloud": {"driver_class": DRIVER},
            "Cloud Create": {"work_for": 3600, "image": "worker"},
            "Registry": {"slots": SLOTS, "listen": f"127.0.0.1:{free_port()}"},
            "Cleaning": {"visible_after": 3},
        },
    )
    made.name_image("worker", "image-1")
    with closing(made):
        yield made


@pytest.fixture
def operator(
    cluster: LocalCluster, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Operator:
    monkeypatch.setenv("NODEMANAGER_CONFIG", str(cluster.config))
    monkeypatch.setenv("STATE_DIRECTORY", str(cluster.state))
    monkeypatch.chdir(cluster.home)
    return Operator(cluster, cluster.start(), capsys)


def test_every_command_of_the_runbook_finds_what_it_is_for(
    cluster: LocalCluster, operator: Operator
) -> None:
    daemon = operator.daemon
    daemon.wait_for("node.paired", count=NODES)
    faults = Faults(cluster.state / "local-cloud")
    nothing_is_wrong(operator)
    somebody_guesses(operator)
    there_is_a_newer_image(cluster, operator)
    the_image_is_gone(cluster, operator, faults)
    a_node_never_pings(cluster, operator, faults)
    the_cloud_is_away(operator, faults)
    a_slot_leaks(cluster, operator)
    a_live_node_is_denied(cluster, operator, faults)
    assert operator.done | ELSEWHERE.keys() == SECTIONS.keys()


def nothing_is_wrong(operator: Operator) -> None:
    """What is looked at beside the manager's own state."""
    operator.reads("Down", {"journalctl": "event=daemon.started", "check-config": "fine"})
    operator.reads("Stalled", {"status": "polls"})
    operator.reads("Restarts", {"grep -E": "event=daemon.started"})
    operator.reads("NoActiveManager", {"log --since": "lease.acquired|node.paired"})
    operator.reads("TwoActiveManagers", {"--show": r"pool = live"})
    operator.reads("ReadOnly", {"--show": "state_dir = ", "status": "apply"})
    operator.reads("UnusedRecords", {"status": f"{NODES} in use", "reload": "."})
    operator.reads("SparesLack", {"why": "small", "check-cloud": "size"})
    operator.reads("JobsUnsatisfiable", {"--json": "unsatisfiable", "--show": "max_nodes = 3"})
    operator.types("nodemanager pause --reason 'an upgrade'", {})
    operator.reads("Paused", {"orders": "an upgrade", "resume": "goes on"})


def somebody_guesses(operator: Operator) -> None:
    url = operator.daemon.url_of("management")
    requests.get(f"{url}/status.json", headers={"Authorization": "Bearer guessed"}, timeout=10)
    operator.daemon.wait_for("request.refused")
    operator.reads("WrongTokens", {"grep": "event=request.refused", "nodes": "compute1"})


def there_is_a_newer_image(cluster: LocalCluster, operator: Operator) -> None:
    """Each node is outdated, and works on; then the image is the former one again."""
    cluster.name_image("worker", "image-2")
    outdated = {"status": rf"rotation +.*{NODES}"}
    operator.reads("NodesOutdated", {**outdated, "nodes": "compute1"})
    node = sorted(cluster.tags())[0]
    operator.reads("RotationStalled", {**outdated, "drain": node}, NODE=node)
    operator.types(f"nodemanager undrain {node}", {})
    cluster.name_image("worker", "image-1")


def lost(cluster: LocalCluster, operator: Operator) -> tuple[str, str]:
    """A node that works is killed; its id and its record's."""
    node, record = sorted(cluster.tags().items())[0]
    before = operator.daemon.last()
    cluster.kill_node(node)
    operator.daemon.wait_for("node.lost", after=before, node=node)
    return node, record


def the_image_is_gone(cluster: LocalCluster, operator: Operator, faults: Faults) -> None:
    faults.set(refused="there is no such image")
    lost(cluster, operator)
    operator.daemon.wait_for("node.setup_failed")
    operator.reads("CreatesFail", {"grep": "there is no such image", "check-cloud": "listing"})
    operator.reads("NoCapacity", {"status": "boots", "check-cloud": "size"})
    faults.set(refused=None)


def a_node_never_pings(cluster: LocalCluster, operator: Operator, faults: Faults) -> None:
    """It is frozen as soon as it is there."""
    known = set(cluster.running())
    new = until("another node", lambda: set(cluster.pids()) - known, told=operator.daemon.told)
    for node in new:
        os.killpg(cluster.pids()[node], signal.SIGSTOP)
    operator.daemon.wait_for("node.shutdown_started", reason="boot_failed")
    operator.reads(
        "BootsFail", {"log --since": "reason=boot_failed", "check-cloud": ".", "reset": "breaker"}
    )
    operator.reads("NoPings", {"check-cloud": "ok .* ping answer", "nodes": "compute"})
    operator.daemon.wait_for("node.paired", count=NODES + 1)


def the_cloud_is_away(operator: Operator, faults: Faults) -> None:
    before = operator.daemon.last()
    faults.set(outage=True)
    operator.daemon.wait_for("list.failed", after=before, source="cloud", count=3)
    until("an old poll", lambda: "OLD" in operator.types("nodemanager status", {}).upper())
    found = {"grep": "event=list.failed", "check-cloud": "failed"}
    operator.reads("PollStale", {"status": "cloud", **found})
    operator.reads("PollFails", found)
    faults.set(outage=False)
    operator.daemon.wait_for("list.ok", after=before, source="cloud")


def a_slot_leaks(cluster: LocalCluster, operator: Operator) -> None:
    """A record is held when its node is lost."""
    record = sorted(cluster.tags().items())[0][1]
    operator.types(f"nodemanager hold {record} --reason 'I am logged in'", {})
    lost(cluster, operator)
    operator.daemon.wait_for("slots.full")
    slot = str(operator.daemon.wait_for("node.paired", record=record)["slot"])
    names = {"SLOT": slot, "RECORD": record}
    full = {"slots": "leaked.* held", "status": "held", "explain": "hold"}
    operator.reads("SlotsFull", full, **names)
    operator.reads("SlotsRunOut", {"slots": "leaked"})
    operator.reads("TooManySlotsPerNode", {"slots": "leaked", "replay": "slot-hours"}, **names)
    operator.reads("SlotsLeak", {"slots": "leaked.* held", "release": "on hold no longer"}, **names)


def a_live_node_is_denied(cluster: LocalCluster, operator: Operator, faults: Faults) -> None:
    """It freezes, the cloud denies it until its slot is free, and then it is there again."""
    node, record = sorted(cluster.tags().items())[0]
    before, pid = operator.daemon.last(), cluster.pids()[node]
    os.killpg(pid, signal.SIGSTOP)
    try:
        faults.set(lost=[node])
        operator.daemon.wait_for("record.cleaned", after=before, record=record)
        faults.set(lost=[])
        operator.daemon.wait_for("record.false_clean", after=before, record=record)
    finally:
        os.killpg(pid, signal.SIGCONT)
    names = {"RECORD": record}
    operator.reads("BreakerOpen", {"status": "false_clean", "log": "breaker.opened"})
    operator.reads("FalseClean", {"log": "event=record.false_clean", "explain": record}, **names)
    operator.reads("RuleBroken", {"log": "invariant.broken", "explain": record}, **names)
