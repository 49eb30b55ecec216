"""Destroys nodes, drains them in a scheduler, releases leftovers. It never writes a record."""

from __future__ import annotations

from typing import Any

from nodemanager.actors.messages import (
    FindLeftovers,
    LeftoverReleased,
    LeftoversFound,
    ReleaseLeftover,
)
from nodemanager.actors.workers.worker_pool import WorkerActor
from nodemanager.core.execute.effects import (
    AskNode,
    DestroyNode,
    Effect,
    LookAtNode,
    MarkDown,
    NodeLooked,
    ReadRecord,
    TellScheduler,
)
from nodemanager.core.model.scheduling import SchedulerNode
from nodemanager.core.model.world import Outcome
from nodemanager.core.plan.destroy import ShutdownEvidence
from nodemanager.errors import RemoteError, SchedulerError, SchedulerRefused
from nodemanager.schedulers.api import Scheduler


class NodeShutdownActor(WorkerActor):
    """Answers each order after one or two remote calls; the timer does the waiting (D3)."""

    def _carry_out(self, effect: Effect) -> Any:
        match effect:
            case LookAtNode():
                return self._look(effect)
            case DestroyNode(node_id=node_id, not_after=not_after):
                self._check_in_time(not_after)
                return self._context.cloud.destroy(node_id)
            case AskNode(node_id=node_id):
                return self._context.cloud.ask(node_id)
            case ReadRecord(uuid=uuid):
                return self._context.store.read(uuid)
            case TellScheduler():
                return self._tell_scheduler(effect)
            case MarkDown(hostname=hostname):
                is_its = effect.is_still_its(self._context.store.read(effect.record))
                if is_its and self._is_alone(effect):
                    had_joined = effect.had_joined
                    return self._scheduler.mark_down(hostname, "destroyed", had_joined=had_joined)
                return True
        raise self._not_mine(effect)

    def _is_alone(self, effect: MarkDown) -> bool:
        if not effect.asks_twins:
            return True
        return effect.is_alone(self._context.cloud.find_by_record(effect.record))

    def _look(self, effect: LookAtNode) -> NodeLooked:
        pins, failed = None, None
        if effect.pins:
            # Before the record is read: the destroy is decided on what was read last.
            try:
                pins = self._context.cloud.pins(effect.node_id)
            except RemoteError as error:
                failed = error
        try:
            record = self._context.store.read(effect.record) if effect.record is not None else None
            # The scheduler last: what it says is the newest of all.
            told = self._in_scheduler(effect.hostnames) if effect.hostnames else ()
            found = ShutdownEvidence(record, scheduled=told)
        except RemoteError as error:
            found = ShutdownEvidence(None, error=str(error))
        return NodeLooked(found, pins, failed)

    @property
    def _scheduler(self) -> Scheduler:
        scheduler = self._context.scheduler
        if scheduler is None:
            raise SchedulerRefused("there is no scheduler")
        return scheduler

    def _in_scheduler(self, hostnames: tuple[str, ...]) -> tuple[SchedulerNode, ...]:
        listed = self._scheduler.nodes()
        if not listed.complete:
            raise SchedulerError("its listing is incomplete")
        return tuple(node for node in listed.items if node.name in hostnames)

    def _tell_scheduler(self, effect: TellScheduler) -> None:
        late_s = self._context.clock.boottime() - effect.not_after
        if late_s > 0:
            raise SchedulerRefused(f"its order expired {late_s:.0f} s before it could be sent")
        if effect.on:
            self._scheduler.drain(effect.hostname, "to be shut down")
        else:
            self._scheduler.resume(effect.hostname)

    def on_FindLeftovers(self, message: FindLeftovers) -> None:
        try:
            answer = LeftoversFound(self._context.cloud.find_leftovers())
        except RemoteError as error:
            answer = LeftoversFound((), error)
        self._context.report(answer)

    def on_ReleaseLeftover(self, message: ReleaseLeftover) -> None:
        leftover = message.leftover
        try:
            answer = LeftoverReleased(leftover, self._context.cloud.release(leftover))
        except RemoteError as error:
            outcome = Outcome.FAILED if error.definite else Outcome.UNKNOWN
            answer = LeftoverReleased(leftover, outcome, error)
        self._context.report(answer)
