"""What a command may not import, so that it starts at once: a set of modules, not a time."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from nodemanager.cli import ENTRIES

pytestmark = pytest.mark.slow

CONFIG = """\
[Daemon]
max_nodes = 3
state_dir = {directory}
[Cloud]
provider = dummy
"""

SERVERS = ("sqlalchemy", "libcloud", "falcon", "uvicorn", "pykka", "alembic", "prometheus_client")
"""What only the daemon and the registry need."""
DECIDING = ("nodemanager.core.plan", "nodemanager.core.judge", "nodemanager.core.execute")
OURS = ("nodemanager.actors", "nodemanager.web", "nodemanager.app.wiring", "nodemanager.cloud")
ALWAYS = (*SERVERS, *DECIDING, *OURS, "requests", "jinja2", "logging.handlers")
"""What a command that asks the daemon or the journal must not import."""
AT_A_TAB = (*ALWAYS, "rich", "http.client", "nodemanager.commands.client")
"""What a completion must not import, besides."""

CHILD = """
import contextlib, io, json, os, sys
from nodemanager import cli

def imported(words, env):
    reading, writing = os.pipe()
    if os.fork() == 0:
        os.environ.update(env)
        sys.argv = ["nodemanager", *words]
        with open(os.devnull, "w") as nowhere:
            os.dup2(nowhere.fileno(), 1)
            os.dup2(nowhere.fileno(), 2)
        try:
            cli.main()
        except BaseException:
            pass
        with os.fdopen(writing, "w") as out:
            json.dump(sorted(sys.modules), out)
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading) as told:
        answer = told.read()
    os.wait()
    return json.loads(answer)

print(json.dumps([imported(words, env) for words, env in json.loads(sys.argv[1])]))
"""

ASKING = {
    "status": (),
    "nodes": (),
    "slots": (),
    "why": (),
    "events": (),
    "orders": (),
    "verify": ("--wait", "0"),
    "hold": ("i-1",),
    "release": ("i-1",),
    "drain": ("i-1",),
    "undrain": ("i-1",),
    "kill": ("i-1", "--yes", "--reason", "x"),
    "clean": ("i-1",),
    "pause": ("--reason", "x"),
    "resume": (),
    "breaker": ("reset",),
    "explain": ("i-1",),
    "log": (),
}
"""The commands that ask a daemon, or read its journal; here there is neither."""

LINES = {
    "a command": "nodemanager no",
    "an id": "nodemanager drain ",
    "a host": "nodemanager explain comp",
    "an option": "nodemanager nodes --",
    "a reason": "nodemanager log --reason sta",
}


def _tab(line: str) -> Mapping[str, str]:
    words = line.split(" ")
    return {
        "_NODEMANAGER_COMPLETE": "bash_complete",
        "COMP_WORDS": line,
        "COMP_CWORD": str(len(words) - 1),
    }


@pytest.fixture(scope="module")
def imported(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, frozenset[str]]:
    """The modules in memory at the end, by what was run; all in forks of one process."""
    where = tmp_path_factory.mktemp("pool")
    config = where / "pool.cfg"
    config.write_text(CONFIG.format(directory=where))
    runs: dict[str, tuple[list[str], Mapping[str, str]]] = {
        "--help": (["--help"], {}),
        **{f"{name} --help": ([name, "--help"], {}) for name in ENTRIES},
        **{name: ([name, *more], {}) for name, more in ASKING.items()},
        **{f"TAB for {what}": ([], _tab(line)) for what, line in LINES.items()},
    }
    env = {**os.environ, "NODEMANAGER_CONFIG": str(config), "PYTHONDONTWRITEBYTECODE": "1"}
    env.pop("NODEMANAGER_URL", None)
    words = [sys.executable, "-c", CHILD, json.dumps(list(runs.values()))]
    done = subprocess.run(
        words,
        env=env,
        cwd=Path(__file__).parents[2],
        capture_output=True,
        text=True,
        timeout=600,
        check=True,
    )
    return {name: frozenset(one) for name, one in zip(runs, json.loads(done.stdout), strict=True)}


def heavy(modules: frozenset[str], forbidden: tuple[str, ...]) -> list[str]:
    return [one for one in forbidden if one in modules]


def test_help_loads_no_subcommand_and_nothing_heavy(
    imported: Mapping[str, frozenset[str]],
) -> None:
    modules = imported["--help"]
    assert "nodemanager.cli" in modules
    assert not [one for one in modules if one.startswith("nodemanager.commands.")]
    assert heavy(modules, (*AT_A_TAB, "nodemanager.config")) == []


@pytest.mark.parametrize("name", ENTRIES)
def test_the_help_of_a_command_loads_nothing_heavy(
    imported: Mapping[str, frozenset[str]], name: str
) -> None:
    modules = imported[f"{name} --help"]
    assert f"nodemanager.commands.{ENTRIES[name].module}" in modules
    assert heavy(modules, (*ALWAYS, "rich")) == []


@pytest.mark.parametrize("name", ASKING)
def test_a_command_to_the_daemon_loads_nothing_of_the_daemon(
    imported: Mapping[str, frozenset[str]], name: str
) -> None:
    modules = imported[name]
    assert "nodemanager.config" in modules
    assert heavy(modules, ALWAYS) == []


@pytest.mark.parametrize("what", LINES)
def test_a_completion_loads_only_what_it_offers(
    imported: Mapping[str, frozenset[str]], what: str
) -> None:
    modules = imported[f"TAB for {what}"]
    assert "click.shell_completion" in modules
    assert heavy(modules, AT_A_TAB) == []
