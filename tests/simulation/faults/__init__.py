"""Everything that goes wrong: each module registers the kinds of one subject."""

from tests.simulation.faults import (
    assumptions,
    clocks,
    clouds,
    managers,
    nodes,
    people,
    schedulers,
    seats,
    store,
)
from tests.simulation.faults.people import release
from tests.simulation.faults.script import KINDS, Fault, Kind, begin

__all__ = [
    "KINDS",
    "Fault",
    "Kind",
    "assumptions",
    "begin",
    "clocks",
    "clouds",
    "managers",
    "nodes",
    "people",
    "release",
    "schedulers",
    "seats",
    "store",
]
