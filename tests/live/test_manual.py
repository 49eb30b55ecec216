"""Every command that the manual shows is run beside one running pool, or at least parsed.

A page can't go stale then: a command or option that is gone, or a word that no longer means
anything, fails here by the name of its page and line.
"""

from __future__ import annotations

import lzma
import re
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from nodemanager import cli
from tests.live.cluster import LocalCluster
from tests.live.harness import TREE
from tests.manual import Shown, block_commands
from tests.waiting import until

pytestmark = [pytest.mark.live, pytest.mark.server("curl")]

ONLY_PARSED = {
    "run": "the pool of this test has its daemon",
    "--config": "as `run`",
    "registry": "the daemon serves the registry, too",
    "init": "without --provider it asks at a terminal; tests/commands/test_init.py answers",
    "check-cloud --boot": "it boots a node, for minutes on a cloud; tests/live/test_check_cloud.py",
    "explain job": "no job waits in this pool; tests/live/test_night.py",
    "slurm-config": "it is for a file with Slurm; tests/schedulers/test_slurm_config.py",
}
"""The commands that are not run here, and who runs them."""
MAY_BE_REFUSED = {
    "backlog apply": "nothing waits in this pool",
    "breaker reset": "the breaker is closed",
    "clean": "the node is alive, whatever an operator says",
    "drain": "it may be gone by an earlier command of the manual",
    "kill": "as drain; and of one on hold the manual shows the refusal",
    "release": "it may be on hold no more",
    "verify": "a pool whose nodes were just killed is not at rest",
    "check-config": "a sample asks for what only its reader knows",
}
"""The commands whose exit code may be 1, and why."""
WAITS = 6


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    home = tmp_path_factory.mktemp("manual")
    made = LocalCluster(
        home,
        {
            "Daemon": {"min_nodes": 4, "max_nodes": 4, "node_stale_after": 600},
            "Registry": {"slots": 6},
        },
    )
    with closing(made):
        yield made


@pytest.fixture(scope="module")
def words(cluster: LocalCluster) -> dict[str, str]:
    """What stands in this pool for what the manual's examples name."""
    daemon = cluster.start()
    daemon.wait_for("node.paired", count=4)
    until("four nodes", lambda: len(cluster.tags()) == 4)
    node, record = sorted(cluster.tags().items())[-1]
    journal = cluster.home / "journal.db"
    packed = TREE / "doc" / "incident" / "journal.db.xz"
    journal.write_bytes(lzma.decompress(packed.read_bytes()))
    return {
        r"(/?etc/(nodemanager/)?)?(NAME|[a-z0-9]+)\.cfg": str(cluster.config),
        r"JOURNAL|(doc/incident/)?journal\.db": str(journal),
        r"RECORD|SLOT|HOST": record,
        r"NODE|ID|local-[0-9a-f]{20}": node,
        r"compute\d+": "compute1",
        r"leaked\.plan": str(cluster.home / "leaked.plan"),
    }


def here(shown: Shown, words: dict[str, str]) -> list[str]:
    """The command's words, with this pool's names."""
    given = []
    for word in shown.words:
        for pattern, ours in words.items():
            word = ours if re.fullmatch(pattern, word) else word
        given.append(word)
    return given


def kind_of(shown: Shown, among: dict[str, str]) -> str | None:
    """Which of these the command is."""
    for name in among:
        parts = name.split()
        if shown.words[0] == parts[0] and set(parts) <= set(shown.words):
            return name
    return None


def test_every_command_of_the_manual_runs(
    cluster: LocalCluster,
    words: dict[str, str],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("NODEMANAGER_CONFIG", str(cluster.config))
    monkeypatch.setenv("STATE_DIRECTORY", str(cluster.state))
    monkeypatch.chdir(cluster.home)
    wrong, ran = [], 0
    done: set[tuple[str, ...]] = set()
    # The file that the manual's reader has by then, and will write.
    plan = Path(words[r"leaked\.plan"])
    cli_exit("backlog", "plan", "--out", str(plan))
    for shown in block_commands():
        given = here(shown, words)
        # One page's `resume` ends that page's pause: another page's pause has its own.
        again = tuple(given) in done and given[0] != "resume"
        if shown.synopsis or kind_of(shown, ONLY_PARSED) or again:
            continue
        done.add(tuple(given))
        if "--out" in given:
            plan.unlink()
        code = cli_exit(*ended_soon(given))
        said = capsys.readouterr()
        ran += 1
        allowed = {0, 1} if kind_of(shown, MAY_BE_REFUSED) else {0}
        lost = "no daemon answers" in said.err
        # A list of bare names is for other programs, and empty where no node is in that state.
        told = said.out or said.err or "-o" in given
        if code not in allowed or lost or not told:
            wrong.append(f"{shown}: exit {code}\n{said.err[-500:]}{said.out[-1000:]}")
    assert not wrong, "\n".join(wrong)
    assert ran > 40


def cli_exit(*given: str) -> int:
    """The exit code of that command line."""
    try:
        cli.main(given)
    except SystemExit as end:
        return int(end.code or 0)
    return 0


def ended_soon(given: list[str]) -> list[str]:
    """The command without what makes it run until Ctrl-C, wait for minutes, or ask."""
    kept = ["--yes"] if given[0] == "kill" else []
    for at, word in enumerate(given):
        if word in ("--watch", "--follow", "-f"):
            continue
        kept.append(f"{WAITS}s" if at and given[at - 1] == "--wait" and word != "0" else word)
    return [*kept[1:], kept[0]] if kept[0] == "--yes" else kept
