"""The daemon's shutdowns: the last look, the destroy, and the wait for gone (SAFETY.md D2, D3)."""

from __future__ import annotations

from nodemanager.actors.clean_desk import why_not
from nodemanager.actors.intents import (
    destroy_intent,
    destroy_key,
)
from nodemanager.actors.leftover_desk import LeftoverDesk
from nodemanager.actors.messages import (
    AskGone,
    CheckGone,
    DestroyNode,
    DrainTold,
    GoneAsked,
    NodeDestroyed,
    ShutdownLooked,
    TellDrain,
)
from nodemanager.core import history as histories
from nodemanager.core.destroy import Destroyed, ShutdownOrder, confirm_shutdown, judge_gone
from nodemanager.core.drain import DrainOrder
from nodemanager.core.facts import NodesExplained
from nodemanager.core.model import Outcome
from nodemanager.core.orders import order_release
from nodemanager.core.reasons import Event, Kind, Reason
from nodemanager.core.settings import ASK_AGAIN_S
from nodemanager.core.verdict import keep
from nodemanager.errors import Throttled
from nodemanager.log import INFO, WARNING


class ShutdownDesk(LeftoverDesk):
    """Hands out looks and destroys; what is gone has its record cleaned at once (C20)."""

    def _begin_drain(self, order: DrainOrder) -> None:
        self._flights.drain_begun(order, self._clock.boottime())
        self._cleaner.give(order.record.uuid, TellDrain(order))

    def on_DrainTold(self, message: DrainTold) -> None:
        order = message.order
        self._cleaner.done(order.record.uuid)
        if isinstance(message.error, Throttled):
            self._throttled(message.error)
        self._flights.drain_told(order, message.record, self._clock.boottime())
        self._log.event(
            Event.NODE_DRAIN,
            level=INFO if message.error is None else WARNING,
            node=order.node_id,
            record=order.record.uuid,
            reason=order.reason,
            action="drain" if order.on else "resume",
            error=message.error,
            plan=order.plan_id,
        )
        self._settled()

    def on_ShutdownLooked(self, message: ShutdownLooked) -> None:
        order = message.order
        if not self._flights.is_shutdown(order):
            self._shutdowns.done(order.node_id)
            self._settled()
            return
        wants = self._plan.wants if self._plan is not None else None
        verdict = confirm_shutdown(
            order,
            message.found,
            self._snapshot(order.plan_id, without=order.node_id),
            self._settings,
            wanted=wants is not None and order.size in wants.unmet,
        )
        if self._deciding and order.cancellable and verdict.kind is Kind.SHUTDOWN:
            verdict = keep(
                order.node_id, Reason.CHANGED_SINCE_PLAN, detail="news that no plan has weighed yet"
            )
        reason, measures = why_not(verdict)
        self._count_look(message, too_late=reason is Reason.ORDER_EXPIRED)
        if verdict.kind is Kind.SHUTDOWN and self._stopping is None:
            refused = self._enter_pins(message)
            if refused is None:
                if self._scribe.intend([destroy_intent(order)]):
                    self._shutdowns.go_on(order.node_id, DestroyNode(order))
                    return
                self._leftovers.called_off(order.node_id)
                refused = Reason.READ_ONLY, {"detail": self._scribe.problem}
            reason, measures = refused
        self._flights.shutdown_ended(order.node_id, self._clock.boottime())
        self._log.event(
            Event.NODE_SHUTDOWN_SKIPPED,
            **{"node": order.node_id, "reason": reason, **measures},
            plan=order.plan_id,
        )
        self._shutdowns.done(order.node_id)
        self._settled()

    def on_NodeDestroyed(self, message: NodeDestroyed) -> None:
        order = message.order
        self._shutdowns.done(order.node_id)
        now = self._clock.boottime()
        self._flights.destroy_sent(Destroyed(order, now))
        if isinstance(message.error, Throttled):
            self._throttled(message.error)
        if message.outcome is Outcome.GONE:
            self._gone(order)
            return
        if message.outcome is Outcome.FAILED:
            self._flights.shutdown_ended(order.node_id, now)
            self._leftovers.called_off(order.node_id)
            self._conclude(destroy_key(order.node_id), Outcome.FAILED.value)
            self._log.event(
                Event.NODE_SHUTDOWN_FAILED,
                level=WARNING,
                node=order.node_id,
                outcome=message.outcome,
                error=message.error,
                plan=order.plan_id,
            )
            self._settled()
            return
        if message.error is not None:
            self._log.event(
                Event.NODE_SHUTDOWN_FAILED,
                level=WARNING,
                node=order.node_id,
                outcome=message.outcome,
                error=message.error,
                plan=order.plan_id,
            )
        self._ask_gone_later(order)

    def _ask_gone_later(self, order: ShutdownOrder) -> None:
        now = self._clock.boottime()
        wait_s = self._flights.next_question_s(order.node_id, self._settings.max_poll_time)
        destroyed = self._flights.destroyed.get(order.node_id)
        if destroyed is not None and destroyed.denied_at is not None:
            # A second "no such node" settles it (D3).
            wait_s = max(1.0, destroyed.denied_at + ASK_AGAIN_S - now)
        self._timer.after(wait_s, self.actor_ref, CheckGone(order))
        self._settled()

    def on_CheckGone(self, message: CheckGone) -> None:
        order = message.order
        destroyed = self._flights.destroyed.get(order.node_id)
        if destroyed is None or destroyed.order is not order or self._stopping is not None:
            return
        wait_s = self._limits.throttled_until - self._clock.boottime()
        if wait_s > 0:
            self._timer.after(wait_s, self.actor_ref, message)
        else:
            self._shutdowns.give(order.node_id, AskGone(order))

    def on_GoneAsked(self, message: GoneAsked) -> None:
        order = message.order
        self._shutdowns.done(order.node_id)
        destroyed = self._flights.destroyed.get(order.node_id)
        if destroyed is None:
            self._settled()
            return
        if isinstance(message.error, Throttled):
            self._throttled(message.error)
        error = None if message.error is None else str(message.error)
        self._recovery.answered(destroy_key(order.node_id), error)
        if message.error is not None:
            self._log.event(
                Event.NODE_SHUTDOWN_FAILED,
                level=WARNING,
                node=order.node_id,
                outcome=Outcome.UNKNOWN,
                error=message.error,
                plan=order.plan_id,
            )
            self._ask_gone_later(order)
            return
        now, clock = self._clock.boottime(), self._history.clock
        wall = self._clock.wall()
        if clock is not None:
            # A wall clock that stepped ahead makes no node old enough.
            wall = min(wall, clock.now(now))
        outcome, destroyed = judge_gone(destroyed, message.node, now, wall, self._settings)
        self._flights.destroy_sent(destroyed)
        if outcome is Outcome.GONE:
            self._gone(order)
        else:
            self._ask_gone_later(order)

    def _gone(self, order: ShutdownOrder) -> None:
        now = self._clock.boottime()
        self._flights.shutdown_ended(order.node_id, now)
        self._flights.gone[order.node_id] = now
        self._scribe.note(NodesExplained((order.node_id,), now))
        self._history = histories.explained(self._history, (order.node_id,))
        self._narrator.forget_node(order.node_id)
        self._flights.shut_down(order, now)
        self._log.event(
            Event.NODE_GONE,
            node=order.node_id,
            reason=order.reason,
            record=order.record,
            host=order.hostname,
            size=order.size,
            outcome=Outcome.GONE,
            plan=order.plan_id,
        )
        if order.reason is Reason.BOOT_FAILED:
            self._boot_failed(order.node_id, order.size)
        if order.record is not None and order.reason is not Reason.UNPAIRED:
            clean = order_release(
                order.record,
                Reason.AFTER_SHUTDOWN,
                self._snapshot(order.plan_id),
                incarnation=order.incarnation,
                instance_id=order.node_id,
                slot=order.slot,
                hostname=order.hostname,
            )
            self._narrator.clean_ordered(clean)
            self._begin_clean(clean)
        # Only now: until the clean is written down, the destroy is what leads to it.
        if order.record is None or self._scribe.problem is None:
            self._conclude(destroy_key(order.node_id), Outcome.GONE.value)
        self._leftovers.ended(order.node_id, now)
        self._tend_leftovers()
        self._settled()
