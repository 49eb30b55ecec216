"""Each state machine of core/execute, drawn as the explorer saw it, for doc/workflows.rst."""

from __future__ import annotations

import importlib
import re
import textwrap
from collections.abc import Callable, Iterable
from typing import Any

from nodemanager.core.execute.flights import WORKFLOWS
from nodemanager.core.execute.workflow import Action, Workflow
from tests.core.execute.explored.explorer import Explored, Explorer, Move

WIDTH = 98
NAMES = {Action.SETUP: "Set-up", Action.SHUTDOWN: "Shutdown"}
MODULES = {Action.SETUP: "setup", Action.SHUTDOWN: "shutdown"}


def explored(action: Action, *, is_brief: bool = False) -> Iterable[Explored]:
    """As much of a workflow's exploration as shows each of its arrows, or in brief only some."""
    module = importlib.import_module(
        f"tests.core.execute.explored.test_{MODULES.get(action, action.value)}"
    )
    match action:
        case Action.SETUP if is_brief:
            return [module.explored(tokens=True, faults=1)]
        case Action.SETUP:
            in_two_places = module.explored(tokens=True, slow=True, places=("a", "b"), faults=2)
            return [module.explored(tokens=True), in_two_places]
        case Action.SHUTDOWN if is_brief:
            return [module.explored_with_scheduler(1)]
        case Action.SHUTDOWN:
            small = Explorer(module.TinyShutdown(), max_faults=1)
            return [module.explored_with_scheduler(2), small.explore()]
        case Action.CLEAN:
            module.clean.MOST_DOUBLINGS = 0
            return [module.explored(*case, 1 if is_brief else None) for case in module.CASES]
    return [module.explored()]


def page(*, is_brief: bool = False) -> str:
    """All workflows as reStructuredText; in brief the drawings of the long ones lack arrows."""
    parts = []
    for workflow in WORKFLOWS:
        seen = explored(workflow.action, is_brief=is_brief)
        moves = {move for found in seen for move in found.moves}
        parts += [described(workflow), drawing(workflow, moves)]
    return "\n".join(parts)


def described(workflow: Workflow[Any]) -> str:
    """A workflow's heading, what it does, and the table of its states."""
    title = NAMES.get(workflow.action, workflow.action.value.capitalize())
    subject = type(workflow)
    module = subject.__module__
    module_doc = importlib.import_module(module).__doc__ or ""
    lines = [
        f".. _workflow-{workflow.action.value}:\n",
        f"{title}\n{'-' * len(title)}\n",
        _wrapped(f"``{module.replace('.', '/')}.py``: {_text(module_doc)}"),
        _wrapped(_text(subject.__doc__)),
        ".. list-table::\n   :header-rows: 1\n   :widths: 14 62 12 12\n",
        "   * - State\n     - What it means\n     - In the journal\n     - Blocks",
    ]
    for state in workflow.states:
        written, blocks = _yes(state.is_written), _yes(state.is_under_way)
        doc = _text(state.__doc__)
        lines.append(f"   * - {state.__name__}\n     - {doc}\n     - {written}\n     - {blocks}")
    return "\n".join([*lines, ""])


def drawing(workflow: Workflow[Any], moves: Iterable[Move]) -> str:
    """The arrows between its states, as text."""
    shown = {move for move in moves if changes(move)}
    lines = ["::", ""]
    for of in ("start", *(state.__name__ for state in workflow.states), "resume"):
        arrows = sorted({arrow_of(move) for move in shown if move[0] == of}, key=_order(workflow))
        if not arrows:
            continue
        lines.append(f"    {of}")
        for number, arrow in enumerate(arrows):
            happens = sorted(move[1] for move in shown if move[0] == of and arrow_of(move) == arrow)
            is_last = number == len(arrows) - 1
            lines.append(f"      {'└' if is_last else '├'}─> {arrow}")
            lead = "      " + (" " if is_last else "│") + "       "
            lines += textwrap.wrap(
                ", ".join(happens), WIDTH, initial_indent=lead, subsequent_indent=lead
            )
        lines.append("")
    return "\n".join(lines)


def changes(move: Move) -> bool:
    of, _, to, effects, begins = move
    return of != to or bool(effects) or bool(begins)


def arrow_of(move: Move) -> str:
    _, _, to, effects, begins = move
    more = "".join(f" + {one}" for one in effects) + "".join(f", begins {one}" for one in begins)
    return to + more


def _order(workflow: Workflow[Any]) -> Callable[[str], tuple[int, str]]:
    """Arrows in the order of the states that they lead to, and the end last."""
    names = [state.__name__ for state in workflow.states] + ["over"]
    return lambda arrow: (names.index(re.split(r"[ ,]", arrow)[0]), arrow)


def _yes(value: object) -> str:
    return "sometimes" if isinstance(value, property) else "yes" if value is True else "no"


def _wrapped(text: str) -> str:
    return textwrap.fill(text, WIDTH, break_on_hyphens=False, break_long_words=False) + "\n"


def _text(doc: str | None) -> str:
    """A docstring as one paragraph of reStructuredText."""
    return re.sub(r"`([^`]+)`", r"``\1``", " ".join((doc or "").split()))
