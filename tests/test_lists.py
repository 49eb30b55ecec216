"""Every list as people and programs meet it: command line, HTTP and dashboard show one decision.

The text is in tests/golden. After a change that is meant, write it anew with
`python -m tests.test_lists`, and read the difference.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterator
from contextlib import redirect_stderr, redirect_stdout
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
import rich.console

from nodemanager import cli
from nodemanager.commands import listing, listing_screen, show
from nodemanager.core.explain.picture import Picture
from nodemanager.core.model.annotations import Mark, Marks
from nodemanager.core.model.world import Job, WorkerState
from nodemanager.web import inventory
from nodemanager.web import why as answers
from tests.core.build import EPOCH, START, World, node, world
from tests.web.dashboard.console import Console

GOLDEN = Path(__file__).parent / "golden" / "lists.txt"
COMMANDS = (
    *("nodes", "nodes -o wide --all", "nodes --sort -age", "nodes --sort host --state busy,idle"),
    *("nodes --json --size spot", "nodes -o name", "nodes --state dwon"),
    *("slots", "slots -o wide", "slots --sort -quiet", "slots --json --state no_node"),
    *("slots -o name --reason within_window", "jobs", "jobs --json"),
)
ON_A_TERMINAL = ("nodes", "slots --sort free_in", "jobs")
PAGES = (
    *("/nodes", "/nodes?sort=-host", "/nodes?sort=age&state=busy", "/nodes?q=i-zz"),
    *("/records", "/records?sort=-quiet", "/records?state=no_node", "/jobs", "/jobs?sort=-job"),
)
MARK = Mark("Bob", EPOCH + START - 60.0, "new image")


def pool() -> World:
    """Hosts that sort wrongly as texts, a leaked slot, another pool's node, and three jobs."""
    made = world(node_stale_after=7200.0, max_nodes=6)
    kinds = ((2, WorkerState.BUSY), (10, WorkerState.IDLE), (1, WorkerState.BUSY))
    for slot, state in kinds:
        uuid = f"zzzzz-7ekkf-{slot:015d}"
        made.add_record(uuid, slot=slot, worker_state=state)
        size = "spot" if slot == 10 else "small"
        made.add_node(uuid, id=f"i-zz-{slot:012d}", age=5000.0 + slot, size=size)
    made.add_record("zzzzz-7ekkf-000000000000003", slot=3, quiet=1000.0)
    made.nodes.append(node(id="i-others", name="\x1b[2Jevil", pool="others"))
    jobs = (Job("job10", cores=1, count=2), Job("job2", cores=2, ram_mb=3000), Job("big", cores=99))
    made.flags |= {"slots": 64, "demand": jobs, "drains": {"i-zz-000000000002": MARK}}
    return made


class Daemon:
    """Answers as the running daemon does, from one decision."""

    def __init__(self, picture: Picture) -> None:
        self._picture = picture

    def nodes(self) -> Any:
        return json.loads(json.dumps(inventory.nodes(self._picture)))

    def slots(self) -> Any:
        return json.loads(json.dumps(inventory.slots(self._picture)))

    def jobs(self) -> Any:
        return json.loads(json.dumps(answers.waiting(self._picture)))


def typed(picture: Picture, words: str, *, terminal: bool = False) -> str:
    """What a command prints, its foot too."""
    daemon, out, err = Daemon(picture), StringIO(), StringIO()

    def console(*, stderr: bool = False) -> rich.console.Console:
        file = err if stderr else out
        return rich.console.Console(file=file, force_terminal=True, width=100, highlight=False)

    with (
        pytest.MonkeyPatch.context() as patch,
        redirect_stdout(out),
        redirect_stderr(err),
    ):
        patch.setattr(listing, "client", lambda config: daemon)
        patch.setattr(listing_screen.time, "time", lambda: picture.snapshot.wall + 2.0)
        patch.setattr(show, "console", console if terminal else show.console)
        with pytest.raises(SystemExit) as end:
            cli.main(words.split())
    assert not end.value.code
    said = re.sub(r"\x1b\[[\d;]*m", "", out.getvalue() + err.getvalue())
    return "".join(f"{line.rstrip()}\n" for line in said.splitlines())


def browsed(console: Console, path: str) -> str:
    """The rows of a page's list, a line each, with what its links lead to."""
    html = console.get(path).text
    lines = []
    for row in re.findall(r"<tr.*?</tr>", html, re.DOTALL):
        row = re.sub(r'<a [^>]*?href="([^"]*)"[^>]*>(.*?)</a>', r"\2 <\1>", row)
        row = re.sub(r"<time[^>]*>(.*?)</time>", r"\1", row)
        cells = re.findall(r"<t[hd][^>]*>(.*?)</t[hd]>", row, re.DOTALL)
        lines.append(" | ".join(re.sub(r"</?(?:span|b|tr)[^>]*>", "", one) for one in cells))
    return "".join(f"{line.rstrip()}\n" for line in lines)


def answers_of_all() -> Iterator[str]:
    console = Console()
    picture = console.decides(pool(), Marks(drains={"i-zz-000000000002": MARK}))
    console.sign_in()
    for words in COMMANDS:
        yield f"$ nodemanager {words}\n{typed(picture, words)}"
    for words in ON_A_TERMINAL:
        yield f"$ nodemanager {words}   # on a terminal\n{typed(picture, words, terminal=True)}"
    for path in PAGES:
        yield f"GET {path}\n{browsed(console, path)}"


def written() -> str:
    """All of it, in the time zone that the text was written in."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TZ", "UTC")
        time.tzset()
        return "\n".join(answers_of_all())


def test_the_lists_are_as_they_were() -> None:
    assert written() == GOLDEN.read_text(encoding="utf-8")


if __name__ == "__main__":
    GOLDEN.write_text(written(), encoding="utf-8")
