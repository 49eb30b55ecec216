"""The three roles of workers: who sets nodes up, who destroys them, and who frees records.

A set-up worker creates or claims a record, and never frees one; a shutdown worker never writes a
record; the record cleaner alone frees, restores, deletes, binds and drains (C11, C12, U8, P1a).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from nodemanager import errors
from nodemanager.actors import messages
from nodemanager.actors.base import TeamContext
from nodemanager.actors.workers.worker_pool import WorkerActor
from nodemanager.cloud.api import CreateOrder
from nodemanager.core.execute import effects
from nodemanager.core.model.scheduling import SchedulerNode
from nodemanager.core.model.world import Claim, Outcome, Record, Tags
from nodemanager.core.observe.evidence import CleanEvidence
from nodemanager.core.plan.availability import client_token
from nodemanager.core.plan.destroy import ShutdownEvidence
from nodemanager.schedulers.api import Scheduler

UserData = Callable[[Record, str], str]
"""The user data for a record's node, from the record and its ping URL."""


class NodeSetupActor(WorkerActor):
    """Carries out one step of a set-up at a time; the daemon decides in between (D5, U10)."""

    def __init__(self, context: TeamContext, user_data: UserData) -> None:
        super().__init__(context)
        self._user_data = user_data

    def on_TakeUserData(self, message: messages.TakeUserData) -> None:
        self._user_data = message.user_data

    def _carry_out(self, effect: effects.Effect) -> Any:
        match effect:
            case effects.CheckImage():
                return self._context.cloud.check_image()
            case effects.ClaimRecord():
                return self._claim(effect)
            case effects.RenewClaim(record=record, claim=claim, offset=offset):
                return self._context.store.claim(record, self._stamped(claim, offset))
            case effects.CreateNode():
                return self._create(effect)
            case effects.FinishCreate(pending=pending, place=place):
                return self._context.cloud.finish(pending, place)
            case effects.FindByTag(uuid=uuid):
                return self._context.cloud.find_by_record(uuid)
            case effects.AskNode(node_id=node_id):
                return self._context.cloud.ask(node_id)
            case effects.AdoptNode(node_id=node_id, tags=tags):
                return self._context.cloud.adopt(node_id, tags)
        raise self._not_mine(effect)

    def _claim(self, effect: effects.ClaimRecord) -> Record:
        with errors.before_writing():
            found = self._context.store.store_id()
        if found != effect.store_id:
            raise errors.StoreRefused(f"the store is {found} now, and was {effect.store_id} (L5)")
        claim = self._stamped(effect.claim, effect.offset)
        if effect.record is not None:
            return self._context.store.claim(effect.record, claim)
        return self._context.store.create(claim)

    def _stamped(self, claim: Claim, offset: float) -> Claim:
        return replace(claim, at=offset + self._context.clock.boottime())

    def _create(self, effect: effects.CreateNode) -> effects.Created:
        began_at = self._context.clock.boottime()
        record, claim = effect.record, effect.claim
        order = CreateOrder(
            name=record.hostname or claim.node_name,
            size=effect.size,
            tags=Tags(claim.pool, record.uuid, claim.incarnation, effect.size.name),
            client_token=client_token(claim.incarnation, effect.place),
            user_data=self._user_data(record, self._context.store.ping_url(record)),
            place=effect.place,
        )
        node = self._context.cloud.create(order)
        return effects.Created(node, self._context.clock.boottime() - began_at)


class NodeShutdownActor(WorkerActor):
    """Answers each order after one or two remote calls; the timer does the waiting (D3)."""

    def _carry_out(self, effect: effects.Effect) -> Any:
        match effect:
            case effects.LookAtNode():
                return self._look(effect)
            case effects.DestroyNode(node_id=node_id, not_after=not_after):
                self._check_in_time(not_after)
                return self._context.cloud.destroy(node_id)
            case effects.AskNode(node_id=node_id):
                return self._context.cloud.ask(node_id)
            case effects.ReadRecord(uuid=uuid):
                return self._context.store.read(uuid)
            case effects.TellScheduler():
                return self._tell_scheduler(effect)
            case effects.MarkDown(hostname=hostname):
                is_its = effect.is_still_its(self._context.store.read(effect.record))
                if is_its and self._is_alone(effect):
                    had_joined = effect.had_joined
                    return self._scheduler.mark_down(hostname, "destroyed", had_joined=had_joined)
                return True
        raise self._not_mine(effect)

    def _is_alone(self, effect: effects.MarkDown) -> bool:
        if not effect.asks_twins:
            return True
        return effect.is_alone(self._context.cloud.find_by_record(effect.record))

    def _look(self, effect: effects.LookAtNode) -> effects.NodeLooked:
        pins, failed = None, None
        if effect.pins:
            # Before the record is read: the destroy is decided on what was read last.
            try:
                pins = self._context.cloud.pins(effect.node_id)
            except errors.RemoteError as error:
                failed = error
        try:
            record = self._context.store.read(effect.record) if effect.record is not None else None
            # The scheduler last: what it says is the newest of all.
            scheduled = self._in_scheduler(effect.hostnames) if effect.hostnames else ()
            found = ShutdownEvidence(record, scheduled=scheduled)
        except errors.RemoteError as error:
            found = ShutdownEvidence(None, error=str(error))
        return effects.NodeLooked(found, pins, failed)

    @property
    def _scheduler(self) -> Scheduler:
        scheduler = self._context.scheduler
        if scheduler is None:
            raise errors.SchedulerRefused("there is no scheduler")
        return scheduler

    def _in_scheduler(self, hostnames: tuple[str, ...]) -> tuple[SchedulerNode, ...]:
        listed = self._scheduler.nodes()
        if not listed.complete:
            raise errors.SchedulerError("its listing is incomplete")
        return tuple(node for node in listed.items if node.name in hostnames)

    def _tell_scheduler(self, effect: effects.TellScheduler) -> None:
        late_s = self._context.clock.boottime() - effect.not_after
        if late_s > 0:
            raise errors.SchedulerRefused(
                f"its order expired {late_s:.0f} s before it could be sent"
            )
        if effect.on:
            self._scheduler.drain(effect.hostname, "to be shut down")
        else:
            self._scheduler.resume(effect.hostname)

    def on_FindLeftovers(self, message: messages.FindLeftovers) -> None:
        try:
            answer = messages.LeftoversFound(self._context.cloud.find_leftovers())
        except errors.RemoteError as error:
            answer = messages.LeftoversFound((), error)
        self._context.report(answer)

    def on_ReleaseLeftover(self, message: messages.ReleaseLeftover) -> None:
        leftover = message.leftover
        try:
            answer = messages.LeftoverReleased(leftover, self._context.cloud.release(leftover))
        except errors.RemoteError as error:
            outcome = Outcome.FAILED if error.definite else Outcome.UNKNOWN
            answer = messages.LeftoverReleased(leftover, outcome, error)
        self._context.report(answer)


class RecordCleanerActor(WorkerActor):
    """Looks, fences (if the store can't compare), and writes; the daemon decides in between."""

    def _carry_out(self, effect: effects.Effect) -> Any:
        match effect:
            case effects.LookAtRecord():
                return self._look(effect)
            case effects.FenceRecord(record=record):
                return self._context.store.fence(record)
            case effects.LiftFence(record=record, ping_secret=secret):
                return self._context.store.unfence(record, secret)
            case effects.FreeRecord(record=record, reason=reason):
                return self._context.store.clean(record, reason)
            case effects.DeleteRecord(record=record):
                return self._context.store.delete(record)
            case effects.ReadRecord(uuid=uuid):
                return self._context.store.read(uuid)
            case effects.WriteClaim(record=record, claim=claim):
                return self._context.store.claim(record, claim)
            case effects.TellDrain(record=record, on=on):
                return self._context.store.drain(record, on=on)
            case effects.RestoreRecord(record=record, known=known):
                return self._context.store.restore(record, known)
        raise self._not_mine(effect)

    def _look(self, effect: effects.LookAtRecord) -> CleanEvidence:
        if effect.not_after is not None:
            self._check_in_time(effect.not_after)
        record = self._context.store.read(effect.uuid)
        asked_at = self._context.clock.boottime()
        tagged = self._context.cloud.find_by_record(effect.uuid)
        found = CleanEvidence(record, tagged, asked_at=asked_at)
        node_id = effect.instance_id or (record.instance_id if record is not None else None)
        if node_id is None or not effect.asks_id:
            return found
        try:
            by_id = self._context.cloud.ask(node_id)
        except errors.MalformedId:
            return replace(found, asked_id=True, malformed=True)
        return replace(found, by_id=by_id, asked_id=True)
