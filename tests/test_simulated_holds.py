"""When the monitors take something to be on hold.

Also the one gap that a store that can't compare leaves to an operator's hold, and no more (N33).
"""

from __future__ import annotations

from dataclasses import replace
from random import Random
from types import SimpleNamespace
from typing import Any

import pytest

from nodemanager.actors.messages import Ordered
from nodemanager.core.observe.facts import NodesAnswered, TagsAnswered
from nodemanager.core.operate.replies import Reply, Result
from tests.cases import cases
from tests.core.build import claim, node, record
from tests.simulation.cleans import EXACT_S, held_in_the_gap
from tests.simulation.nodes import NodeRules
from tests.simulation.people import People
from tests.simulation.told import Answer, Ears, answers_given

pytestmark = pytest.mark.slow

READ = record("r1", at=1000.0)


def test_a_hold_between_the_last_read_and_the_write_is_no_finding_c9() -> None:
    """N33, C9: the write names no version, and puts properties back without the hold."""
    assert held_in_the_gap(replace(READ, version="v2", modified_at=2000.0, held=True), READ, 0.1)


@cases(
    ("changes", "read", "age_s"),
    {
        "no-hold-at-all": ({}, READ, 0.1),
        "held-when-it-was-read": ({"held": True}, replace(READ, held=True), 0.1),
        "never-read": ({"held": True}, None, 0.1),
        "read-long-before": ({"held": True}, READ, EXACT_S + 0.1),
        "pinged-too": ({"held": True, "last_ping_at": 1001.0}, READ, 0.1),
        "by-another-instance": ({"held": True, "instance_id": "i-x"}, READ, 0.1),
        "on-another-slot": ({"held": True, "slot_number": 7}, READ, 0.1),
        "claimed-anew": ({"held": True, "claim": claim("r1", at=1.0)}, READ, 0.1),
    },
)
def test_whatever_else_moved_it_is_a_finding_still_c12(
    changes: dict[str, Any], read: Any, age_s: float
) -> None:
    """N33, C12: a ping, a claim, or a read that was not right before the write."""
    assert not held_in_the_gap(replace(READ, **changes), read, age_s)


@cases(
    ("late", "fenced", "lately", "overtaken"),
    {
        "a-hold-behind-a-claim-on-its-way": (True, True, ("operator", "hold"), True),
        "a-claim-that-knew-of-it": (False, True, ("operator", "hold"), False),
        "a-store-that-compares": (True, False, ("operator", "hold"), False),
        "another-write-of-theirs": (True, True, ("operator", "edit"), False),
        "nobody-wrote": (True, True, None, False),
    },
)
def test_only_a_claim_that_was_sent_before_the_hold_is_overtaken_by_it_u2(
    late: bool, fenced: bool, lately: tuple[str, str] | None, overtaken: bool
) -> None:
    shape = SimpleNamespace(fenced=fenced)
    world = SimpleNamespace(shape=shape, is_excused=lambda *about, **which: False)
    rules: Any = SimpleNamespace(world=world, _came_late=lambda manager, before: late)
    manager: Any = SimpleNamespace(name="main-1")
    assert NodeRules._was_overtaken(rules, manager, READ, lately) is overtaken


def test_an_unlisted_node_is_held_by_the_newest_answer_that_its_manager_had_c9() -> None:
    """Neither by an older one, nor by one that is still on its way to the daemon."""
    free, held = node("r1"), node("r1", held=True)
    ears = Ears()
    ears.by_id["i-r1"] = [Answer(1.0, (held,)), Answer(3.0, (free,)), Answer(4.0, (held,))]
    ears.by_tag["r1"] = [Answer(2.0, (held,))]
    assert ears.answered("i-r1", "r1", 0.0) == []
    answers_given(ears, TagsAnswered({"r1": (held,)}, 2.0))
    assert ears.answered("i-r1", "r1", 0.0) == [held]
    answers_given(ears, NodesAnswered({"i-r1": free}, 3.0))
    assert ears.answered("i-r1", "r1", 0.0) == [free, held]
    answers_given(ears, NodesAnswered({"i-r1": held}, 4.0))
    assert ears.answered("i-r1", "r1", 2.5) == [held, free]


def test_a_hold_and_its_release_that_a_paused_manager_takes_together_leave_no_hold_c9() -> None:
    """The release was said before the hold was answered: its own answer is what ends the hold."""
    said: list[Ordered] = []
    manager = SimpleNamespace(alive=True, daemon=SimpleNamespace(tell=said.append))
    journal = SimpleNamespace(lost=0)
    pool: Any = SimpleNamespace(holds=set(), journal=journal, manager=manager, shadow=None)
    engine = SimpleNamespace(after=lambda wait, then: None, random=Random)
    world: Any = SimpleNamespace(engine=engine, plans=[], calms=[], replies=[], pools={})
    people = People(world, 60.0)
    people._hold(pool, "i-r1")
    people._release(pool, "i-r1")
    hold, release = said
    hold.answered(Reply(Result.DONE, "i-r1 is held", node="i-r1"))
    assert pool.holds == {"i-r1"}
    release.answered(Reply(Result.DONE, "i-r1 is released", node="i-r1"))
    assert pool.holds == set()
    people._release(pool, "i-r1")
    said[-1].answered(Reply(Result.ALREADY, "i-r1 is not on hold", node="i-r1"))
    assert pool.holds == set()
