"""A cloud and a record store in memory that misbehave on script, and a fleet of nodes that ping."""

from tests.fakes.clock import TickingClock
from tests.fakes.cloud import FakeCloud, Machine
from tests.fakes.fleet import Fleet
from tests.fakes.script import answer, fail, first, lose
from tests.fakes.store import FakeStore

__all__ = [
    "FakeCloud",
    "FakeStore",
    "Fleet",
    "Machine",
    "TickingClock",
    "answer",
    "fail",
    "first",
    "lose",
]
