"""Logs each order of a plan, and begins its workflow."""

from __future__ import annotations

import secrets
from dataclasses import dataclass

from nodemanager.actors.base import tell
from nodemanager.actors.daemon.context import Context
from nodemanager.actors.daemon.false_cleans import FalseCleans
from nodemanager.actors.messages import RunErrands
from nodemanager.core.execute.news import OrdersBegun
from nodemanager.core.execute.setup import order_setup
from nodemanager.core.execute.workflow import Action
from nodemanager.core.model.settings import TOLD_WITHIN_S
from nodemanager.core.model.world import Claim
from nodemanager.core.plan.boots import BootOrder
from nodemanager.core.plan.plan import Plan


@dataclass(eq=False)
class PlanOrders:
    """Hands the orders of a plan to the runner."""

    _context: Context
    _false_cleans: FalseCleans

    def carry_out(self, made: Plan, now: float) -> None:
        """Log each order, and begin it unless this is a dry run (S3)."""
        event_log, runner = self._context.event_log, self._context.runner
        for clean in made.cleans:
            event_log.clean_ordered(clean)
        for prune in made.prunes:
            event_log.prune_ordered(prune)
        for shutdown in made.shutdowns:
            event_log.shutdown_ordered(shutdown)
        if not self._context.applies:
            for boot in made.boots:
                event_log.setup_started(boot, None)
            return
        for clean in made.cleans:
            runner.begin(Action.CLEAN, clean, clean.plan_id, now)
        for lift in made.lifts:
            runner.begin(Action.CLEAN, lift, lift.plan_id, now)
        for prune in made.prunes:
            runner.begin(Action.PRUNE, prune, prune.plan_id, now)
        for shutdown in made.shutdowns:
            runner.begin(Action.SHUTDOWN, shutdown, shutdown.plan_id, now)
        for drain in made.drains:
            runner.begin(Action.DRAIN, drain, drain.plan_id, now)
        for dispatch in made.dispatches:
            runner.begin(Action.DISPATCH, dispatch, dispatch.plan_id, now)
        if made.errands and self._context.team.demand is not None:
            errands = RunErrands(made.errands, made.plan_id, now + TOLD_WITHIN_S)
            tell(self._context.team.demand, errands)
        for life in made.restores:
            self._false_cleans.begin_restore(life, made.plan_id, now)
        for bind in made.binds:
            runner.begin(Action.BIND, bind, bind.plan_id, now)
        for boot in made.boots:
            self._begin_setup(boot, now)
        self._context.learn(OrdersBegun(told=self._context.team.demand is not None))

    def _begin_setup(self, boot: BootOrder, now: float) -> None:
        store = self._context.state.identity.store
        assert store is not None, "a plan with boots has seen a record poll"
        order = order_setup(boot, self._claim_for(boot), store, now)
        self._context.event_log.setup_started(boot, order.claim.incarnation)
        self._context.runner.begin(Action.SETUP, order, boot.plan_id, now)

    def _claim_for(self, boot: BootOrder) -> Claim:
        incarnation = secrets.token_hex(16)
        settings, inputs = self._context.settings, self._context.inputs
        return Claim(
            pool=settings.pool,
            manager=inputs.manager,
            token=inputs.token,
            at=0.0,
            node_name=f"compute-{incarnation[:12]}",
            incarnation=incarnation,
            size=boot.size.name,
            price=boot.size.price,
            window=settings.claim_window,
            image=self._context.history.image,
            instance_type=boot.size.instance_type,
        )
