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
import json, os, sys
from nodemanager import cli

def imported(group):
    reading, writing = os.pipe()
    if os.fork() == 0:
        with open(os.devnull, "w") as nowhere:
            os.dup2(nowhere.fileno(), 1)
            os.dup2(nowhere.fileno(), 2)
        after = {}
        for name, (words, env) in group.items():
            os.environ.update(env)
            sys.argv = ["nodemanager", *words]
            try:
                cli.main()
            except BaseException:
                pass
            after[name] = sorted(sys.modules)
        with os.fdopen(writing, "w") as out:
            json.dump(after, out)
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading) as told:
        answer = told.read()
    os.wait()
    return json.loads(answer)

print(json.dumps([imported(group) for group in json.loads(sys.argv[1])]))
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


Group = Mapping[str, tuple[list[str], Mapping[str, str]]]
"""Words and variables of commands that are run one after another in one process, by their names."""
GROUPS: tuple[Group, ...] = (
    {"--help": (["--help"], {})},
    {name: ([name, "--help"], {}) for name in ENTRIES},
    {name: ([name, *more], {}) for name, more in ASKING.items()},
    {what: ([], _tab(line)) for what, line in LINES.items()},
)


Imported = list[Mapping[str, frozenset[str]]]


@pytest.fixture(scope="module")
def imported(tmp_path_factory: pytest.TempPathFactory) -> Imported:
    """Of each group the modules in memory after each command; each group is a fork."""
    where = tmp_path_factory.mktemp("pool")
    config = where / "pool.cfg"
    config.write_text(CONFIG.format(directory=where))
    env = {**os.environ, "NODEMANAGER_CONFIG": str(config), "PYTHONDONTWRITEBYTECODE": "1"}
    env.pop("NODEMANAGER_URL", None)
    done = subprocess.run(
        [sys.executable, "-c", CHILD, json.dumps(GROUPS)],
        env=env,
        cwd=Path(__file__).parents[2],
        capture_output=True,
        text=True,
        timeout=600,
        check=True,
    )
    return [
        {name: frozenset(one) for name, one in group.items()} for group in json.loads(done.stdout)
    ]


def heavy(group: Mapping[str, frozenset[str]], forbidden: tuple[str, ...]) -> list[str]:
    """What is forbidden, with the command that was the first to load it."""
    first = {one: name for name in reversed(group) for one in group[name]}
    return [f"{one} by {first[one]}" for one in forbidden if one in first]


def test_help_loads_no_subcommand_and_nothing_heavy(imported: Imported) -> None:
    modules = imported[0]["--help"]
    assert "nodemanager.cli" in modules
    assert not [one for one in modules if one.startswith("nodemanager.commands.")]
    assert heavy(imported[0], (*AT_A_TAB, "nodemanager.config")) == []


def test_the_help_of_a_command_loads_nothing_heavy(imported: Imported) -> None:
    for name, modules in imported[1].items():
        assert f"nodemanager.commands.{ENTRIES[name].module}" in modules
    assert heavy(imported[1], (*ALWAYS, "rich")) == []


def test_a_command_to_the_daemon_loads_nothing_of_the_daemon(imported: Imported) -> None:
    assert list(imported[2]) == list(ASKING)
    assert all("nodemanager.config" in modules for modules in imported[2].values())
    assert heavy(imported[2], ALWAYS) == []


def test_a_completion_loads_only_what_it_offers(imported: Imported) -> None:
    assert list(imported[3]) == list(LINES)
    assert all("click.shell_completion" in modules for modules in imported[3].values())
    assert heavy(imported[3], AT_A_TAB) == []
