"""Writing nodes to drain, whatever happens: what is believed is taken back by no order of ours."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from nodemanager.core.execute import drain
from nodemanager.core.execute.drain import Drain
from nodemanager.core.execute.effects import Effect, ReadRecord, TellDrain
from nodemanager.core.execute.expectations import Drains
from nodemanager.core.execute.news import DrainTold, Learned
from nodemanager.core.execute.once import Writing
from nodemanager.core.execute.workflow import Seen
from nodemanager.core.model.changed import changed
from nodemanager.core.model.reasons import Reason
from nodemanager.core.model.world import Guarantee, Record
from nodemanager.core.plan.orders import DrainOrder
from nodemanager.errors import Conflict
from tests.core.build import claim, world
from tests.core.execute.explored.explorer import NOW, Explored, Explorer, Scene, nothing_is_wrong


@dataclass(frozen=True)
class Tiny:
    """A record, the order that its node is told by, and the orders that the manager believes.

    `wanted` says that demand wants the node; the manager has the `lease`, or lost it.
    """

    life: int = 1
    drain: str | None = None
    given: int = 0
    wanted: bool = False
    lease: bool = True
    known: Drains = field(default_factory=Drains)

    @property
    def believed(self) -> str | None:
        """The order by which the node would go, once it says that it has drained by it."""
        order = self.known.orders.get("r1")
        return order if order is not None and order == self.drain else None


class TinyDrain:
    workflow = Drain()
    asks: frozenset[str] = frozenset()

    def __init__(self) -> None:
        self._world = world(max_nodes=4, tells_drain=True)
        self._world.add_record("r1", drain_hook=True)
        self._world.add_node("r1")
        self._world.round()
        self._listed = self._world.record("r1")
        self._snapshot = self._world.snapshot()

    def begins(self) -> Iterable[tuple[DrainOrder, Tiny]]:
        told = Tiny(drain="n0", known=Drains({"r1": ("n0", 1.0)}))
        yield self._order(Tiny(), on=True), Tiny()
        yield self._order(told, on=False), replace(told, wanted=True)
        # One that a former run gave is given anew.
        yield self._order(told, on=True), replace(told, known=Drains())

    def _order(self, world: Tiny, *, on: bool) -> DrainOrder:
        reason = Reason.DRAIN_AWAITED if on else Reason.NEEDED
        return DrainOrder("i-r1", self._record(world), on, reason, "p")

    def seen(self, world: Tiny) -> Seen:
        unwanted = {} if world.wanted else {"i-r1": 1.0}
        snapshot = replace(
            self._snapshot,
            drain_orders=world.known.orders,
            history=changed(self._snapshot.history, unwanted=unwanted),
            lease=world.lease,
        )
        return Seen(snapshot, self._world.settings, Guarantee.CAS)

    def learns(self, world: Tiny, one: Learned) -> Tiny:
        assert isinstance(one, DrainTold)
        return replace(world, known=world.known.after_told(one, NOW))

    def forgets(self, world: Tiny) -> Tiny:
        return replace(world, known=Drains())

    def _record(self, world: Tiny) -> Record:
        made = claim("r1", at=1.0, life=world.life)
        return replace(self._listed, claim=made, drain=world.drain)

    def carry_out(self, world: Tiny, effect: Effect) -> tuple[Any, Tiny]:
        if isinstance(effect, ReadRecord):
            return self._record(world), world
        assert isinstance(effect, TellDrain), "a drain asks for nothing else"
        record, judged = self._record(world), effect.record
        if (record.incarnation, record.drain) != (judged.incarnation, judged.drain):
            return Conflict("another's, or told otherwise"), world
        number = f"n{world.given + 1}" if effect.on else None
        after = replace(world, drain=number, given=world.given + 1)
        return self._record(after), after

    def changes(self, world: Tiny) -> Iterator[tuple[str, Tiny]]:
        if world.life == 1:
            yield "freed and claimed again", replace(world, life=2, drain=None)
        if world.drain is not None:
            yield "another manager takes it back", replace(world, drain=None)
        if world.drain != "x":
            yield "another manager tells it", replace(world, drain="x")
        yield "demand changes", replace(world, wanted=not world.wanted)
        if world.lease:
            yield "the lease is lost", replace(world, lease=False)

    def wrong(self, before: Scene[Tiny], after: Scene[Tiny]) -> str | None:
        was, now = before.world, after.world
        for one in after.out:
            if not isinstance(one, TellDrain) or one in before.out:
                continue
            if one.on is now.wanted:
                return "it leaves though demand has changed"
            if not now.lease:
                return "it leaves though the lease is lost"
        for one in (*after.out, *after.loose):
            if isinstance(one, ReadRecord):
                continue
            assert isinstance(one, TellDrain)
            if now.believed is not None and self.carry_out(now, one)[1].drain != now.drain:
                return "an order is believed that another of ours may undo"
        if now.life == 2 and was.life == 2 and now.drain not in (was.drain, "x", None):
            return "another life's node was told"
        answered = before.faults == after.faults and isinstance(before.running, Writing)
        if answered and after.running is None and was.life == 1 and after.faults == 0:
            order = before.running.order
            if order.on and now.believed is None:
                return "told, and not known"
        return None


def explored(max_faults: int = 2) -> Explored:
    return Explorer(TinyDrain(), max_faults=max_faults).explore()


@pytest.mark.slow
def test_no_order_is_believed_that_one_of_ours_may_undo(record_property: Any) -> None:
    nothing_is_wrong(explored(4), Drain, record_property)


def test_the_exploration_notices_an_order_that_is_still_believed_while_another_is_on_its_way(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    found = Drain.found

    def forgets(drain: Drain, order: DrainOrder, answer: Any, seen: Seen) -> Any:
        return replace(found(drain, order, answer, seen), learn=())

    monkeypatch.setattr(Drain, "found", forgets)
    assert any("another of ours may undo" in one for one in explored().wrong)


def test_the_exploration_notices_an_order_that_is_not_remembered(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(Drains, "after_told", lambda *given: Drains())
    assert any("told, and not known" in one for one in explored().wrong)


def test_the_exploration_notices_an_order_that_is_not_looked_at_again_l6(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(drain, "is_still_due", lambda *given: True)
    wrong = explored().wrong
    assert any("though demand has changed" in one for one in wrong)
    assert any("though the lease is lost" in one for one in wrong)
