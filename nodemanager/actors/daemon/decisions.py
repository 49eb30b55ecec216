"""Takes decisions: core plans, the plan is logged and shown, and its orders are begun."""

from __future__ import annotations

import secrets
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from nodemanager.actors.base import tell
from nodemanager.actors.daemon.backlog_marks import BacklogMarks
from nodemanager.actors.daemon.context import Context
from nodemanager.actors.daemon.endings import Endings
from nodemanager.actors.daemon.invariants import FalseCleans
from nodemanager.actors.daemon.leftovers import LeftoverReleases
from nodemanager.actors.daemon.operators import CommandHandler
from nodemanager.actors.daemon.recovery import Recovery
from nodemanager.actors.messages import AskNodes, AskTagged, Decide, RunErrands
from nodemanager.core.execute.news import Deciding, OrdersBegun
from nodemanager.core.execute.setup import order_setup
from nodemanager.core.execute.workflow import Action
from nodemanager.core.explain.explain import DecisionView
from nodemanager.core.judge.preconditions import plan_block
from nodemanager.core.model.reasons import Reason
from nodemanager.core.model.settings import TOLD_WITHIN_S
from nodemanager.core.model.verdict import Objection
from nodemanager.core.model.world import Claim
from nodemanager.core.observe.history import Nodes
from nodemanager.core.observe.snapshot import Snapshot
from nodemanager.core.plan.leftovers import counts
from nodemanager.core.plan.orders import BootOrder
from nodemanager.core.plan.plan import Plan, plan
from nodemanager.core.replay.fold import Decision


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
        orders: tuple[tuple[Action, Iterable[Any]], ...] = (
            (Action.CLEAN, (*made.cleans, *made.lifts)),
            (Action.PRUNE, made.prunes),
            (Action.SHUTDOWN, made.shutdowns),
            (Action.DRAIN, made.drains),
            (Action.DISPATCH, made.dispatches),
        )
        for action, ordered in orders:
            for one in ordered:
                runner.begin(action, one, now)
        if made.errands and self._context.team.demand is not None:
            errands = RunErrands(made.errands, made.plan_id, now + TOLD_WITHIN_S)
            tell(self._context.team.demand, errands)
        for life in made.restores:
            self._false_cleans.begin_restore(life, made.plan_id, now)
        for bind in made.binds:
            runner.begin(Action.BIND, bind, now)
        for boot in made.boots:
            store = self._context.state.identity.store
            assert store is not None, "a plan with boots has seen a record poll"
            order = order_setup(boot, self._claim_for(boot), store, now)
            self._context.event_log.setup_started(boot, order.claim.incarnation)
            self._context.runner.begin(Action.SETUP, order, now)
        self._context.learn(OrdersBegun(with_errands=self._context.team.demand is not None))

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


@dataclass(eq=False)
class Decisions:
    """Takes each decision by asking core, and begins what the plan orders."""

    _context: Context
    _recovery: Recovery
    _releases: LeftoverReleases
    _backlog: BacklogMarks
    _operators: CommandHandler
    _orders: PlanOrders
    _endings: Endings
    _asked_after: Nodes | None = None
    _tags_asked_after: Nodes | None = None

    def decide(self, message: Decide) -> None:
        self._context.decides()
        self._recovery.mend()
        now, rests = self._context.now, self._context.limits.places
        self._context.learn(Deciding())
        self._context.event_log.places_resumed(rests, self._context.limits.places)
        if self._context.journal_writer.problem is None:
            self._context.runner.heal(now)
        self._context.runner.expire(now, self._context.settings.action_timeout)
        self._recovery.go_on()
        made = self._decided(now)
        self._ask(made)
        if self._undone(made, now) is None:
            self._endings.applied()
            self._orders.carry_out(made, now)
        self._releases.tend()
        self._endings.settled()
        self._context.decided(self._context.now - now)

    def _decided(self, now: float) -> Plan:
        """Make the plan of this moment, enter it into the State, log it and show it."""
        context = self._context
        plan_id = f"{context.inputs.run_id}-{context.state.plans + 1}"
        self._operators.questions.before_plan()
        snapshot = context.snapshot(plan_id)
        new_records, before = context.state.new_records, context.state.plan
        made = plan(snapshot, context.settings, new_records=new_records, before=before)
        is_first = context.state.backlog.first_clean
        context.after_decision(made, now)
        if is_first and made.backlog:
            context.event_log.backlog_found(len(made.backlog))
        self._backlog.save()
        undone = self._undone(made, now) if self._operators.questions.waits else None
        self._operators.questions.after_plan(made, snapshot, undone=undone)
        context.event_log.plan(made, now)
        took_s = context.now - now
        context.journal_writer.decided(Decision(snapshot, made, new_records, took_s))
        self._backlog.after_plan(made, snapshot)
        self._show(made, snapshot, took_s)
        return made

    def _show(self, made: Plan, snapshot: Snapshot, took_s: float) -> None:
        context = self._context
        context.show(
            DecisionView(
                snapshot,
                made,
                context.settings,
                mode=context.inputs.mode,
                took_s=took_s,
                marks=context.state.marks,
                leftovers=counts(context.state.ledger),
                account=context.state.identity.account or "",
                store=context.state.identity.store or "",
            )
        )

    def _ask(self, made: Plan) -> None:
        """Ask the cloud what the plan wants to know, once for each cloud listing."""
        context = self._context
        cloud, goes_on = context.history.cloud, context.stopping is None
        if made.ask and self._asked_after is not cloud and goes_on:
            self._asked_after = cloud
            tell(context.team.cloud_list, AskNodes(made.ask))
        if made.ask_tagged and self._tags_asked_after is not cloud:
            self._tags_asked_after = cloud
            if goes_on:
                tell(context.team.cloud_list, AskTagged(made.ask_tagged))

    def _undone(self, made: Plan, now: float) -> Objection | None:
        """Why this plan's orders are not carried out; None if they are."""
        context, identity = self._context, self._context.state.identity
        read_only = context.journal_writer.problem or (
            "; ".join(identity.read_only) if identity.failed else ""
        )
        stopping = context.stopping is not None
        why = plan_block(made.aborted, context.limits, now, stopping=stopping, read_only=read_only)
        if why is not None:
            if why.reason is Reason.READ_ONLY:
                self._endings.cannot_act()
            return why
        return None if self._endings.may_apply(made) else Objection(Reason.ONE_PLAN)
