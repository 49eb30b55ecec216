"""What the daemon does for the workflows that its runner carries out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from nodemanager.actors.daemon.backlog_marks import BacklogMarks
from nodemanager.actors.daemon.context import Context
from nodemanager.actors.daemon.endings import Endings
from nodemanager.actors.daemon.invariants import Invariants
from nodemanager.actors.daemon.leftovers import LeftoverReleases
from nodemanager.actors.daemon.operators import CommandHandler
from nodemanager.actors.messages import WaitOver
from nodemanager.actors.workers.worker_pool import WorkerPool
from nodemanager.core.execute import news
from nodemanager.core.execute.effects import StoreWrite
from nodemanager.core.execute.flights import Flights, LeftOpen, Stepped
from nodemanager.core.execute.state import wanted
from nodemanager.core.execute.workflow import Action, End, FollowUp, Key, Seen
from nodemanager.core.model.world import Leftover
from nodemanager.core.observe.facts import Fact
from nodemanager.errors import PlaceFull, RemoteError, Throttled


@dataclass(eq=False)
class WorkflowShell:
    """The runner's `Shell`: tells each part of the daemon what concerns it."""

    _context: Context
    _invariants: Invariants
    _releases: LeftoverReleases
    _backlog: BacklogMarks
    _operators: CommandHandler
    _endings: Endings

    def seen(self, key: Key, plan_id: str) -> Seen:
        """What the workflow decides from: this moment, without its own in-flight action."""
        context = self._context
        state, inputs = context.state, context.inputs
        adopts = key.action is Action.ADOPT
        return Seen(
            context.snapshot(plan_id, key),
            context.settings,
            inputs.guarantee,
            stopping=context.stopping is not None,
            repeats_creates=inputs.repeats_creates,
            undecided=context.deciding,
            pins_failed=state.pins_failed,
            indexed=self._backlog.seen if adopts else None,
            marks=self._backlog.marks if adopts else {},
            fence_wait=inputs.fence_wait,
            failing=state.writes.failed > 0,
            **wanted(state),
        )

    @property
    def flights(self) -> Flights:
        return self._context.flights

    def fold(self, fact: Fact) -> None:
        self._context.fold(fact)

    def workers_for(self, action: Action) -> WorkerPool:
        context = self._context
        if action in (Action.SETUP, Action.ADOPT):
            return context.setups
        # A scheduler that hangs must not keep the cleaners waiting.
        ends = (Action.SHUTDOWN, Action.DISPATCH)
        return context.shutdowns if action in ends else context.cleaners

    def remind(self, seconds: float, message: WaitOver) -> None:
        self._context.remind(seconds, message)

    def wrote(self, effect: StoreWrite, answer: Any, error: RemoteError | None) -> None:
        self._context.learn(news.StoreAnswered(effect, answer, error))

    def throttled(self, error: RemoteError) -> None:
        self._context.throttled(error)

    def cloud_worked(self) -> None:
        self._context.learn(news.CloudWorked())

    def enter_pins(self, pins: tuple[Leftover, ...]) -> bool:
        return self._releases.book.enter(pins, self._context.now)

    def learn(self, one: news.Learned | Stepped | LeftOpen) -> None:
        context = self._context
        now = context.now
        if isinstance(one, news.PinsFailed) and isinstance(one.error, Throttled):
            context.throttled(one.error)
        context.learn(one)
        match one:
            case news.NodeGone():
                self._node_gone(one, now)
            case news.CreateRefused():
                self._place_rests(one)
            case news.PinsCalledOff(node_id):
                self._releases.book.called_off(node_id)
            case news.Restored(record=uuid):
                context.event_log.verdicts.restored(uuid)
            case news.NotRestored(verdict=verdict):
                context.event_log.verdicts.not_restored(verdict)
            case news.ItemEnded(key=key, status=status):
                self._backlog.item_ended(key, status)

    def _node_gone(self, gone: news.NodeGone, now: float) -> None:
        """Note that a node that we destroyed is gone (D2-D4)."""
        context = self._context
        context.event_log.verdicts.forget_node(gone.node_id)
        self._releases.tend()
        self._operators.marks.forget(frozenset({gone.node_id}))

    def _place_rests(self, refused: news.CreateRefused) -> None:
        """Log the rest of a place that the refusal of a create has begun, if it has (D6)."""
        if isinstance(refused.error, PlaceFull):
            context, place = self._context, refused.error.place
            ahead_s = context.clock.wall() - context.now
            for size in refused.sizes:
                until = context.limits.places[size][place] + ahead_s
                context.event_log.place_rests(size, place, until)

    def begun(self, one: FollowUp) -> None:
        self._context.event_log.clean_ordered(one.order)

    def ended(self, end: End) -> None:
        """Note that a workflow ended, and tell the parts that wait for it."""
        self._context.learn(end)
        for part in (self._invariants, self._backlog, self._operators.questions):
            part.ended(end)

    def settled(self) -> None:
        self._endings.settled()
