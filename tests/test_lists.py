"""Every list as people and programs meet it: command line, HTTP and dashboard show one decision.

The text is in tests/golden. After a change that is meant, write it anew with
`python -m tests.test_lists`, and read the difference.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from contextlib import redirect_stderr, redirect_stdout
from io import StringIO
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from urllib.parse import urlencode

import pytest
import rich.console

from nodemanager import cli
from nodemanager.commands import listing, listing_screen, show
from nodemanager.core.explain.explain import DecisionView
from nodemanager.core.model.annotations import Mark, Marks
from nodemanager.core.model.world import Job, WorkerState
from nodemanager.journal.event import LoggedEvent
from nodemanager.journal.sqlite import SqliteJournal
from tests.core.build import EPOCH, START, World, node, world
from tests.web.dashboard.console import TOKEN, Console

GOLDEN = Path(__file__).parent / "golden" / "lists.txt"
COMMANDS = (
    *("nodes", "nodes -o wide --all", "nodes --sort -age", "nodes --sort host --state busy,idle"),
    *("nodes --json --size spot", "nodes -o name", "nodes --state down"),
    *("slots", "slots -o wide", "slots --sort -quiet", "slots --json --state no_node"),
    *("slots -o name --reason within_window", "jobs", "jobs --json"),
    *("events", "events --all", "events --json", "events compute2 --all"),
    *("events --level warning,error --sort first", "events --json --event node.lost"),
    *("orders", "orders --json", "orders -o name --order hold"),
)
ON_A_TERMINAL = ("nodes", "slots --sort free_in", "jobs", "events")
PAGES = (
    *("/nodes", "/nodes?sort=-host", "/nodes?sort=age&state=busy", "/nodes?q=i-zz"),
    *("/records", "/records?sort=-quiet", "/records?state=no_node", "/jobs", "/jobs?sort=-job"),
    *("/log", "/log?only=done", "/log?q=compute2", "/log?until=2023-11-16 01:50"),
    *("/log?level=warning,error&sort=host", "/log?since=2023-11-16 01:50&reason=size_rests"),
    *("/incident?range=1h", "/incident?range=1h&sort=-count&level=warning", "/orders?order=hold"),
    "/",
)
MARK = Mark("Bob", EPOCH + START - 60.0, "new image")
MARKS = Marks(
    holds={"zzzzz-7ekkf-000000000000003": Mark("Ann", EPOCH + START - 900.0)},
    drains={"i-zz-000000000002": MARK},
)


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
    pause = {"rotate_pause": Mark("Ann", EPOCH + START - 30.0, "an upgrade")}
    made.flags |= {
        "slots": 64,
        "pool_marks": pause,
        "demand": jobs,
        "drains": {"i-zz-000000000002": MARK},
    }
    return made


def happened(decision: DecisionView) -> Iterator[LoggedEvent]:
    """A loss, what was left alone, an order and a refusal, in the last hour."""
    now = decision.snapshot.wall
    names = {"record": "zzzzz-7ekkf-000000000000002", "slot": 2, "host": "compute2"}
    node = "i-zz-000000000002"
    yield LoggedEvent(
        now - 3000, "node.created", node=node, host="compute2", more={"size": "small"}
    )
    more = {"level": "warning", "was": "busy", "slot_kept": "within_window"}
    yield LoggedEvent(now - 2000, "node.lost", "node_absent", host="compute3", more=more, slot=3)
    yield LoggedEvent(now - 1500, "record.keep", "within_window", more={"idle_s": 90.0}, **names)
    yield LoggedEvent(now - 1000, "node.keep", "busy", node=node, more={"word_s": 4.0}, **names)
    yield LoggedEvent(now - 900, "node.keep", "not_idle_long", node=node, **names)
    more = {"by": "Bob", "cause": "new image"}
    yield LoggedEvent(now - 60, "operator.drain", node=node, host="compute2", more=more)
    more = {"level": "error", "size": "spot", "error": "NoCapacity: none", "retry_s": 30.0}
    yield LoggedEvent(now - 30, "node.setup_failed", "size_rests", host="compute10", more=more)


class Daemon:
    """The running daemon's answers to the commands."""

    def __init__(self, console: Console) -> None:
        self._console = console

    def get(self, name: str, **asked: Any) -> Any:
        query = {key: "yes" if one is True else one for key, one in asked.items() if one}
        path = f"/api/{name}?{urlencode(query)}"
        return self._console.get(path, Authorization=f"Bearer {TOKEN}").json


def typed(daemon: Daemon, words: str, now: float, *, terminal: bool = False) -> str:
    """What a command prints at `now`, its foot too."""
    out, err = StringIO(), StringIO()

    def console(*, stderr: bool = False) -> rich.console.Console:
        file = err if stderr else out
        return rich.console.Console(file=file, force_terminal=True, width=100, highlight=False)

    with (
        pytest.MonkeyPatch.context() as patch,
        redirect_stdout(out),
        redirect_stderr(err),
    ):
        patch.setattr(listing, "client", lambda config: daemon)
        patch.setattr(listing_screen.time, "time", lambda: now)
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


def answers_of_all(path: Path) -> Iterator[str]:
    console = Console(path)
    decision = console.decides(pool(), MARKS)
    now = decision.snapshot.wall + 2.0
    console.clock.step_wall(now - console.clock.wall())
    journal = SqliteJournal(path, pool="main", clock=console.clock, boot_id="boot-1")
    for one in happened(decision):
        journal.tell(one)
    journal.close()
    console.sign_in()
    daemon = Daemon(console)
    for words in COMMANDS:
        yield f"$ nodemanager {words}\n{typed(daemon, words, now)}"
    for words in ON_A_TERMINAL:
        yield f"$ nodemanager {words}   # on a terminal\n{typed(daemon, words, now, terminal=True)}"
    for page in PAGES:
        yield f"GET {page}\n{browsed(console, page)}"


def written() -> str:
    """All of it, in the time zone that the text was written in."""
    with pytest.MonkeyPatch.context() as patch, TemporaryDirectory() as home:
        patch.setenv("TZ", "UTC")
        time.tzset()
        return "\n".join(answers_of_all(Path(home) / "journal.db"))


def test_the_lists_are_as_they_were() -> None:
    assert written() == GOLDEN.read_text(encoding="utf-8")


if __name__ == "__main__":
    GOLDEN.write_text(written(), encoding="utf-8")
