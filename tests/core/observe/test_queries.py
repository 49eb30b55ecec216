"""What an order is of where no listing shows the node: the life in an answer (O1, O5)."""

from __future__ import annotations

from dataclasses import replace

import pytest

from nodemanager.core.model.world import CloudState
from nodemanager.core.observe.queries import node_shown
from tests.core.build import World, node, world


def hidden() -> World:
    """A pair whose node no listing shows."""
    made = world(max_nodes=1, min_nodes=0)
    made.add_record("r1")
    made.round(2)
    return made


def life(made: World) -> str | None:
    found = node_shown(made.history, "i-r1")
    return None if found is None else found.tags.incarnation


def test_without_listing_and_answer_no_node_is_shown() -> None:
    assert life(hidden()) is None


@pytest.mark.parametrize("by_tag", [False, True])
def test_a_node_that_only_an_answer_has_is_shown_by_that(by_tag: bool) -> None:
    made = hidden()
    if by_tag:
        made.answer_tags({"r1": (node("r1", id="i-twin"), node("r1"))})
    else:
        made.answer({"i-r1": node("r1")})
    assert life(made) == "r1-life1"


def test_the_listing_goes_before_an_answer() -> None:
    made = hidden()
    made.answer({"i-r1": node("r1", life=2)})
    made.add_node("r1")
    made.round()
    assert life(made) == "r1-life1"


def test_a_newer_answer_goes_before_an_older_one() -> None:
    made = hidden()
    made.answer_tags({"r1": (node("r1"),)})
    made.answer({"i-r1": node("r1", life=2)}, late=5.0)
    assert life(made) == "r1-life1"
    made.advance(1.0)
    made.answer({"i-r1": node("r1", life=2)})
    assert life(made) == "r1-life2"


@pytest.mark.parametrize("state", [None, CloudState.TERMINATED])
def test_one_that_the_answer_calls_gone_is_not_shown(state: CloudState | None) -> None:
    made = hidden()
    made.answer({"i-r1": None if state is None else replace(node("r1"), state=state)})
    assert life(made) is None
