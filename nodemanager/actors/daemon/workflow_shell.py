"""What the daemon does for the workflows that its runner carries out."""

from __future__ import annotations

from collections import Counter
from typing import Any

from nodemanager.actors.daemon.backlog_runs import BacklogRuns
from nodemanager.actors.daemon.boot_failures import BootFailures
from nodemanager.actors.daemon.context import Context
from nodemanager.actors.daemon.endings import Endings
from nodemanager.actors.daemon.invariants import Invariants
from nodemanager.actors.daemon.leftover_releases import LeftoverReleases
from nodemanager.actors.daemon.operators import CommandHandler
from nodemanager.actors.daemon.place_rests import PlaceRests
from nodemanager.actors.daemon.record_writes import RecordWrites
from nodemanager.actors.daemon.snapshots import Snapshots
from nodemanager.actors.messages import WaitOver
from nodemanager.actors.workers.worker_pool import WorkerPool
from nodemanager.core.execute.books import (
    CreateRefused,
    FenceStands,
    ItemEnded,
    Learned,
    NodeExpected,
    NodeGone,
    NotRestored,
    PinsCalledOff,
    PinsDoubted,
    PinsFailed,
    Restored,
    WriteInDoubt,
    learned,
)
from nodemanager.core.execute.effects import StoreWrite
from nodemanager.core.execute.recent import after_end, after_fence, after_gone
from nodemanager.core.execute.workflow import Action, Begin, End, Key, Seen
from nodemanager.core.judge.node_view import FAILED_BOOTS
from nodemanager.core.model.reasons import Reason
from nodemanager.core.model.world import Leftover, life_key
from nodemanager.core.observe.boots import is_booting
from nodemanager.core.observe.facts import Fact
from nodemanager.errors import RemoteError, Throttled


class WorkflowShell:
    """The runner's `Shell`: tells each part of the daemon what concerns it."""

    def __init__(
        self,
        context: Context,
        *,
        snapshots: Snapshots,
        writes: RecordWrites,
        boot_failures: BootFailures,
        place_rests: PlaceRests,
        invariants: Invariants,
        releases: LeftoverReleases,
        backlog: BacklogRuns,
        operators: CommandHandler,
        endings: Endings,
    ) -> None:
        self._context = context
        self._snapshots = snapshots
        self._writes = writes
        self._boot_failures = boot_failures
        self._place_rests = place_rests
        self._invariants = invariants
        self._releases = releases
        self._backlog = backlog
        self._operators = operators
        self._endings = endings

    def seen(self, key: Key, plan_id: str) -> Seen:
        """What the workflow decides from: this moment, without its own in-flight action."""
        context = self._context
        # A set-up that has landed does not keep its claim from being released (U6).
        landed = key.id if key.action is Action.CLEAN else None
        wants = context.plan.wants if context.plan is not None else None
        gone = context.books.withdrawn
        adopts = key.action is Action.ADOPT
        return Seen(
            self._snapshots.taken(plan_id, without=landed, besides=key),
            context.settings,
            context.inputs.guarantee,
            stopping=context.stopping is not None,
            # Without those withdrawn since.
            needless=Counter(wants.needless) - gone if wants else {},
            wished=None if wants is None else wants.wished,
            too_many=wants is not None and wants.too_many > gone.total(),
            too_dear=Counter(wants.too_dear) - gone if wants else {},
            repeats_creates=context.inputs.repeats_creates,
            unmet=wants.unmet if wants else frozenset(),
            undecided=context.deciding,
            pins_failed=context.books.pins_failed,
            picture=self._backlog.seen if adopts else None,
            run=self._backlog.run if adopts else None,
            fence_wait=context.inputs.fence_wait,
            failing=self._writes.failing,
        )

    def fold(self, fact: Fact) -> None:
        self._context.fold(fact)

    def crew_for(self, action: Action) -> WorkerPool:
        context = self._context
        if action in (Action.SETUP, Action.ADOPT):
            return context.setups
        # A scheduler that hangs must not keep the one cleaner waiting.
        ends = (Action.SHUTDOWN, Action.DISPATCH)
        return context.shutdowns if action in ends else context.cleaner

    def remind(self, seconds: float, message: WaitOver) -> None:
        self._context.remind(seconds, message)

    def wrote(self, effect: StoreWrite, answer: Any, error: RemoteError | None) -> None:
        self._writes.answered(effect, answer, error)

    def throttled(self, error: RemoteError) -> None:
        self._context.throttled(error)

    def enter_pins(self, pins: tuple[Leftover, ...]) -> bool:
        return self._releases.book.enter(pins, self._context.now)

    def learn(self, one: Learned) -> None:
        context = self._context
        now = context.now
        if isinstance(one, WriteInDoubt):
            self._writes.in_doubt(one.record)
            return
        if isinstance(one, PinsFailed) and isinstance(one.error, Throttled):
            context.throttled(one.error)
        nodes = context.nodes_now(one.node_id if isinstance(one, NodeExpected) else None)
        context.books = learned(context.books, one, now, nodes, context.settings)
        match one:
            case NodeGone():
                self._node_gone(one, now)
            case CreateRefused():
                self._place_rests.refused(one)
            case FenceStands():
                context.recent = after_fence(context.recent, now)
            case PinsCalledOff(node_id):
                self._releases.book.called_off(node_id)
            case PinsDoubted(node_id):
                self._releases.book.doubted(node_id, now, context.settings.visible_after)
            case Restored(record=uuid):
                self._writes.restored(uuid)
                context.event_log.restored(uuid)
            case NotRestored(verdict=verdict):
                context.event_log.not_restored(verdict)
            case ItemEnded(key=key, step=step):
                self._backlog.step_ended(key, step)

    def _node_gone(self, gone: NodeGone, now: float) -> None:
        """Note that a node that we destroyed is gone (D2-D4)."""
        context = self._context
        context.recent = after_gone(context.recent, gone, now)
        context.event_log.forget_node(gone.node_id)
        if gone.reason in FAILED_BOOTS or self._ended_in_setup(gone):
            node = context.history.present.get(gone.node_id)
            # Its record may wait for its clean for long, and the node is listed as ended meanwhile.
            life = None if gone.record is None else life_key(gone.record, gone.incarnation)
            self._boot_failures.failed(node, gone.size, life)
        self._releases.book.ended(gone.node_id, now)
        self._releases.tend()
        self._operators.marks.forget(frozenset({gone.node_id}))

    def _ended_in_setup(self, gone: NodeGone) -> bool:
        """Whether the node was stopped, or fell silent, before its boot came to something (B5)."""
        if gone.reason not in (Reason.NODE_STOPPED, Reason.NODE_DOWN) or gone.record is None:
            return False
        return is_booting(gone.record, gone.incarnation, self._context.history)

    def begun(self, one: Begin) -> None:
        self._context.event_log.clean_ordered(one.order)

    def ended(self, end: End) -> None:
        """Note that a workflow ended, and tell the parts that keep books on it."""
        context = self._context
        context.recent = after_end(context.recent, end, context.now, context.settings)
        for part in (self._boot_failures, self._invariants, self._backlog, self._operators):
            part.ended(end)

    def settled(self) -> None:
        self._endings.settled()
