"""Shutting down, whatever happens: no node that works is sent away, and none that lives is gone."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import pytest

from nodemanager.core.execute import shutdown
from nodemanager.core.execute.effects import (
    AskNode,
    DestroyNode,
    Effect,
    LookAtNode,
    MarkDown,
    NodeLooked,
)
from nodemanager.core.execute.shutdown import Asking, ShutDown
from nodemanager.core.execute.workflow import Failed, Seen, Step
from nodemanager.core.model.changed import changed
from nodemanager.core.model.scheduling import OURS, Dispatched, SchedulerNode, SchedulerOrder
from nodemanager.core.model.verdict import Verdict
from nodemanager.core.model.world import (
    CloudNode,
    CloudState,
    Guarantee,
    Leftover,
    LeftoverKind,
    Outcome,
    WorkerState,
)
from nodemanager.core.observe.facts import DestroySent
from nodemanager.core.observe.history import History
from nodemanager.core.observe.listing_history import Absence
from nodemanager.core.plan import destroy
from nodemanager.core.plan.destroy import ShutdownEvidence, ShutdownOrder
from nodemanager.errors import CloudError, Throttled
from tests.cases import cases
from tests.core.build import SMALL, World, node, world
from tests.core.execute.explored.explorer import Explored, Explorer, Scene
from tests.core.nodes import pinging

pytestmark = pytest.mark.slow

STEP_S = 40.0
"""How far time passes at once: longer than two denials have to lie apart (D3)."""
RUNNING, ENDING, GONE = "running", "ending", "gone"
VOLUME = Leftover(LeftoverKind.VOLUME, "vol-1", "i-r")


@dataclass(frozen=True)
class Tiny:
    """One node that is idle and wanted no more; its record; what the manager may do.

    `denies` says that the cloud calls the node unknown, whether it is there or not.
    """

    node: str = RUNNING
    denies: bool = False
    busy: bool = False
    lease: bool = True
    wanted: bool = False
    pins_work: bool = True
    time: int = 0


class TinyShutdown:
    workflow = ShutDown()
    asks = frozenset(
        {"DestroySent", "pins entered", "node.gone", "NodeGone", "node.shutdown_failed"}
    )

    def __init__(self) -> None:
        made: World = world(max_nodes=4, sizes=(SMALL,), max_poll_time=4.0)
        made.add_record("r", quiet=100.0)
        made.add_node("r")
        pinging(made, WorkerState.IDLE, polls=6, every=30.0)
        (self._order,) = made.last.shutdowns
        self._made = made
        self._snapshot = made.snapshot()
        self._missing = _missing(made)

    def begins(self) -> Iterable[tuple[ShutdownOrder, Tiny]]:
        yield self._order, Tiny()

    @cache  # noqa: B019 - one exploration long
    def seen(self, world: Tiny) -> Seen:
        now = self._snapshot.now + STEP_S * world.time
        wall = self._snapshot.wall + STEP_S * world.time
        is_missed = world.node == GONE and world.time > 0
        history = self._missing if is_missed else self._snapshot.history
        snapshot = replace(self._snapshot, now=now, wall=wall, lease=world.lease, history=history)
        unmet = frozenset({SMALL.name}) if world.wanted else frozenset[str]()
        return Seen(snapshot, self._made.settings, Guarantee.CAS, unmet=unmet)

    def _record(self, world: Tiny) -> Any:
        (record,) = self._made.records
        state = WorkerState.BUSY if world.busy else WorkerState.IDLE
        return replace(record, worker_state=state)

    def _node(self, world: Tiny) -> CloudNode | None:
        states = {RUNNING: CloudState.RUNNING, ENDING: CloudState.STOPPING}
        return None if world.node == GONE else node("r", state=states[world.node])

    def carry_out(self, world: Tiny, effect: Effect) -> tuple[Any, Tiny]:
        match effect:
            case LookAtNode(pins=asks):
                pins = (VOLUME,) if asks and world.pins_work else None
                failed = shutdown_error() if asks and not world.pins_work else None
                return NodeLooked(ShutdownEvidence(self._record(world)), pins, failed), world
            case DestroyNode() if world.node == GONE:
                return Outcome.UNKNOWN, world
            case DestroyNode():
                return Outcome.ACCEPTED, changed(world, node=ENDING)
            case AskNode():
                return None if world.denies else self._node(world), world
        raise AssertionError(f"a shutdown asks for no {effect}")

    def changes(self, world: Tiny) -> Iterator[tuple[str, Tiny]]:
        if not world.busy and world.node == RUNNING:
            yield "a job begins", changed(world, busy=True)
        if world.lease:
            yield "lease lost", changed(world, lease=False)
        if not world.wanted:
            yield "demand comes back", changed(world, wanted=True)
        if world.pins_work:
            yield "the cloud tells no pins", changed(world, pins_work=False)

    def progress(self, world: Tiny) -> Iterator[tuple[str, Tiny]]:
        if world.node == ENDING:
            yield "it ends", changed(world, node=GONE)
        if (world.node == GONE or world.denies) and world.time < 3:
            yield "time passes", changed(world, time=world.time + 1)

    def expires(self, state: Any) -> bool:
        # A destroy that never took effect: the node is there, and is judged afresh.
        return isinstance(state, shutdown.Asking)

    def wrong(self, before: Scene[Tiny], after: Scene[Tiny]) -> str | None:
        sent = [one for one in after.out if one not in before.out]
        if any(isinstance(one, DestroyNode) for one in sent):
            if before.world.busy:
                return "a busy node is destroyed as idle (D12)"
            if not before.world.lease:
                return "destroyed without a lease (C10)"
            if before.world.wanted:
                return "destroyed though demand came back (D2)"
            if not after.says("DestroySent"):
                return "destroyed, and a listing that lacks it looks like a collapse (L3)"
            if not after.says("pins entered") and before.world.pins_work:
                return "destroyed before what it pins is written down (D4)"
        for said in ("node.gone", "NodeGone"):
            if after.says(said) and after.world.node != GONE:
                return "told as gone, and it is there (D3)"
        if after.ended == "gone" and after.world.node != GONE:
            return "concluded as gone, and it is there (D3)"
        if "CLEAN" in after.begun and after.world.node != GONE:
            return "its record is to be freed, and it is there (C20)"
        over = after.is_over and after.ended == "gone"
        if over and "CLEAN" not in after.begun:
            return "it is gone, and nothing frees its record (C20)"
        return None


def _missing(made: World) -> History:
    """What is known once listings have lacked the node for `settle`, and its record is silent."""
    (record,) = made.records
    history, settings = made.snapshot().history, made.settings
    assert history.records is not None
    assert history.clock is not None
    assert record.last_ping_at is not None
    heard_s = history.clock.age(record.last_ping_at, made.snapshot().now)
    first = made.snapshot().now - heard_s
    settled_at, listings = first + settings.settle, settings.absent_listings
    absence = Absence(record.incarnation, first, first, settled_at, listings)
    records = replace(history.records, started_at=absence.last_at)
    return replace(history, absence={record.uuid: absence}, records=records)


def shutdown_error() -> Any:
    return CloudError("HTTP 500")


class ScheduledShutdown(TinyShutdown):
    """A scheduler gives the node work, until it is drained, and must hear that it is gone.

    `busy` is the scheduler's word here. `wanted` gives the node work again in the scheduler, too.
    The record is another's once it was cleaned and claimed again: `claimed`.
    """

    def __init__(self) -> None:
        made: World = world(
            max_nodes=4, sizes=(SMALL,), max_poll_time=4.0, scheduled=True, demand_polled=True
        )
        made.add_record("r", quiet=100.0)
        made.add_node("r")
        made.poll()
        drained = SchedulerNode(
            "compute1", WorkerState.IDLE, draining=True, reason=f"{OURS}to be shut down"
        )
        for _ in range(3):
            made.advance(30.0)
            made.ping("r")
            made.poll()
            made.poll_scheduler(drained)
            made.plan()
        (record,) = made.records
        told = SchedulerOrder("compute1", record.incarnation, True, made.now)
        made.flags |= {"dispatched": Dispatched(orders={"r": told})}
        made.advance(1.0)
        made.poll_scheduler(drained)
        made.plan()
        (self._order,) = made.last.shutdowns
        self._made = made
        self._snapshot = made.snapshot()
        self._missing = _missing(made)
        self._drained = drained

    def begins(self) -> Iterable[tuple[ShutdownOrder, ScheduledTiny]]:
        yield self._order, ScheduledTiny()

    def carry_out(self, world: Any, effect: Effect) -> tuple[Any, Any]:
        match effect:
            case LookAtNode(hostnames=hostnames):
                assert hostnames == ("compute1",)
                answer, _ = super().carry_out(world, effect)
                state = WorkerState.BUSY if world.busy else WorkerState.IDLE
                told = replace(self._drained, state=state, draining=not world.wanted)
                (record,) = self._made.records
                return replace(answer, found=ShutdownEvidence(record, scheduled=(told,))), world
            case MarkDown(hostname="compute1", record="r", incarnation=incarnation):
                (record,) = self._made.records
                assert incarnation == record.incarnation
                if world.claimed:
                    return None, world
                return None, changed(world, marked=True)
        return super().carry_out(world, effect)

    def wrong(self, before: Scene[Any], after: Scene[Any]) -> str | None:
        if after.world.marked and after.world.node != GONE:
            return "a node that lives is marked down"
        over = after.is_over and after.ended == "gone"
        if over and after.faults == 0 and not after.world.marked:
            return "it is gone, and the scheduler does not know"
        for one in after.out:
            if isinstance(one, MarkDown) and "CLEAN" in after.begun:
                return "the scheduler is told once the name may be another's"
        return super().wrong(before, after)


@dataclass(frozen=True)
class ScheduledTiny(Tiny):
    marked: bool = False
    claimed: bool = False


class DeniedShutdown(TinyShutdown):
    """The cloud denies a node that lives and is listed: A1 is broken. All else keeps still."""

    def begins(self) -> Iterable[tuple[ShutdownOrder, Tiny]]:
        yield self._order, Tiny(denies=True)

    def changes(self, world: Tiny) -> Iterator[tuple[str, Tiny]]:
        return iter(())

    def wrong(self, before: Scene[Tiny], after: Scene[Tiny]) -> str | None:
        # Of one that was sent and lost, a run says so.
        was_sent = after.world.node != RUNNING or after.says("node.shutdown_failed")
        if "CLEAN" in after.begun and not was_sent:
            return "its record is to be freed, and nobody destroyed it (C20)"
        return None


def explored() -> Explored:
    """Without a scheduler, and with one."""
    return Explorer(TinyShutdown()).explore().and_also(explored_with_scheduler(2))


def explored_with_scheduler(max_faults: int = 1) -> Explored:
    return Explorer(ScheduledShutdown(), max_faults=max_faults).explore()


def test_no_node_that_works_is_sent_away_and_none_told_as_gone_that_lives() -> None:
    found = explored()
    print(found)
    assert found.wrong == [], "\n".join(found.wrong)
    assert found.states == {one.__name__ for one in ShutDown.states}


def test_a_denial_alone_frees_no_record_of_a_node_that_nobody_destroyed_c20(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A kill came before the destroy was sent."""
    assert Explorer(DeniedShutdown(), max_faults=2).explore().wrong == []
    monkeypatch.setattr(shutdown, "_is_in_doubt", lambda *given: False)
    assert Explorer(DeniedShutdown(), max_faults=2).explore().wrong


def _trusts_the_plan(order: Any, *given: Any, **more: Any) -> Verdict:
    return Verdict(shutdown.Kind.SHUTDOWN, order.reason, order.node_id)


def _believes_at_once(asking: Asking, node: CloudNode | None, seen: Seen) -> Any:
    return node is None or node.state is CloudState.STOPPING, asking.denied_at


def _frees_nothing(order: Any, seen: Any) -> Any:
    return Step(None, ended=shutdown.Ended("gone"))


@cases(
    ("guard", "without"),
    {
        "d2-the-last-look": ("confirm_shutdown", _trusts_the_plan),
        "d3-gone-too-early": ("judge_gone", _believes_at_once),
        "c20-nothing-freed": ("_gone", _frees_nothing),
    },
)
def test_the_exploration_notices_a_guard_that_is_gone(
    monkeypatch: pytest.MonkeyPatch, guard: str, without: Any
) -> None:
    monkeypatch.setattr(shutdown, guard, without)
    assert Explorer(TinyShutdown(), max_faults=1).explore().wrong


@cases(
    ("module", "guard", "without"),
    {
        "d2-asked-again": (destroy, "_not_done", lambda *given: None),
        "freed-before-it-is-told": (
            shutdown,
            "_marking",
            lambda state, event, seen: shutdown._freed(state.order, seen),
        ),
        "never-told": (
            shutdown,
            "_gone",
            lambda order, seen: shutdown._told_gone(shutdown._freed(order, seen), order, seen),
        ),
    },
)
def test_the_exploration_notices_a_guard_of_the_scheduler_that_is_gone(
    monkeypatch: pytest.MonkeyPatch, module: Any, guard: str, without: Any
) -> None:
    monkeypatch.setattr(module, guard, without)
    assert explored_with_scheduler().wrong


@cases(
    ("error", "refused"),
    {
        "refused": (Throttled("slow down"), True),
        "of-unknown-outcome": (CloudError("timeout"), False),
    },
)
@pytest.mark.parametrize("kind", [shutdown.Destroying, shutdown.GivenUp])
def test_only_a_destroy_that_was_refused_explains_no_absence_l3(
    kind: Callable[[ShutdownOrder], shutdown.ShutdownState], error: CloudError, refused: bool
) -> None:
    tiny = TinyShutdown()
    ((order, begun),) = tiny.begins()
    seen = tiny.seen(begun)
    failed = Failed(DestroyNode(order.node_id, order.not_after), error)
    facts = ShutDown().on(kind(order), failed, seen).facts
    withdrawn = (DestroySent(order.node_id, seen.snapshot.now, refused=True),)
    assert facts == (withdrawn if refused else ())


def test_a_destroy_that_the_journal_does_not_have_is_noticed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(shutdown.Destroying, "is_written", False)
    found = Explorer(TinyShutdown(), max_faults=1).explore()
    assert any("before the journal had it" in one for one in found.wrong)
