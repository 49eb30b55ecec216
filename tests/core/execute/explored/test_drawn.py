"""The manual draws each workflow: its states, and each arrow that the explorer saw."""

from __future__ import annotations

from nodemanager.core.execute.flights import WORKFLOWS
from nodemanager.core.execute.prune import Prune
from nodemanager.core.execute.workflow import Action
from tests.core.execute.explored.drawn import described, drawing, explored


def test_every_workflow_of_the_package_is_in_the_catalog() -> None:
    assert {workflow.action for workflow in WORKFLOWS} == set(Action)


def test_a_drawing_has_each_state_and_the_events_that_lead_to_the_next() -> None:
    (found,) = explored(Action.PRUNE)
    drawn = drawing(Prune(), found.moves)
    for state in ("start", *(state.__name__ for state in Prune.states)):
        assert f"\n    {state}\n" in drawn
        assert state == "start" or f"   * - {state}\n" in described(Prune())
    arrow = "      ├─> Checking + Wait\n      │       LookAtRecord failed\n"
    assert f"\n    Checking\n      ├─> Checking + LookAtRecord\n      │       due\n{arrow}" in drawn
