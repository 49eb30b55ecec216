"""doc/workflows.rst draws each workflow as it is.

The arrows are held against each workflow's own exploration, in its own test.
"""

from __future__ import annotations

from typing import Any

import pytest

from nodemanager.core.execute.catalog import WORKFLOWS
from nodemanager.core.execute.prune import Prune
from nodemanager.core.execute.workflow import Action, Workflow
from tests.core.execute.explored.drawn import (
    _HEAD,
    PAGE,
    described,
    differences,
    drawing,
    drawn_moves,
    explored,
    main,
)

RUN = "run `python -m tests.core.execute.explored.drawn doc/workflows.rst`"


@pytest.mark.parametrize("workflow", WORKFLOWS, ids=lambda one: one.action.value)
def test_the_page_tells_each_workflows_states_and_draws_them(workflow: Workflow[Any]) -> None:
    page = PAGE.read_text(encoding="utf-8")
    assert page.startswith(_HEAD), RUN
    assert described(workflow) in page, RUN
    drawn = {of for of, _, _ in drawn_moves(workflow)}
    assert drawn >= {"start", *(state.__name__ for state in workflow.states)}, RUN


def test_every_workflow_of_the_package_is_in_the_catalog() -> None:
    assert {workflow.action for workflow in WORKFLOWS} == set(Action)


def test_an_arrow_that_is_not_drawn_and_one_that_nobody_takes_are_differences() -> None:
    (found,) = explored(Action.PRUNE)
    assert differences(Prune(), found.moves) == []
    assert drawing(Prune(), found.moves) in PAGE.read_text(encoding="utf-8")
    new = ("Looking", "due", "over", (), ())
    assert differences(Prune(), {*found.moves, new}) == [("Looking", "due", "over")]
    gone = {move for move in found.moves if move[0] != "resume"}
    assert [of for of, _, _ in differences(Prune(), gone)] == ["resume"]
    assert differences(Prune(), gone, is_all=False) == []


def test_the_command_says_how_it_is_used(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == 2
    assert "drawn FILE" in capsys.readouterr().err
