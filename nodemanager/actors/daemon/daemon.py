"""The daemon actor: it alone decides, by asking core, and coordinates the other actors.

Every fact that arrives is folded into the one State. Then one `Decide` makes one plan from one
snapshot and hands out its orders. Core checks what a worker answers before anything is destroyed or
freed. This module only says which part handles which message.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from nodemanager.actors import messages
from nodemanager.actors.base import OnDeath, RoleActor, Timer, tell
from nodemanager.actors.daemon.backlog_marks import BacklogMarks
from nodemanager.actors.daemon.command_answers import OperatorMarks
from nodemanager.actors.daemon.context import Context, DaemonInputs
from nodemanager.actors.daemon.decisions import Decisions, PlanOrders
from nodemanager.actors.daemon.endings import Endings
from nodemanager.actors.daemon.identities import Identities
from nodemanager.actors.daemon.invariants import FalseCleans, Invariants
from nodemanager.actors.daemon.leftovers import LeftoverBook, LeftoverReleases
from nodemanager.actors.daemon.observations import Observations
from nodemanager.actors.daemon.operators import CommandHandler
from nodemanager.actors.daemon.recovery import Recovery
from nodemanager.actors.daemon.runner import Runner
from nodemanager.actors.daemon.workflow_shell import WorkflowShell
from nodemanager.actors.workers.worker_pool import WorkerPool
from nodemanager.core.execute.flights import WORKFLOWS
from nodemanager.core.execute.news import ErrandRun
from nodemanager.core.model.reasons import Event
from nodemanager.core.model.settings import Settings
from nodemanager.core.observe import facts
from nodemanager.core.operate.backlog import ApplyBacklog, ShowBacklog, StopBacklog
from nodemanager.core.replay.fold import Start
from nodemanager.lib.clock import Clock
from nodemanager.lib.log import Logger


@dataclass(frozen=True, slots=True)
class Parts:
    """The parts that messages go to."""

    observations: Observations
    false_cleans: FalseCleans
    decisions: Decisions
    releases: LeftoverReleases
    backlog: BacklogMarks
    operators: CommandHandler
    recovery: Recovery
    endings: Endings


def parts_of(context: Context) -> Parts:
    identities, endings = Identities(context), Endings(context)
    invariants, false_cleans = Invariants(context), FalseCleans(context)
    marks = OperatorMarks(context)
    leftovers = LeftoverBook(context)
    operators = CommandHandler(context, marks)
    backlog = BacklogMarks(context, identities)
    releases = LeftoverReleases(context, leftovers, endings.settled)
    observations = Observations(context, identities, invariants, false_cleans, endings)
    recovery = Recovery(context, false_cleans, invariants, backlog)
    orders = PlanOrders(context, false_cleans)
    decisions = Decisions(context, recovery, releases, backlog, operators, orders, endings)
    shell = WorkflowShell(context, invariants, releases, backlog, operators, endings)
    context.runner = Runner(WORKFLOWS, shell, context.journal_writer, context.log)
    return Parts(
        observations, false_cleans, decisions, releases, backlog, operators, recovery, endings
    )


class NodeManagerDaemonActor(RoleActor):
    """Routes each message to the part that handles it."""

    def __init__(
        self,
        *,
        settings: Settings,
        inputs: DaemonInputs,
        timer: Timer,
        clock: Clock,
        log: Logger,
        on_death: OnDeath,
    ) -> None:
        super().__init__(on_death)
        context = self._context = Context(
            settings=settings,
            inputs=inputs,
            timer=timer,
            clock=clock,
            log=log,
            actor=lambda: self.actor_ref,
        )
        parts = parts_of(context)
        self._recovery = parts.recovery
        self._routes = self._routes_to(parts)

    def _routes_to(self, parts: Parts) -> Mapping[type, Callable[[Any], None]]:
        return {
            messages.Begin: self._begin,
            messages.ApplySettings: self._apply_settings,
            facts.CloudPollBegun: self._context.fold,
            messages.CloudListed: parts.observations.cloud_listed,
            messages.CloudOffered: parts.observations.cloud_offered,
            messages.RecordsListed: parts.observations.records_listed,
            facts.DemandSeen: parts.observations.demand_seen,
            facts.SchedulerSeen: parts.observations.scheduler_seen,
            ErrandRun: parts.observations.errand_run,
            messages.PollFailed: parts.observations.poll_failed,
            facts.NodesAnswered: parts.false_cleans.answered,
            facts.TagsAnswered: parts.observations.tags_answered,
            messages.Decide: parts.decisions.decide,
            messages.CallsResume: self._context.calls_resume,
            messages.CarriedOut: self._carried_out,
            messages.WaitOver: self._wait_over,
            messages.TendLeftovers: parts.releases.due,
            messages.LeftoversFound: parts.releases.found,
            messages.LeftoverReleased: parts.releases.released,
            ShowBacklog: parts.backlog.show,
            ApplyBacklog: parts.backlog.apply,
            StopBacklog: parts.backlog.stop,
            messages.Ordered: parts.operators.order,
            messages.PowerAsked: self._power_asked,
            messages.Stop: parts.endings.stop,
        }

    def handler_of(self, message: Any) -> Callable[[Any], Any]:
        return self._routes[type(message)]

    def _begin(self, message: messages.Begin) -> None:
        context, team = self._context, message.team
        context.team = team
        context.setups = WorkerPool(team.setups, context.may_run)
        context.shutdowns = WorkerPool(team.shutdowns, context.may_run)
        context.cleaners = WorkerPool(team.cleaners, context.may_run)
        self._recovery.load()
        context.journal_writer.begin(
            Start(
                context.settings.pool,
                context.settings,
                context.clock.boottime(),
                context.clock.wall(),
                context.state,
                context.inputs.run_id,
            )
        )
        for poller in (team.record_list, team.cloud_list, team.demand):
            if poller is not None:
                tell(poller, messages.Poll())

    def _apply_settings(self, message: messages.ApplySettings) -> None:
        context = self._context
        context.settings = context.event_log.settings = message.settings
        context.fold(facts.SettingsTaken(message.settings, context.now))
        context.decide_soon()
        context.show_orders()

    def _power_asked(self, message: messages.PowerAsked) -> None:
        """What is asked for is in the nodes' states: have the scheduler say it now."""
        context = self._context
        context.log.event(
            Event.SCHEDULER_POWER, action=message.direction, host=message.nodes, by=message.by
        )
        if context.team is not None and context.team.demand is not None:
            tell(context.team.demand, messages.PollNow())

    def _carried_out(self, message: messages.CarriedOut) -> None:
        self._context.runner.carried_out(message, self._context.now)

    def _wait_over(self, message: messages.WaitOver) -> None:
        if self._context.stopping is None:
            self._context.runner.wait_over(message, self._context.now)
