"""Every operator's verb as people and programs meet it: help, HTTP answers, log lines, pages.

The texts are in tests/golden. After a change that is meant, write them anew with
`python -m tests.test_verbs`, and read the difference.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import falcon.asgi
import pytest
from click.testing import CliRunner
from falcon import testing

from nodemanager import cli
from nodemanager.actors.messages import Ordered
from nodemanager.core.model.world import WorkerState
from nodemanager.core.operate.commands import consequences
from nodemanager.core.operate.replies import Command, Reply
from nodemanager.core.operate.verbs import CommandTarget, Verb
from nodemanager.lib.workers import Workers
from nodemanager.web.commands import add_commands
from tests.actors.rig import Rig, rigs
from tests.core.build import world

GOLDEN = Path(__file__).parent / "golden"
NODE = "i-0001"
SHOWN = frozenset({"id", "record", "node", "by", "cause", "result", "reason", "rule"})
GROUPS = {"breaker": ["reset"], "rotate": ["pause", "resume"]}
COMMANDS = [*cli.SECTIONS["Act"], "orders"]


def helps() -> Iterator[str]:
    """What `--help` says of the commands that act, and of each that is a verb."""
    listed = CliRunner().invoke(cli.group, ["--help"], prog_name="nodemanager", terminal_width=100)
    yield listed.output[listed.output.index("Act:") : listed.output.index("Tune:")]
    typed = [[name, "--help"] for name in COMMANDS if name != "backlog"]
    typed += [[name, one, "--help"] for name, those in GROUPS.items() for one in those]
    for words in typed:
        done = CliRunner().invoke(cli.group, words, prog_name="nodemanager", terminal_width=100)
        # A command keeps the first form of its help option: without `-h` where a test ran it alone.
        said = done.output.replace("  -h, --help", "  --help    ")
        yield f"$ nodemanager {' '.join(words)}\n{said}"


class Served:
    """The routes of the commands, to the daemon of a rig."""

    def __init__(self, rig: Rig) -> None:
        self.rig = rig
        app: Any = falcon.asgi.App()
        add_commands(app, self, Workers("golden", 1))
        self.client = testing.TestClient(app)

    def power(self, direction: str, nodes: str, by: str) -> bool:
        return False

    def give(self, command: Command) -> Reply:
        said: list[Reply] = []
        self.rig.system.daemon.tell(Ordered(command, said.append))
        self.rig.flush()
        while not said:
            self.rig.turn(1.0)
        return said[0]

    def says(self, path: str, **body: Any) -> str:
        self.rig.forget_lines()
        answer = self.client.simulate_post(path, json={"by": "ann", **body})
        shown = [f"POST {path} {body}", answer.status, answer.text]
        shown += [
            " ".join([str(line["event"]), *(f"{k}={v}" for k, v in line.items() if k in SHOWN)])
            for verb in Verb
            for line in self.rig.lines(verb.event.value)
        ]
        text = "\n".join(shown)
        text = re.sub(r"\d{4}-\d\d-\d\dT[\d:.]+Z", "TIME", text)
        return re.sub(r'("\w+_s": |[a-z]_s=)[\d.]+', r"\1N", text) + "\n"


def path_of(verb: Verb, id: str) -> str:
    path = f"/api/{verb.value.replace('_', '/')}"
    return path if verb.row.subject is CommandTarget.POOL else f"{path}/{id}"


UNDONE = (
    *(("hold", "release"), ("drain", "run"), ("cordon", "uncordon"), ("kill", "run")),
    *(("cordon", "drain"), ("drain", "cordon"), ("kill", "cordon"), ("drain", "uncordon")),
    *(
        ("pause", "resume"),
        ("park", "unpark"),
        ("rotate_pause", "rotate_resume"),
        ("drain", "kill"),
    ),
)


@contextmanager
def served() -> Iterator[Served]:
    """The commands of a new pool of two busy nodes."""
    with TemporaryDirectory() as directory, pytest.MonkeyPatch.context() as patch:
        made = rigs(Path(directory), patch)
        rig: Rig = next(made)(min_nodes=2, max_nodes=4, backlog="clean")
        rig.fleet.state = WorkerState.BUSY
        for _ in range(2):
            rig.fleet.add_node(age=36000.0)
        rig.start()
        rig.turn(120)
        yield Served(rig)
        next(made, None)


def answers() -> Iterator[str]:
    """What the daemon answers over HTTP and logs: the first time, again, and to a wrong name."""
    for verb in Verb:
        with served() as daemon:
            yield f"-- {verb.value}"
            yield daemon.says(path_of(verb, NODE))
            for _ in range(2):
                yield daemon.says(path_of(verb, NODE), reason="a try")
            if verb.row.subject is not CommandTarget.POOL:
                yield daemon.says(path_of(verb, "nobody"), reason="a try")
    for first, second in UNDONE:
        with served() as daemon:
            yield f"-- {first}, {second}"
            for name in (first, second):
                yield daemon.says(path_of(Verb(name), NODE), reason="a try")


def says() -> Iterator[str]:
    """What the dashboard says of each order before it is given, and what the form is called."""
    made = world()
    for number, state in ((1, WorkerState.BUSY), (2, WorkerState.IDLE)):
        made.add_record(f"r{number}", slot=number, worker_state=state)
        made.add_node(f"r{number}", id=f"i-{number}")
    plan = made.round(3)
    for verb in Verb:
        for id in (None,) if verb.row.subject is CommandTarget.POOL else ("i-1", "i-2"):
            yield f"{verb.row.heading} {id or ''}".rstrip()
            yield from (f"  {line}" for line in consequences(verb, plan, made.snapshot(), id))


TEXTS: Mapping[str, Callable[[], Iterator[str]]] = {
    "help": helps,
    "dashboard": says,
    "answers": answers,
}


def file_of(name: str) -> Path:
    return GOLDEN / f"verbs_{name}.txt"


@pytest.mark.parametrize(
    "name", [pytest.param(one, marks=pytest.mark.slow if one == "answers" else ()) for one in TEXTS]
)
def test_the_texts_of_the_verbs_are_as_recorded(name: str) -> None:
    assert "\n".join(TEXTS[name]()) + "\n" == file_of(name).read_text(encoding="utf-8")


if __name__ == "__main__":
    for name, lines in TEXTS.items():
        file_of(name).write_text("\n".join(lines()) + "\n", encoding="utf-8")
