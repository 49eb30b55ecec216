"""A claim is told which node is its own, so that pings that name another are refused (P1a)."""

from __future__ import annotations

from dataclasses import replace

import pytest

from nodemanager.core.execute.bind import Bind
from nodemanager.core.execute.effects import WriteClaim
from nodemanager.core.execute.workflow import Failed, Level, LogLine, Seen
from nodemanager.core.model.annotations import PAUSE, Mark
from nodemanager.core.model.world import Guarantee
from nodemanager.core.observe.snapshot import Expected, Flight
from nodemanager.core.plan.orders import BIND_LIMIT, BindOrder
from nodemanager.core.plan.plan import Plan
from nodemanager.errors import Conflict, StoreError
from tests.cases import cases
from tests.core.build import World, incarnation_of, world

ORDER = BindOrder("r1", incarnation_of("r1"), "i-own", "p")


def forged(**settings: object) -> World:
    """r1, whose first ping named another id than that of the node that bears its tag."""
    made = world(max_nodes=4, **settings)
    made.add_record("r1", instance_id="i-other")
    made.add_node("r1", id="i-own")
    return made


def test_a_claim_is_told_the_node_that_bears_its_tag_p1a() -> None:
    """Whatever the first ping named (X4, P1a). A manager killed before this write finds it anew."""
    assert forged().round().binds == (ORDER,)


def test_a_claim_that_was_told_is_left_alone_p1a() -> None:
    made = forged()
    record = made.record("r1")
    assert record.claim is not None
    made.change("r1", claim=replace(record.claim, node_id="i-own"))
    assert made.round().binds == ()


@cases(("life", "expected"), {"of-this-life": (1, (ORDER,)), "of-an-earlier-one": (0, ())})
def test_before_it_is_listed_the_node_is_what_the_create_answered_p1a(
    life: int, expected: tuple[BindOrder, ...]
) -> None:
    made = forged()
    made.nodes.clear()
    made.flags["expected"] = {
        "r1": Expected("i-own", "small", made.now, incarnation_of("r1", life))
    }
    assert made.round().binds == expected


def planned(change: str) -> Plan:
    made = forged(compare_and_set=change != "cannot-compare")
    if change == "ambiguous":
        made.add_node("r1", id="i-twin")
    elif change == "held":
        made.change("r1", held=True)
    elif change == "another-life":
        made.nodes.clear()
        made.add_node("r1", id="i-own", life=0)
    made.flags.update(
        {
            "held-by-command": {"holds": frozenset({"r1"})},
            "in-flight": {"record_flights": {"r1": Flight("clean", 1.0)}},
            "written-since-it-was-listed": {"touched": {"r1": 1e9}},
            "no-lease": {"lease": False},
            "read-only": {"read_only": "another store"},
            "paused": {"pool_marks": {PAUSE: Mark("ann", 0.0)}},
        }.get(change, {})
    )
    return made.round()


@pytest.mark.parametrize(
    "change",
    [
        *("ambiguous", "another-life", "held", "held-by-command", "in-flight"),
        *("written-since-it-was-listed", "no-lease", "read-only", "paused", "cannot-compare"),
    ],
)
def test_nothing_is_written_where_its_node_is_not_sure_or_nothing_may_be_p1a(change: str) -> None:
    """A store that can't compare is told nothing: a late write could undo a clean (C12)."""
    assert planned(change).binds == ()


def test_an_open_breaker_does_not_stop_it_p1a_b2() -> None:
    """It frees and destroys nothing, and only makes pings harder to forge."""
    made = forged()
    for number in range(2, 8):
        made.add_record(f"r{number}", claimed=False)
    made.round()
    made.records = made.records[:1]
    made.advance(60.0)
    plan = made.round()
    assert plan.breaker.is_open
    assert plan.binds == (ORDER,)


def test_no_more_than_a_few_are_told_at_once_p1a() -> None:
    made = world(max_nodes=40)
    for number in range(BIND_LIMIT + 5):
        made.add_record(f"r{number}")
        made.add_node(f"r{number}")
    assert len(made.round().binds) == BIND_LIMIT


@cases(
    ("error", "level"),
    {
        "a-ping-came-between": (Conflict("it is at version 2, not 1"), Level.DEBUG),
        "no-answer": (StoreError("no answer"), Level.WARNING),
    },
)
def test_a_write_that_lost_to_a_ping_warns_nobody(error: StoreError, level: Level) -> None:
    """It is written again with the next plan; in a busy pool that happens all day."""
    made = forged()
    made.round()
    seen = Seen(made.snapshot(), made.settings, Guarantee.CAS)
    record = made.record("r1")
    assert record.claim is not None
    failed = Failed(WriteClaim(record, record.claim), error)
    (line,) = Bind().failed(ORDER, failed, seen, late=False).tell
    assert isinstance(line, LogLine)
    assert (line.level, line.fields["error"]) == (level, error)
