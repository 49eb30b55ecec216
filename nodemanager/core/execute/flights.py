"""The workflows in flight, as a value of the State, and what a decision sees of them (C8, U6)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from nodemanager.core.execute.adopt import Adopt
from nodemanager.core.execute.bind import Bind
from nodemanager.core.execute.clean import Clean
from nodemanager.core.execute.drain import Dispatch, Drain
from nodemanager.core.execute.prune import Prune
from nodemanager.core.execute.restore import Restore
from nodemanager.core.execute.setup import Finishing, SetUp, is_unclear
from nodemanager.core.execute.shutdown import ShutDown
from nodemanager.core.execute.workflow import About, Action, Key, Running, Workflow
from nodemanager.core.observe.snapshot import Flight

# All workflows: the runner runs them, the journal reads their states, the manual draws them.

WORKFLOWS: tuple[Workflow[Any], ...] = (
    Adopt(),
    Bind(),
    Dispatch(),
    Drain(),
    Prune(),
    Restore(),
    SetUp(),
    ShutDown(),
    Clean(),
)


_WORKFLOWS = {one.action: one for one in WORKFLOWS}


@dataclass(frozen=True, slots=True)
class Stepped:
    """A workflow took a step, from which it is in flight as `running`; None: it is over."""

    key: Key
    running: Running | None


@dataclass(frozen=True, slots=True)
class LeftOpen:
    """What a former run left, as the journal has it."""

    left: Mapping[Key, Running]


@dataclass(frozen=True, slots=True)
class Flights:
    """The workflows in flight, and what a former run `left` and was not resumed yet.

    A write of either may be on its way (R1).
    """

    running: Mapping[Key, Running] = field(default_factory=dict)
    left: Mapping[Key, Running] = field(default_factory=dict)

    def after(self, one: Stepped | LeftOpen) -> Flights:
        if isinstance(one, LeftOpen):
            return replace(self, left={**self.left, **one.left})
        left = {key: state for key, state in self.left.items() if key != one.key}
        if one.running is not None:
            return Flights({**self.running, one.key: one.running}, left)
        running = {key: state for key, state in self.running.items() if key != one.key}
        return Flights(running, left)

    def by_record_and_node(
        self, without: Key | None = None
    ) -> tuple[dict[str, Flight], dict[str, Flight]]:
        """The actions in flight, by record and by node, without the one of the key `without`."""
        records: dict[str, Flight] = {}
        nodes: dict[str, Flight] = {}
        for key, one in (*self.left.items(), *self.running.items()):
            if key == without or not one.state.is_under_way:
                continue
            about = _about(key, one)
            kind = _WORKFLOWS[key.action].flight(one.state)
            if about.record is not None:
                claim = one.state.order.claim if key.action is Action.SETUP else None
                incarnation = None if claim is None else claim.incarnation
                records[about.record] = Flight(kind.partition(":")[0], one.since, incarnation)
            if about.node is not None:
                nodes[about.node] = Flight(kind, one.since)
        return records, nodes

    def _setups(self, without: Key | None) -> Iterator[tuple[Key, Running]]:
        for key, one in self.running.items():
            if key.action is Action.SETUP and key != without and one.state.is_under_way:
                yield key, one

    def unclaimed(self, without: Key | None = None) -> tuple[str, ...]:
        """The sizes of set-ups that have no record yet, without the one of the key `without`."""
        return tuple(
            one.state.order.size.name
            for key, one in self._setups(without)
            if _about(key, one).record is None
        )

    def places(self, without: Key | None = None) -> Counter[str]:
        """The number of set-ups in each place, without the one of the key `without`."""
        places = (one.state.order.place for _, one in self._setups(without))
        return Counter(place for place in places if place is not None)

    @property
    def unclear(self) -> Mapping[str, int]:
        """The number of set-ups, by size, whose create got no clear answer."""
        return Counter(
            one.state.order.size.name
            for key, one in self.running.items()
            if key.action is Action.SETUP and is_unclear(one.state)
        )

    @property
    def going_on(self) -> set[str]:
        """The nodes whose create the cloud goes on with: they may be refused in the end."""
        states = (one.state for one in self.running.values())
        return {state.created.node.id for state in states if isinstance(state, Finishing)}

    @property
    def destroys_of(self) -> set[str]:
        flights = (*self.running.items(), *self.left.items())
        return {one.state.order.record for key, one in flights if key.action is Action.SHUTDOWN}

    def is_written(self, key: Key) -> bool:
        """Whether a write of that workflow was sent, or may have been."""
        return key in self.running and self.running[key].state.is_written

    @property
    def under_way(self) -> tuple[Running, ...]:
        """Those that block their record or node."""
        return tuple(one for one in self.running.values() if one.state.is_under_way)


def _about(key: Key, one: Running) -> About:
    return _WORKFLOWS[key.action].about(one.state)
