"""Writing a scheduler to drain: no drain is believed that another order of ours may undo."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from nodemanager.core.execute import drain
from nodemanager.core.execute.drain import Dispatch
from nodemanager.core.execute.effects import Effect, ReadRecord, TellScheduler
from nodemanager.core.execute.expectations import dispatched_after
from nodemanager.core.execute.news import Learned, SchedulerTold
from nodemanager.core.execute.once import GivenUp, Reading, Writing
from nodemanager.core.execute.workflow import Answered, Expired, Seen, Step
from nodemanager.core.model.changed import changed
from nodemanager.core.model.reasons import Reason
from nodemanager.core.model.scheduling import Dispatched, SchedulerNode, SchedulerOrder
from nodemanager.core.model.settings import LATE_ORDER_S
from nodemanager.core.model.world import Guarantee, Record, WorkerState
from nodemanager.core.plan.orders import DrainOrder
from nodemanager.errors import SchedulerRefused
from tests.cases import cases
from tests.core.build import claim, world
from tests.core.execute.explored.explorer import Explored, Explorer, Scene, nothing_is_wrong

STEP_S = LATE_ORDER_S + 1.0
"""How far time passes at once: so far that no order that was sent takes effect any more."""
HOST = "compute1"


@dataclass(frozen=True)
class Tiny:
    """A node in the scheduler, what the manager knows of it, and whether demand wants it."""

    life: int = 1
    drained: bool = False
    wanted: bool = False
    lease: bool = True
    time: int = 0
    known: Dispatched = field(default_factory=Dispatched)

    @property
    def believed(self) -> bool:
        """Whether the node would go, once a listing shows it drained."""
        order = self.known.orders.get("r1")
        return order is not None and order.on and self.drained


class TinyDispatch:
    workflow = Dispatch()
    asks: frozenset[str] = frozenset()

    def __init__(self) -> None:
        self._world = world(max_nodes=4, scheduled=True, demand_polled=True)
        self._world.add_record("r1")
        self._world.add_node("r1")
        self._world.poll()
        self._world.poll_scheduler(SchedulerNode(HOST, WorkerState.IDLE))
        self._world.plan()
        self._listed = self._world.record("r1")
        self._snapshot = self._world.snapshot()
        self.now = self._snapshot.now

    def _at(self, world: Tiny) -> float:
        return self.now + STEP_S * world.time

    def begins(self) -> Iterable[tuple[DrainOrder, Tiny]]:
        order = SchedulerOrder(HOST, self._record(Tiny()).incarnation, True, 1.0)
        told = Tiny(drained=True, known=Dispatched(orders={"r1": order}))
        yield self._order(Tiny(), on=True), Tiny()
        yield self._order(told, on=False), replace(told, wanted=True)
        # One that a former run drained is drained anew, or gets work again.
        yield self._order(told, on=True), replace(told, known=Dispatched())
        yield self._order(told, on=False), replace(told, known=Dispatched(), wanted=True)

    def _order(self, world: Tiny, *, on: bool) -> DrainOrder:
        reason = Reason.DRAIN_AWAITED if on else Reason.NEEDED
        return DrainOrder("i-r1", self._record(world), on, reason, "p")

    def seen(self, world: Tiny) -> Seen:
        unwanted = {} if world.wanted else {"i-r1": 1.0}
        # Its polls are fresh, however late it is.
        settings = replace(self._world.settings, poll_stale_after=1e6)
        snapshot = replace(
            self._snapshot,
            now=self._at(world),
            dispatched=world.known,
            history=changed(self._snapshot.history, unwanted=unwanted),
            lease=world.lease,
        )
        return Seen(snapshot, settings, Guarantee.CAS)

    def learns(self, world: Tiny, one: Learned) -> Tiny:
        assert isinstance(one, SchedulerTold)
        return replace(world, known=dispatched_after(world.known, one, self._at(world)))

    def forgets(self, world: Tiny) -> Tiny:
        return replace(world, known=Dispatched(since=self._at(world)))

    def _record(self, world: Tiny) -> Record:
        return replace(self._listed, claim=claim("r1", at=1.0, life=world.life))

    def carry_out(self, world: Tiny, effect: Effect) -> tuple[Any, Tiny]:
        if isinstance(effect, ReadRecord):
            return self._record(world), world
        assert isinstance(effect, TellScheduler), "a dispatch asks for nothing else"
        if self._at(world) > effect.not_after:
            return SchedulerRefused("too late"), world
        return None, replace(world, drained=effect.on)

    def changes(self, world: Tiny) -> Iterator[tuple[str, Tiny]]:
        if world.life == 1:
            yield "freed and claimed again", replace(world, life=2, drained=False)
        yield "demand changes", replace(world, wanted=not world.wanted)
        if world.lease:
            yield "the lease is lost", replace(world, lease=False)

    def progress(self, world: Tiny) -> Iterator[tuple[str, Tiny]]:
        if world.time < 1:
            yield "time passes", replace(world, time=world.time + 1)

    def wrong(self, before: Scene[Tiny], after: Scene[Tiny]) -> str | None:
        was, now = before.world, after.world
        for one in after.out:
            if not isinstance(one, TellScheduler) or one in before.out:
                continue
            if one.on is now.wanted:
                return "it leaves though demand has changed"
            if not now.lease:
                return "it leaves though the lease is lost"
            if now.life == 2:
                return "another life's node is told"
            undone = [late for late in before.loose if isinstance(late, TellScheduler)]
            if one.on and any(not late.on and not self._is_over(now, late) for late in undone):
                return "it is drained while an order may undo that"
        for one in (*after.out, *after.loose):
            if not isinstance(one, TellScheduler) or one.on or self._is_over(now, one):
                continue
            if now.believed:
                return "a drain is believed that another order of ours may undo"
        answered = before.faults == after.faults and isinstance(before.running, Writing)
        if answered and after.running is None and was.life == 1 and after.faults == 0:
            on = before.running.order.on
            if on and now.drained and not was.drained and not now.believed:
                return "told, and not known"
        return None

    def _is_over(self, world: Tiny, one: TellScheduler) -> bool:
        return self._at(world) > one.not_after


def explored(max_faults: int = 2) -> Explored:
    return Explorer(TinyDispatch(), max_faults=max_faults).explore()


def test_no_drain_is_believed_that_one_of_ours_may_undo(record_property: Any) -> None:
    nothing_is_wrong(explored(), Dispatch, record_property)


@cases(
    ("guard", "without"),
    {
        "d12-the-look-before-it": ("may_tell_scheduler", lambda *given: True),
        "d12-what-is-known": (
            "SchedulerTold",
            lambda record, host, on, unclear=False: SchedulerTold(record, host, on or True),
        ),
    },
)
def test_the_exploration_notices_a_guard_that_is_gone(
    monkeypatch: pytest.MonkeyPatch, guard: str, without: Any
) -> None:
    monkeypatch.setattr(drain, guard, without)
    assert explored().wrong


def test_an_order_that_waits_too_long_is_given_up_and_never_sent() -> None:
    tiny, workflow = TinyDispatch(), Dispatch()
    order, begun = next(iter(tiny.begins()))
    seen = tiny.seen(begun)
    for state in (Reading(order), Writing(order)):
        assert workflow.on(state, Expired(), seen).state == GivenUp(order)
    late = Answered(ReadRecord(order.record.uuid), order.record)
    assert workflow.on(Reading(order), late, seen).effects
    assert workflow.on(GivenUp(order), late, seen) == Step(None)
